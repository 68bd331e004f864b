// The list of items: search, filters, pages, gold labels by one key, explanations.

import { get, isAbort, superseding } from "./api.js";
import { $, chip, count, debounce, h, hue, percent, plural, reconcile, setError, setText, show } from "./dom.js";
import { similarTo } from "./form.js";
import { marked } from "./text.js";
import { act, onState, store } from "./store.js";

const PAGE = 50;
const NEXT = 10;
const MAX_CHIPS = 8;
const FILTERS = {
  all: ["All", "All items"],
  next: ["Label next", "Items whose gold labels would help most"],
  disagreement: ["Disagreement", "Items on which sources vote for different classes"],
  uncertain: ["Uncertain", "Items with votes, least certain first"],
  uncovered: ["No votes", "Items on which every source abstains"],
  gold: ["Gold", "Items with a gold label"],
  source: ["By source", "Items that a source votes on"],
  class: ["By class", "Items with this label"],
};

const view = { filter: "all", source: null, label: 0, search: "", offset: 0 };
const list = { items: [], sources: [], total: 0, revision: null };
const open = new Set();
const latest = superseding();
let current = null;

/* ---- what is shown: kept in the address, so that it survives a reload ---- */

function remember() {
  const kept = new URLSearchParams();
  if (view.filter !== "all") kept.set("filter", view.filter);
  if (view.filter === "source" && view.source) kept.set("source", view.source);
  if (view.filter === "class") kept.set("label", String(view.label));
  if (view.search) kept.set("search", view.search);
  if (view.offset) kept.set("offset", String(view.offset));
  history.replaceState(null, "", `${location.pathname}${kept.size ? `#${kept}` : ""}`);
}

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  if (kept.get("filter") in FILTERS) view.filter = kept.get("filter");
  view.source = kept.get("source");
  view.label = Number(kept.get("label")) || 0;
  view.search = kept.get("search") || "";
  view.offset = Math.max(0, Number(kept.get("offset")) || 0);
}

function address() {
  if (view.filter === "next") return `/api/next?limit=${NEXT}`;
  const query = new URLSearchParams({ filter: view.filter, offset: String(view.offset), limit: String(PAGE) });
  if (view.filter === "source") query.set("source", view.source);
  if (view.filter === "class") query.set("label", String(view.label));
  if (view.search) query.set("search", view.search);
  return `/api/items?${query}`;
}

/* ---- loading ---- */

async function load(path = address()) {
  const slow = setTimeout(() => $("item-list").setAttribute("aria-busy", "true"), 300);
  try {
    const answer = await latest.run((signal) => get(path, signal));
    list.items = answer.items;
    list.sources = answer.sources || store.state.sources.filter((row) => row.enabled).map((row) => row.id);
    if (answer.total !== undefined && path === address()) list.total = answer.total;
    else if (view.filter === "next") list.total = answer.items.length;
    setError($("items-error"), "");
    if (!list.items.length && view.offset && list.total) {
      view.offset = Math.floor((list.total - 1) / PAGE) * PAGE;
      return await load();
    }
    render();
  } catch (error) {
    if (!isAbort(error)) setError($("items-error"), error.message);
  } finally {
    clearTimeout(slow);
    $("item-list").removeAttribute("aria-busy");
  }
}

/** Show another part of the data: the first item becomes the current one. */
async function change(values, { keepOffset = false } = {}) {
  Object.assign(view, keepOffset ? {} : { offset: 0 }, values);
  open.clear();
  remember();
  renderFilters();
  await load();
  const focused = $("item-list").contains(document.activeElement);
  select(0, { focus: focused });
  $("items").scrollTo?.({ top: 0 });
}

/** After a gold label the items stay where they are; after any other change the list is made again. */
const follow = debounce((cause) => {
  if ((cause === "set_gold" || view.filter === "next") && list.items.length) {
    load(`/api/items?filter=indexes&indexes=${list.items.map((item) => item.index).join(",")}&limit=${list.items.length}`);
  } else load();
}, 60);

/* ---- drawing ---- */

function createItem({ index }) {
  const element = h("li", { class: "item", tabindex: "-1", on: { focusin: () => setCurrent(index), click: () => setCurrent(index) } },
    h("div", { class: "top" }, h("span", { class: "id" }), h("span", { class: "result" })),
    h("p", { class: "text" }),
    h("ul", { class: "votes", "aria-label": "Votes" }),
    h("div", { class: "line tight marks" }, h("span", { class: "gold", role: "group" }),
      h("button", { type: "button", class: "link explain", "aria-expanded": "false", on: { click: () => toggle(index) } }, "Explain")),
    h("div", { class: "inside", hidden: true }));
  return element;
}

