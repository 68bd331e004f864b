// The settings of a project: names of the classes, and the column with the text.

import { $, attempt, h, setError, setText, show } from "./dom.js";
import { act, onState, store } from "./store.js";

let isOpen = false;

function readClasses() {
  return $("setup-classes").value.split(",").map((name) => name.trim()).filter(Boolean);
}

async function saveClasses(event) {
  event.preventDefault();
  const classes = readClasses();
  if (classes.length < 2 || new Set(classes).size < classes.length) {
    setError($("setup-error"), "Enter at least two different classes, separated by commas.");
    return;
  }
  if (await attempt($("setup-error"), () => act({ type: "set_classes", classes }))) toggle(false);
}

/** Open or close the form with the classes. It stays open as long as there are none. */
function toggle(open) {
  isOpen = open;
  if (open) $("setup-classes").value = store.state.classes.join(", ");
  setError($("setup-error"), "");
  render(store.state);
  (open ? $("setup-classes") : $("classes-open")).focus();
}

const saveText = () => attempt($("problem"), () => act({ type: "set_columns", text: $("text-column").value }));

function render(state) {
  const isReady = state.classes.length > 1;
  show($("setup"), !isReady || isOpen);
  setText($("setup-h"), isReady ? "Rename or add classes" : "Name the classes");
  show($("setup-cancel"), isReady);
  show($("classes-open"), isReady);
  $("classes-open").setAttribute("aria-expanded", String(isReady && isOpen));
  for (const id of ["add", "sources", "suggestions"]) show($(id), isReady);
  const { columns, text_column: text, id_column: id } = state.data;
  const texts = columns.filter(({ type, name }) => type === "text" && name !== id).map(({ name }) => name);
  show($("text-choice"), texts.length > 1);
  const select = $("text-column");
  const key = JSON.stringify(texts);
  if (select.dataset.content !== key) {
    select.dataset.content = key;
    select.replaceChildren(...texts.map((name) => h("option", { value: name }, name)));
  }
  if (text !== null) select.value = text;
}

export function startSetup() {
  $("setup-form").addEventListener("submit", saveClasses);
  $("setup-cancel").addEventListener("click", () => toggle(false));
  $("classes-open").addEventListener("click", () => toggle(!isOpen));
  $("text-column").addEventListener("change", saveText);
  onState(render);
}
