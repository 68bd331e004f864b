// The list of items: search, filters, pages, and gold labels by one key.

import { get, isAbort, superseding } from "./api.js";
import { $, count, debounce, h, plural, reconcile, setError, setText, show } from "./dom.js";
import { createItem, explain, setOpen, updateItem } from "./item.js";
import { act, onState, store } from "./store.js";

const PAGE = 50;
const NEXT = 10;
const SEARCH_MS = 200;
const SLOW_MS = 400;
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
const EMPTY = {
  all: "The file has no items.",
  next: "No items to label. Either there are no votes yet, or every item has a gold label.",
  disagreement: "No two sources disagree.",
  uncertain: "No item has votes yet.",
  uncovered: "Every item has at least one vote.",
  gold: "No gold labels yet. Move with j and k, and press the number of a class to label an item.",
  source: "This source does not vote on any item.",
  class: "No item has this label.",
};

const view = { filter: "all", source: null, label: 0, search: "", offset: 0 };
const list = { items: [], sources: [], total: 0 };
const open = new Set();
const latest = superseding();
let current = null;
/** Whether other items than those of the list have to be shown: they are not loaded yet. */
let reload = false;

/* What is shown is kept in the address, so that it survives a reload. */

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
  if (Object.hasOwn(FILTERS, kept.get("filter") ?? "")) view.filter = kept.get("filter");
  view.source = kept.get("source");
  view.label = Number(kept.get("label")) || 0;
  view.search = kept.get("search") || "";
  view.offset = Math.max(0, Number(kept.get("offset")) || 0);
}

function address() {
  if (view.filter === "next") return `/api/next?limit=${NEXT}`;
  const query = new URLSearchParams(
    { filter: view.filter, offset: String(view.offset), limit: String(PAGE) },
  );
  if (view.filter === "source") query.set("source", view.source);
  if (view.filter === "class") query.set("label", String(view.label));
  if (view.search) query.set("search", view.search);
  if (view.filter === "uncertain") query.set("order", "uncertain");
  return `/api/items?${query}`;
}

/* Loading */

/** Ids of the sources whose votes items have, in order. */
function votingSources() {
  return store.state.sources.filter((row) => row.enabled && row.status === "ready").map((row) => row.id);
}

let newest = null;

/** Load items and show them. A call that a newer one supersedes ends with the newer one. */
function load(path = address()) {
  newest = fetchItems(path);
  return newest;
}

async function fetchItems(path) {
  const slow = setTimeout(() => {
    $("item-list").setAttribute("aria-busy", "true");
    setText($("items-count"), "Loading…");
  }, SLOW_MS);
  try {
    const answer = await latest.run((signal) => get(path, signal));
    list.items = answer.items;
    if (path === address()) reload = false;
    for (const item of list.items) if (unsaved.has(item.index)) item.gold = unsaved.get(item.index);
    list.sources = answer.sources || votingSources();
    if (view.filter === "next") list.total = answer.items.length;
    else if (path === address()) list.total = answer.total;
    setError($("items-error"), "");
    if (!list.items.length && view.offset && list.total) {
      view.offset = Math.floor((list.total - 1) / PAGE) * PAGE;
      await load();
    } else render();
  } catch (error) {
    if (isAbort(error)) await newest;
    else setError($("items-error"), error.message);
  } finally {
    clearTimeout(slow);
    $("item-list").removeAttribute("aria-busy");
  }
}

/** Show another part of the data: the first item becomes the current one. */
async function change(values, { keepOffset = false } = {}) {
  Object.assign(view, keepOffset ? {} : { offset: 0 }, values);
  open.clear();
  reload = true;
  remember();
  renderFilters();
  await load();
  const hadFocus = $("item-list").contains(document.activeElement);
  select(0, { focus: hadFocus });
  $("items").scrollTo({ top: 0 });
}

/** Update the list. After a gold label the items stay where they are. */
const follow = debounce(() => {
  if (!reload && list.items.length) {
    const indexes = list.items.map((item) => item.index).join(",");
    load(`/api/items?filter=indexes&indexes=${indexes}&limit=${list.items.length}`);
  } else load();
}, 60);