function updateItem(element, item) {
  const { classes } = store.state;
  const names = new Map(store.state.sources.map((row) => [row.id, row.name]));
  const votes = list.sources.flatMap((id, at) => (item.votes?.[at] === null || item.votes?.[at] === undefined ? [] : [[names.get(id) ?? id, item.votes[at]]]));
  const key = JSON.stringify([item, votes, classes, view.search]);
  if (element.dataset.content === key) return;
  const isNewText = element.dataset.text !== `${item.text}${view.search}`;
  element.dataset.content = key;
  setText(element.querySelector(".id"), `${item.id ?? item.index}`);
  element.querySelector(".result").replaceChildren(...result(item, classes));
  if (isNewText) {
    element.dataset.text = `${item.text}${view.search}`;
    const text = item.text ?? "";
    element.querySelector(".text").replaceChildren(...(text ? marked(text, view.search ? [view.search] : []) : [fieldsOf(item)]));
  }
  const shown = votes.slice(0, MAX_CHIPS);
  element.querySelector(".votes").replaceChildren(
    ...shown.map(([name, label]) => h("li", {}, h("span", { class: `chip ${hue(label)}`, title: `${name} votes ${classes[label]}` }, h("bdi", {}, name), h("span", { class: "hidden" }, ` votes ${classes[label]}`)))),
    ...(votes.length > MAX_CHIPS ? [h("li", { class: "note" }, `${count(votes.length - MAX_CHIPS)} more`)] : []),
    ...(votes.length ? [] : [h("li", { class: "note" }, "No votes")]));
  renderGold(element.querySelector(".gold"), item, classes);
  if (open.has(item.index)) explain(element, item);
}

/** Items without text show their fields instead. */
function fieldsOf(item) {
  const shown = Object.entries(item.fields || {}).slice(0, 8).map(([name, content]) => `${name}: ${content ?? "–"}`);
  return h("span", { class: "soft" }, shown.join(" · ") || "(empty)");
}

function result(item, classes) {
  if (item.label === null || item.label === undefined || !item.proba) return [h("span", { class: "note" }, "no label")];
  const bar = h("span", { class: "stack small", role: "img", "aria-label": `Probabilities: ${item.proba.map((p, label) => `${classes[label]} ${percent(p, 0)}`).slice(0, 8).join(", ")}` },
    item.proba.map((p, label) => h("i", { class: hue(label), style: { width: `${p * 100}%` } })));
  return [chip(item.label, classes[item.label]), h("span", { class: "p" }, percent(item.proba[item.label], 0)), bar];
}

function renderGold(box, item, classes) {
  box.setAttribute("aria-label", `Gold label of item ${item.id ?? item.index}`);
  if (classes.length > 9) {
    const select = h("select", { class: "field small", "aria-label": `Gold label of item ${item.id ?? item.index}`, on: { change: () => label(item.index, select.value === "" ? null : Number(select.value)) } },
      h("option", { value: "" }, "no gold label"), classes.map((name, at) => h("option", { value: String(at), selected: item.gold === at }, name)));
    box.replaceChildren(select);
    return;
  }
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.label : null;
  box.replaceChildren(...classes.map((name, at) => {
    const pressed = item.gold === at;
    return h("button", {
      type: "button", class: `key-button ${hue(at)}`, "aria-pressed": String(pressed), dataset: { label: String(at) },
      title: pressed ? `Remove the gold label (u)` : `Gold label ${name} (${at + 1})`,
      on: { click: () => label(item.index, pressed ? null : at) },
    }, h("kbd", { "aria-hidden": "true" }, String(at + 1)), " ", h("bdi", {}, name));
  }));
  if (focused !== null) box.querySelector(`[data-label="${focused}"]`)?.focus();
}

async function explain(element, item) {
  const inside = element.querySelector(".inside");
  const button = element.querySelector(".explain");
  show(inside, true);
  element.classList.add("open");
  button.setAttribute("aria-expanded", "true");
  setText(button, "Hide explanation");
  try {
    const found = await get(`/api/items/${item.index}`);
    if (!open.has(item.index)) return;
    inside.replaceChildren(...explanation(found));
    const whole = found.item.text ?? "";
    if (whole.length > (item.text ?? "").length) element.querySelector(".text").replaceChildren(...marked(whole, view.search ? [view.search] : []));
  } catch (error) {
    inside.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }
}

