// The table of sources: coverage, conflicts, estimated accuracy, effect of removing one, and actions.

import { KINDS, describe, votedClasses } from "./describe.js";
import {
  $,
  attempt,
  button,
  chip,
  count,
  h,
  intervalBar,
  percent,
  plural,
  range,
  reconcile,
  setError,
  setText,
  show,
} from "./dom.js";
import { editRule } from "./form.js";
import { showSource } from "./items.js";
import { act, onProgress, onState, store } from "./store.js";

const NO_SOURCES =
  "There are no sources yet. Add a rule above: words, a pattern or a number that indicates a class. " +
  "Each rule votes on the items that it matches, and abstains on all others.";
const FEW_SOURCES =
  "Accuracies are estimated once there are three sources, because the estimates compare different sources.";
const MAX_CHIPS = 3;
const EDITABLE = new Set(["keywords", "regex", "comparison", "similarity"]);

async function change(row, action) {
  row.setAttribute("aria-busy", "true");
  await attempt(row.querySelector(".row-error"), () => act(action));
  row.removeAttribute("aria-busy");
}

function createRow({ id }) {
  const find = () => store.state.sources.find((entry) => entry.id === id);
  const toggle = () => change(row, { type: "set_enabled", id, enabled: enabled.checked });
  const enabled = h("input", { type: "checkbox", on: { change: toggle } });
  const name = button("", () => showSource(id), {
    class: "link name",
    title: "Show the items that it votes on",
  });
  const row = h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      h("div", { class: "name-line" }, enabled, name),
      h("div", { class: "what" }),
      h("p", { class: "error row-error", role: "alert", hidden: true }),
      h("progress", { hidden: true }),
    ),
    h("td", { class: "n coverage" }),
    h("td", { class: "n conflicts" }),
    h("td", { class: "accuracy" }),
    h("td", { class: "n effect" }),
    h(
      "td",
      { class: "actions" },
      button("Edit", () => editRule(find()), { class: "link edit" }),
      button("Delete", () => removeSource(row, id), { class: "link delete" }),
    ),
  );
  return row;
}

async function removeSource(row, id) {
  // Focus would be lost with the row.
  const next = row.nextElementSibling || row.previousElementSibling;
  await change(row, { type: "remove_source", id });
  if (!row.isConnected) (next?.querySelector("button.name") || $("sources-h")).focus?.();
}

function updateRow(row, entry) {
  const { classes } = store.state;
  row.classList.toggle("disabled", !entry.enabled);
  const box = row.querySelector("input");
  box.checked = entry.enabled;
  box.setAttribute("aria-label", `Use ${entry.name}`);
  setText(row.querySelector(".name"), entry.name);
  const voted = votedClasses(entry);
  let many = voted.map((label) => chip(label, classes[label]));
  if (voted.length === classes.length) many = ["all classes"];
  else if (voted.length > MAX_CHIPS) many = [plural(voted.length, "class", "classes")];
  const key = JSON.stringify([entry.name, entry.source, voted, classes]);
  const what = row.querySelector(".what");
  if (what.dataset.content !== key) {
    what.dataset.content = key;
    // A source without a name of its own is named after what it looks for.
    const isNamed = entry.source.name || entry.name.endsWith("…");
    const details = isNamed ? [": ", h("bdi", {}, describe(entry.source))] : [];
    what.replaceChildren(
      h("span", {}, KINDS[entry.kind] || entry.kind, ...details),
      voted.length ? " → " : "",
      ...many,
    );
  }
  row.querySelector(".edit").hidden = !EDITABLE.has(entry.kind);
  row.querySelector(".edit").setAttribute("aria-label", `Edit ${entry.name}`);
  row.querySelector(".delete").setAttribute("aria-label", `Delete ${entry.name}`);
  setError(
    row.querySelector(".row-error"),
    entry.status === "error" ? entry.error || "This source failed." : "",
  );
  updateProgress(row, entry.status === "working" ? entry.progress || [0, 0] : null, entry.name);
  const isReady = entry.status === "ready";
  setText(row.querySelector(".coverage"), isReady ? percent(entry.coverage) : "–");
  setText(row.querySelector(".conflicts"), isReady ? percent(entry.conflicts) : "–");
  updateAccuracy(row.querySelector(".accuracy"), entry, classes.length);
  const pending = entry.enabled && isReady ? "…" : "–";
  setText(row.querySelector(".effect"), entry.effect ? plural(entry.effect.changed, "label") : pending);
}

function updateAccuracy(cell, entry, nClasses) {
  const key = JSON.stringify([entry.accuracy, entry.interval, entry.enabled]);
  if (cell.dataset.content === key) return;
  cell.dataset.content = key;
  if (entry.accuracy === null || entry.accuracy === undefined || !entry.enabled) {
    cell.replaceChildren("–");
    return;
  }
  const bad = entry.accuracy < 1 / nClasses ? "bad" : "";
  cell.replaceChildren(
    h(
      "span",
      { class: "numbers" },
      percent(entry.accuracy, 0),
      entry.interval ? h("small", {}, ` ${range(entry.interval)}`) : "",
    ),
    intervalBar(entry.accuracy, entry.interval, { chance: 1 / nClasses, other: bad }),
  );
}

function updateProgress(row, progress, name) {
  const bar = row.querySelector("progress");
  show(bar, progress !== null);
  if (!progress) return;
  const [done, total] = progress;
  if (total) {
    bar.max = total;
    bar.value = done;
  } else bar.removeAttribute("value");
  bar.setAttribute("aria-label", `Applying ${name}`);
  bar.title = total ? `${count(done)} of ${plural(total, "item")}` : "Starting";
}

/** Rules first, the newest at the top, next to the form; then the columns of the file in their order. */
function order(sources) {
  const columns = sources.filter((entry) => entry.kind === "column");
  return [...sources.filter((entry) => entry.kind !== "column").reverse(), ...columns];
}

function renderTable(state) {
  reconcile($("source-rows"), order(state.sources), (entry) => entry.id, createRow, updateRow);
  const n = state.sources.length;
  show(document.querySelector("table.sources"), n > 0);
  const enabled = state.sources.filter((entry) => entry.enabled).length;
  let advice = "";
  if (n === 0) advice = NO_SOURCES;
  else if (enabled < 3) advice = FEW_SOURCES;
  setText($("sources-empty"), advice);
  show($("sources-empty"), Boolean(advice));
  const { timing } = state;
  setText(
    $("sources-note"),
    n && timing ? `Updated in ${count(Math.round((timing.fit_ms || 0) + (timing.table_ms || 0)))} ms` : "",
  );
}

export function startSources() {
  onState(renderTable);
  onProgress(({ source, done, total }) => {
    const row = $("source-rows").querySelector(`[data-key="${CSS.escape(String(source))}"]`);
    const entry = store.state?.sources.find(({ id }) => id === source);
    if (row && entry) updateProgress(row, done < total ? [done, total] : null, entry.name);
  });
}