/* Drawing */

const handlers = { select: (index) => setCurrent(index), toggle: (index) => toggle(index) };

function update(element, item) {
  const changed = updateItem(element, item, { sources: list.sources, search: view.search, setGold });
  const isOpen = open.has(item.index);
  if (element.classList.contains("open") !== isOpen) setOpen(element, isOpen);
  if (changed && isOpen) explain(element, item, view.search);
}

async function toggle(index) {
  const element = elementOf(index);
  const item = list.items.find((entry) => entry.index === index);
  if (!element || !item) return;
  if (open.has(index)) open.delete(index);
  else open.add(index);
  setOpen(element, open.has(index));
  if (!open.has(index)) return;
  await explain(element, item, view.search);
  element.scrollIntoView({ block: "nearest" });
}

function render() {
  const hadFocus = $("item-list").contains(document.activeElement);
  const at = position();
  reconcile(
    $("item-list"),
    list.items,
    (item) => item.index,
    (item) => createItem(item.index, handlers),
    update,
  );
  if (list.items.some((item) => item.index === current)) setCurrent(current);
  else {
    current = null;
    select(Math.max(0, Math.min(at, list.items.length - 1)), { focus: hadFocus });
  }
  renderCount();
  renderPages();
}

function renderCount() {
  const n = list.total;
  const last = Math.min(n, view.offset + PAGE);
  let text = plural(n, "item");
  if (n > PAGE) text = `${count(view.offset + 1)}–${count(last)} of ${text}`;
  if (view.filter === "next") text = `${plural(n, "item")} to label next, most useful first`;
  setText($("items-count"), list.items.length ? text : "");
  setText($("items-empty"), view.search ? `No item contains “${view.search}”.` : EMPTY[view.filter]);
  show($("items-empty"), list.items.length === 0);
}

function renderPages() {
  const last = view.filter === "next" ? 0 : Math.max(0, Math.ceil(list.total / PAGE) - 1);
  const page = Math.floor(view.offset / PAGE);
  const key = JSON.stringify([view.filter, page, last, list.items.length > 0]);
  if ($("pages").dataset.content === key) return;
  $("pages").dataset.content = key;
  const button = (text, target, disabled) => {
    const go = () => change({ offset: target * PAGE }, { keepOffset: true });
    const name = `${text} page`;
    return h(
      "button",
      { type: "button", class: "button small", disabled, "aria-label": name, on: { click: go } },
      text,
    );
  };
  const nodes = [];
  if (last > 0) {
    nodes.push(
      button("First", 0, page === 0),
      button("Previous", page - 1, page === 0),
      h("span", { class: "note" }, `Page ${count(page + 1)} of ${count(last + 1)}`),
      button("Next", page + 1, page === last),
      button("Last", last, page === last),
    );
  }
  if (view.filter === "next" && list.items.length) {
    nodes.push(
      h(
        "button",
        { type: "button", class: "button small", on: { click: () => change({}) } },
        "Get other items",
      ),
    );
  }
  $("pages").replaceChildren(...nodes);
}

/* Filters */