function explanation({ item, explanation: lines = [] }) {
  const { classes } = store.state;
  const nodes = [];
  if (lines.length) {
    const largest = Math.max(0.01, ...lines.map((line) => Math.abs(line.log_odds)));
    nodes.push(
      h("table", { class: "why" },
        h("caption", {}, item.label === null || item.label === undefined ? "Contributions to the log odds" : `Contributions to the log odds of ${classes[item.label]}`),
        h("thead", { class: "hidden" }, h("tr", {}, ...["Source", "Vote", "Log odds", "Chart"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, lines.map((line) => {
          const width = `${(Math.abs(line.log_odds) / largest) * 50}%`;
          const side = line.log_odds >= 0 ? { left: "50%", width } : { right: "50%", width };
          return h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, line.source)),
            h("td", {}, line.vote === null || line.vote === undefined ? "" : chip(line.vote, classes[line.vote])),
            h("td", { class: "n" }, `${line.log_odds >= 0 ? "+" : "−"}${Math.abs(line.log_odds).toFixed(2)}`),
            h("td", { class: "diverging", "aria-hidden": "true" }, h("i", { class: line.log_odds >= 0 ? "" : "bad", style: side })));
        }))));
  } else nodes.push(h("p", { class: "note" }, "No source votes on this item, so its probabilities are the class balance."));
  const fields = Object.entries(item.fields || {});
  if (fields.length) nodes.push(h("dl", {}, fields.flatMap(([name, content]) => [h("dt", {}, name), h("dd", {}, content === null ? "–" : String(content))])));
  if (store.state.data.similarity) {
    nodes.push(h("button", { type: "button", class: "button small", on: { click: () => similarTo(item.index) } }, "Write a rule for similar items"));
  }
  return nodes;
}

function toggle(index) {
  const element = elementOf(index);
  if (!element) return;
  if (open.has(index)) {
    open.delete(index);
    show(element.querySelector(".inside"), false);
    element.classList.remove("open");
    element.querySelector(".explain").setAttribute("aria-expanded", "false");
    setText(element.querySelector(".explain"), "Explain");
  } else {
    open.add(index);
    explain(element, list.items.find((item) => item.index === index));
  }
}

function render() {
  const focusLost = $("item-list").contains(document.activeElement);
  const at = position();
  reconcile($("item-list"), list.items, (item) => item.index, createItem, updateItem);
  if (!list.items.some((item) => item.index === current)) {
    current = null;
    select(Math.max(0, Math.min(at, list.items.length - 1)), { focus: focusLost });
  } else setCurrent(current);
  renderCount();
  renderPages();
}

function renderCount() {
  const n = list.total;
  let text = "";
  if (view.filter === "next") text = list.items.length ? `${plural(list.items.length, "item")} to label next, most useful first` : "";
  else if (n) text = n > PAGE ? `${count(view.offset + 1)}–${count(Math.min(n, view.offset + PAGE))} of ${plural(n, "item")}` : plural(n, "item");
  setText($("items-count"), text);
  const empty = {
    all: "The file has no items.", next: "Nothing to label: add some rules first, or every item has a gold label.",
    disagreement: "No two sources disagree.", uncertain: "No item has votes yet.", uncovered: "Every item has at least one vote.",
    gold: "No gold labels yet. Move with j and k, and press the number of a class to label an item.",
    source: "This source does not vote on any item.", class: "No item has this label.",
  };
  setText($("items-empty"), view.search && view.filter !== "next" ? `No item contains “${view.search}”.` : empty[view.filter]);
  show($("items-empty"), list.items.length === 0);
}

function renderPages() {
  const last = view.filter === "next" ? 0 : Math.max(0, Math.ceil(list.total / PAGE) - 1);
  const page = Math.floor(view.offset / PAGE);
  const button = (text, target, disabled, name) =>
    h("button", { type: "button", class: "button small", disabled, "aria-label": name, on: { click: () => change({ offset: target * PAGE }, { keepOffset: true }) } }, text);
  const nodes = last > 0 ? [
    button("First", 0, page === 0, "First page"), button("Previous", page - 1, page === 0, "Previous page"),
    h("span", { class: "note" }, `Page ${count(page + 1)} of ${count(last + 1)}`),
    button("Next", page + 1, page === last, "Next page"), button("Last", last, page === last, "Last page"),
  ] : [];
  if (view.filter === "next" && list.items.length) {
    nodes.push(h("button", { type: "button", class: "button small", on: { click: () => change({}) } }, "Get other items"));
  }
  const key = JSON.stringify([view.filter, page, last, list.items.length > 0]);
  if ($("pages").dataset.content === key) return;
  $("pages").dataset.content = key;
  $("pages").replaceChildren(...nodes);
}

/* ---- filters ---- */

