// The form that adds or changes a rule, with a preview of what it matches while a person types.

import { isAbort, post, superseding } from "./api.js";
import { KINDS, SIGNS } from "./describe.js";
import { $, debounce, h, percent, plural, setError, setText, show } from "./dom.js";
import { marked } from "./text.js";
import { act, onState, store } from "./store.js";

const PREVIEW_MS = 200;
const BUSY_MS = 400;
const MAX_EXAMPLES = 4;
const parts = {};
const latest = superseding();
let editing = null;

for (const control of document.querySelectorAll("#rule-form .field, #rule-form [type=checkbox]")) {
  const name = control.id.replace("rule-", "");
  parts[name] = { control, box: control.parentElement, error: $(`${control.id}-error`) };
}

const value = (name) => parts[name].control.value;
const words = () => value("words").split(",").map((word) => word.trim()).filter(Boolean);

function listen() {
  const form = $("rule-form");
  setOptions(parts.operator.control, Object.entries(SIGNS));
  parts.kind.control.addEventListener("change", () => {
    arrange();
    preview.now();
  });
  form.addEventListener("input", () => preview());
  form.addEventListener("change", () => preview());
  form.addEventListener("submit", send);
  $("rule-cancel").addEventListener("click", () => reset(true));
}

function setOptions(select, options) {
  const key = JSON.stringify(options);
  if (select.dataset.content === key) return;
  select.dataset.content = key;
  const chosen = select.value;
  select.replaceChildren(...options.map(([code, text]) => h("option", { value: String(code) }, text)));
  if (options.some(([code]) => String(code) === chosen)) select.value = chosen;
}

function columnsOf(state, type) {
  return state.data.columns.filter((column) => column.type === type).map(({ name }) => [name, name]);
}

/** Vote columns and functions that are not sources yet, or that the edited source uses. */
function freeColumns(state) {
  const used = new Set(
    state.sources.filter(
      (row) => row.kind === "column" && row.id !== editing,
    ).map((row) => row.source.column),
  );
  return columnsOf(state, "vote").filter(([name]) => !used.has(name));
}

function freeFunctions(state) {
  const used = new Set(
    state.sources.filter((row) => row.kind === "function").map((row) => row.source.function),
  );
  return (state.data.functions || []).filter((entry) => !used.has(entry.function)).map(
    (entry) => [JSON.stringify([entry.file, entry.function]), entry.function],
  );
}

function fill(state) {
  // Rules about identifiers are rarely meant.
  const texts = columnsOf(state, "text").filter(([name]) => name !== state.data.id_column);
  const numbers = columnsOf(state, "number");
  const columns = freeColumns(state);
  const functions = freeFunctions(state);
  const available = {
    keywords: texts.length,
    regex: texts.length,
    comparison: numbers.length,
    similarity: state.data.similarity,
    column: columns.length,
    function: functions.length,
  };
  setOptions(parts.kind.control, Object.entries(KINDS).filter(([kind]) => available[kind]));
  setOptions(parts.number.control, numbers);
  setOptions(parts.votes.control, columns);
  setOptions(parts.function.control, functions);
  setOptions(parts.column.control, texts);
  if (!parts.column.touched && texts.some(([name]) => name === state.data.text_column)) {
    parts.column.control.value = state.data.text_column;
    parts.column.touched = true;
  }
  setOptions(parts.label.control, state.classes.map((name, label) => [label, name]));
  arrange();
}

/** Show the fields of the chosen kind. */
function arrange() {
  const kind = value("kind");
  const isText = kind === "keywords" || kind === "regex";
  const shown = {
    words: kind === "keywords",
    pattern: kind === "regex",
    number: kind === "comparison",
    operator: kind === "comparison",
    value: kind === "comparison",
    item: kind === "similarity",
    at_least: kind === "similarity",
    votes: kind === "column",
    function: kind === "function",
    label: kind !== "column" && kind !== "function",
    column: isText && parts.column.control.options.length > 1,
    whole_words: kind === "keywords",
    ignore_case: isText,
  };
  for (const [name, visible] of Object.entries(shown)) show(parts[name].box, visible);
}

/** The source that the form describes, or null if something needed is still empty. */
function read() {
  const kind = value("kind");
  const source = { kind };
  if (value("name").trim()) source.name = value("name").trim();
  if (kind === "column") return value("votes") ? { ...source, column: value("votes") } : null;
  if (kind === "function") {
    if (!value("function")) return null;
    const [file, name] = JSON.parse(value("function"));
    return { ...source, file, function: name };
  }
  source.label = Number(value("label"));
  if (kind === "keywords" || kind === "regex") {
    source.column = value("column");
    source.ignore_case = parts.ignore_case.control.checked;
  }
  switch (kind) {
    case "keywords":
      return words().length ? {
        ...source,
        words: words(),
        whole_words: parts.whole_words.control.checked,
      } : null;
    case "regex":
      return value("pattern") ? { ...source, pattern: value("pattern") } : null;
    case "comparison":
      return value("value") === "" ? null : {
        ...source,
        column: value("number"),
        operator: value("operator"),
        value: Number(value("value")),
      };
    default:
      return value("item") === "" ? null : {
        ...source,
        item: Number(value("item")),
        at_least: Number(value("at_least")),
      };
  }
}