function buildFilters() {
  const form = $("filters");
  const search = h("input", {
    type: "search",
    id: "search",
    class: "field grow",
    placeholder: "Search the items",
    "aria-label": "Search the items",
  });
  const find = debounce(() => {
    const filter = view.filter === "next" ? "all" : view.filter;
    change({ search: search.value.trim(), filter });
  }, SEARCH_MS);
  search.addEventListener("input", find);
  const chooser = (id, name, read) => {
    const listener = { change: (event) => change(read(event.target.value)) };
    return h("select", { id, class: "field", "aria-label": name, hidden: true, on: listener });
  };
  const radios = Object.entries(FILTERS).map(([name, [text, title]]) => {
    const radio = { type: "radio", name: "filter", value: name, on: { change: () => changeFilter(name) } };
    return h("label", { title }, h("input", radio), h("span", {}, text));
  });
  form.append(
    h(
      "div",
      { class: "line" },
      search,
      chooser("filter-source", "Source", (source) => ({ source })),
      chooser("filter-class", "Class", (label) => ({ label: Number(label) })),
    ),
    h("div", { class: "choices", role: "radiogroup", "aria-label": "Show" }, radios),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
}

const hasSource = (state, id) => state.sources.some((row) => row.id === id);

function changeFilter(filter) {
  const { state } = store;
  // The field may have a text that was not searched for yet.
  const values = { filter, search: filter === "next" ? "" : $("search").value.trim() };
  $("search").value = values.search;
  if (filter === "source" && !hasSource(state, view.source)) values.source = state.sources[0].id;
  change(values);
}

function renderFilters() {
  const { state } = store;
  $("filters").querySelectorAll("input[type=radio]").forEach((radio) => {
    radio.checked = radio.value === view.filter;
    if (radio.value === "source") radio.disabled = state.sources.length === 0;
  });
  if ($("search") !== document.activeElement) $("search").value = view.search;
  show($("filter-source"), view.filter === "source");
  show($("filter-class"), view.filter === "class");
  setChoices($("filter-source"), state.sources.map((row) => [row.id, row.name]), view.source);
  setChoices(
    $("filter-class"),
    state.classes.map((name, label) => [String(label), name]),
    String(view.label),
  );
}

function setChoices(select, options, chosen) {
  const key = JSON.stringify(options);
  if (select.dataset.content !== key) {
    select.dataset.content = key;
    select.replaceChildren(...options.map(([code, text]) => h("option", { value: code }, text)));
  }
  if (chosen !== null) select.value = chosen;
}

/** Show the items of a source. */
export function showSource(id) {
  change({ filter: "source", source: id, search: "" });
}

/* The current item and gold labels */

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
  if (at >= 0 && at < list.items.length) {
    select(at);
    return;
  }
  if (view.filter === "next") {
    if (step > 0) await nextBatch();
    return;
  }
  const offset = view.offset + step * PAGE;
  if (offset < 0 || offset >= list.total) return;
  await change({ offset }, { keepOffset: true });
  select(step > 0 ? 0 : list.items.length - 1);
}

async function nextBatch() {
  // The next items depend on the labels that are still on their way.
  await pending;
  await change({});
  select(0);
}

let pending = Promise.resolve();
/** Gold labels that are on their way. An answer from before them does not take them back. */
const unsaved = new Map();

/** Set or clear a gold label. It is shown at once; changes are sent in order. */
function setGold(index, label) {
  const item = list.items.find((entry) => entry.index === index);
  if (!item || item.gold === label) return;
  const before = item.gold;
  const put = (gold) => {
    const shown = list.items.find((entry) => entry.index === index);
    if (!shown) return;
    shown.gold = gold;
    update(elementOf(index), shown);
  };
  unsaved.set(index, label);
  put(label);
  pending = pending.then(async () => {
    try {
      setError($("items-error"), "");
      await act({ type: "set_gold", items: [index], label });
    } catch (error) {
      put(before);
      setError($("items-error"), error.message);
    } finally {
      if (unsaved.get(index) === label) unsaved.delete(index);
    }
  });
}

/** Label the current item by a key, and go to the next one. */
export function labelCurrent(label) {
  if (current === null || label >= store.state.classes.length) return;
  setGold(current, label);
  if (label !== null) move(1);
}

export function toggleCurrent() {
  if (current !== null) toggle(current);
}

export async function showNext() {
  await change({ filter: "next", search: "" });
  select(0);
}

export function startItems() {
  recall();
  buildFilters();
  onState((state, previous) => {
    if (view.filter === "source" && !hasSource(state, view.source)) {
      Object.assign(view, { filter: "all", source: null });
    }
    renderFilters();
    if (!previous || (view.filter === "next" && !list.items.length)) load();
    else if (previous.revision !== state.revision) {
      // A revision without a change of the project brings better estimates of the same votes.
      const isRefined = JSON.stringify(previous.history) === JSON.stringify(state.history);
      reload ||= !isRefined && store.cause !== "set_gold" && view.filter !== "next";
      follow();
    }
  });
}