function buildFilters() {
  const form = $("filters");
  const search = h("input", { type: "search", id: "search", class: "field grow", placeholder: "Search the text", "aria-label": "Search the text of the items" });
  search.addEventListener("input", debounce(() => {
    const filter = view.filter === "next" ? "all" : view.filter;
    change({ search: search.value.trim(), filter });
  }, 200));
  form.append(
    h("div", { class: "line" }, search,
      h("select", { id: "filter-source", class: "field", "aria-label": "Source", hidden: true, on: { change: (event) => change({ source: event.target.value }) } }),
      h("select", { id: "filter-class", class: "field", "aria-label": "Class", hidden: true, on: { change: (event) => change({ label: Number(event.target.value) }) } })),
    h("div", { class: "choices", role: "radiogroup", "aria-label": "Show" },
      Object.entries(FILTERS).map(([name, [text, title]]) =>
        h("label", { title }, h("input", { type: "radio", name: "filter", value: name, on: { change: () => changeFilter(name) } }), h("span", {}, text)))));
  form.addEventListener("submit", (event) => event.preventDefault());
}

function changeFilter(filter) {
  const values = { filter };
  if (filter === "source" && !store.state.sources.some((row) => row.id === view.source)) values.source = store.state.sources[0]?.id ?? null;
  if (filter === "source" && values.source === null) return;
  change(values);
}

function renderFilters() {
  const { state } = store;
  const form = $("filters");
  form.querySelectorAll("input[type=radio]").forEach((radio) => {
    radio.checked = radio.value === view.filter;
    if (radio.value === "source") radio.disabled = state.sources.length === 0;
  });
  if ($("search") !== document.activeElement) $("search").value = view.search;
  for (const [id, visible, options, chosen] of [
    ["filter-source", view.filter === "source", state.sources.map((row) => [row.id, row.name]), view.source],
    ["filter-class", view.filter === "class", state.classes.map((name, label) => [String(label), name]), String(view.label)],
  ]) {
    show($(id), visible);
    const key = JSON.stringify(options);
    if ($(id).dataset.content !== key) {
      $(id).dataset.content = key;
      $(id).replaceChildren(...options.map(([code, text]) => h("option", { value: code }, text)));
    }
    if (chosen !== null) $(id).value = chosen;
  }
}

/** Show the items of a source. */
export function showSource(id) {
  change({ filter: "source", source: id, search: "" });
}

/* ---- the current item and gold labels ---- */

const elementOf = (index) => $("item-list").querySelector(`[data-key="${index}"]`);
const position = () => list.items.findIndex((item) => item.index === current);

function setCurrent(index) {
  current = index;
  for (const element of $("item-list").children) {
    const isCurrent = element.dataset.key === String(index);
    element.classList.toggle("current", isCurrent);
    element.tabIndex = isCurrent ? 0 : -1;
    if (isCurrent) element.setAttribute("aria-current", "true");
    else element.removeAttribute("aria-current");
  }
}

function select(at, { focus = true } = {}) {
  const item = list.items[at];
  if (!item) return;
  setCurrent(item.index);
  if (!focus) return;
  const element = elementOf(item.index);
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest" });
}

/** Go to the next or previous item, across pages. */
export async function move(step) {
  const at = position() + step;
  if (at >= 0 && at < list.items.length) return select(at);
  if (view.filter === "next") return step > 0 ? nextBatch() : undefined;
  const offset = view.offset + step * PAGE;
  if (offset < 0 || offset >= list.total) return undefined;
  await change({ offset }, { keepOffset: true });
  return select(step > 0 ? 0 : list.items.length - 1);
}

async function nextBatch() {
  await pending;
  await change({});
  select(0);
}

let pending = Promise.resolve();

/** Set or clear a gold label. It is shown at once; changes are sent in order. */
function label(index, value) {
  const item = list.items.find((entry) => entry.index === index);
  if (!item || item.gold === value) return;
  const before = item.gold;
  const put = (gold) => {
    item.gold = gold;
    const element = elementOf(index);
    if (element) updateItem(element, item);
  };
  put(value);
  pending = pending.then(async () => {
    try {
      setError($("items-error"), "");
      await act({ type: "set_gold", items: [index], label: value });
    } catch (error) {
      put(before);
      setError($("items-error"), error.message);
    }
  });
}

/** Label the current item by a key, and go to the next one. */
export function labelCurrent(value) {
  if (current === null || value >= store.state.classes.length) return;
  label(current, value);
  if (value !== null) move(1);
}

export const toggleCurrent = () => current !== null && toggle(current);
export const showNext = async () => {
  await change({ filter: "next", search: "" });
  select(0);
};

export function startItems() {
  recall();
  buildFilters();
  onState((state, previous) => {
    if (view.filter === "source" && !state.sources.some((row) => row.id === view.source)) Object.assign(view, { filter: "all", source: null });
    renderFilters();
    if (!previous || view.filter === "next" && !list.items.length) load();
    else if (previous.revision !== state.revision) follow(store.cause);
  });
}