const OWN = {
  pattern: "pattern",
  words: "words",
  value: "value",
  operator: "operator",
  item: "item",
  at_least: "at_least",
  label: "label",
  name: "name",
};

function showErrors(error) {
  for (const part of Object.values(parts)) {
    if (!part.error) continue;
    setError(part.error, "");
    part.control.removeAttribute("aria-invalid");
  }
  setError($("rule-error"), "");
  if (!error) return;
  const part = parts[OWN[error.field]];
  if (part && !part.box.hidden && part.box.isConnected) {
    setError(part.error, error.message);
    part.control.setAttribute("aria-invalid", "true");
    if (error.field === "name") $("rule-options").open = true;
  } else setError($("rule-error"), error.message);
}

const preview = debounce(async () => {
  const source = read();
  if (!source) {
    latest.cancel();
    showErrors(null);
    show($("preview"), false);
    return;
  }
  const busy = setTimeout(() => setText($("preview-count"), "Looking for matches…"), BUSY_MS);
  try {
    const found = await latest.run((signal) => post("/api/preview", { source }, signal));
    showErrors(null);
    showPreview(source, found);
    // A part of the items was searched so far: ask for more, unless a person types.
    const [done, total] = found.progress || [1, 1];
    if (done < total) preview();
  } catch (error) {
    if (isAbort(error)) return;
    show($("preview"), false);
    showErrors(error);
  } finally {
    clearTimeout(busy);
  }
}, PREVIEW_MS);

function showPreview(source, found) {
  show($("preview"), true);
  const [done, total] = found.progress || [store.state.data.n_items, store.state.data.n_items];
  const among = done < total ? ` among the first ${plural(done, "item")}` : "";
  const share = done ? ` (${percent(found.matches / done)})` : "";
  const matches = found.matches ? `Matches ${plural(found.matches, "item")}${share}` : "No item matches";
  setText($("preview-count"), `${matches}${among}.`);
  const wanted = source.kind === "keywords" ? source.words : [];
  const shown = (found.examples || []).slice(0, MAX_EXAMPLES);
  const examples = shown.map((item) => h("li", {}, ...describeExample(source, item, wanted)));
  $("preview-examples").replaceChildren(...examples);
}

function describeExample(source, item, wanted) {
  const shown = marked(item.text || "", wanted, { around: 110 });
  if (source.kind !== "comparison" || !item.fields) return shown;
  const number = h("b", {}, `${source.column} ${item.fields[source.column]}`);
  return [number, " ", ...(item.text ? shown : [`(item ${item.id ?? item.index})`])];
}

async function send(event) {
  event.preventDefault();
  const source = read();
  if (!source) {
    focusForm();
    return;
  }
  const button = $("rule-submit");
  button.disabled = true;
  try {
    await act(editing ? { type: "update_source", id: editing, source } : { type: "add_source", source });
    // A person may have typed the next rule while this one was sent.
    if (JSON.stringify(read()) === JSON.stringify(source)) {
      reset(false);
      // The disabled button lost the focus; a person who went elsewhere keeps it there.
      const focused = document.activeElement;
      if (focused === document.body || $("rule-form").contains(focused)) focusForm();
    }
  } catch (error) {
    showErrors(error);
  } finally {
    button.disabled = false;
  }
}

function reset(refocus) {
  const row = editing;
  editing = null;
  preview.cancel();
  latest.cancel();
  for (const name of ["words", "pattern", "value", "item", "name"]) parts[name].control.value = "";
  parts.kind.control.disabled = false;
  showErrors(null);
  show($("preview"), false);
  show($("rule-cancel"), false);
  setText($("rule-submit"), "Add");
  setText($("add-h"), "Add a rule");
  if (refocus && row) document.querySelector(`[data-key="${CSS.escape(row)}"] .edit`)?.focus();
}

/** Fill the form with a rule of the table. */
export function editRule(row) {
  const { source } = row;
  editing = row.id;
  fill(store.state);
  const { kind } = source;
  parts.kind.control.value = kind;
  parts.kind.control.disabled = true;
  const values = {
    words: source.words?.join(", "),
    pattern: source.pattern,
    operator: source.operator,
    value: source.value,
    item: source.item,
    at_least: source.at_least,
    label: source.label,
    name: source.name,
    [kind === "comparison" ? "number" : "column"]: source.column,
  };
  for (const [name, content] of Object.entries(values)) {
    if (content !== undefined && content !== null) parts[name].control.value = String(content);
  }
  for (const name of ["whole_words", "ignore_case"]) parts[name].control.checked = source[name] !== false;
  arrange();
  show($("rule-cancel"), true);
  setText($("rule-submit"), "Save");
  setText($("add-h"), `Edit ${row.name}`);
  $("add").scrollIntoView({ block: "nearest" });
  focusForm();
  preview.now();
}

const FIRST = { keywords: "words", regex: "pattern", comparison: "value", similarity: "item" };

export function focusForm() {
  parts[FIRST[value("kind")] || "kind"].control.focus();
}

/** Offer a rule by similarity to an item. */
export function similarTo(index) {
  parts.kind.control.value = "similarity";
  parts.item.control.value = String(index);
  arrange();
  focusForm();
  preview.now();
}

export function startForm() {
  listen();
  onState((state) => {
    if (editing && !state.sources.some((row) => row.id === editing)) reset(false);
    fill(state);
  });
}
