// The header: data, verdict, class balance, comparison with majority vote, undo and redo, exports.

import {
  $,
  attempt,
  chip,
  count,
  h,
  hue,
  intervalBar,
  percent,
  plural,
  range,
  reconcile,
  setError,
  setText,
  show,
} from "./dom.js";
import { onConnection, onState, redo, store, undo } from "./store.js";

const EXPORTS = {
  "rules.py": ["Rules", "Python labeling functions, for fs.apply"],
  "labels.csv": ["Labels, CSV", "one line per item, with probabilities"],
  "labels.parquet": ["Labels, Parquet", "the same as a Parquet file"],
  "report.html": ["Report", "a page about the sources and labels"],
  "project.json": ["Project", "the history of all changes"],
};

/** More classes than these are not listed one by one. */
const MAX_CLASSES = 8;
const NO_CLASSES = "Name the classes to begin.";
const NO_LABELS = "No labels yet. Add rules until some items have votes.";

function describeExport(name) {
  if (name in EXPORTS) return EXPORTS[name];
  return [name.startsWith("model") ? "Model" : name, "the fitted label model, for new votes"];
}

function renderFacts(state) {
  const { data, sources, gold } = state;
  setText($("data-name"), data.name);
  document.title = `${data.name} – FlyingSquid studio`;
  const enabled = sources.filter((row) => row.enabled).length;
  const all = plural(sources.length, "source");
  const facts = [
    plural(data.n_items, "item"),
    enabled === sources.length ? all : `${count(enabled)} of ${all} enabled`,
    plural(gold.count, "gold label"),
  ];
  setText($("facts"), facts.join(" · "));
}

function renderVerdict(state) {
  $("verdict").dataset.kind = state.verdict?.kind || "";
  const isReady = state.classes.length > 1;
  setText($("verdict"), state.verdict?.text || (isReady ? NO_LABELS : NO_CLASSES));
  const parts = [];
  const { labels } = state;
  if (labels) {
    const { n_items: n } = state.data;
    const share = percent(labels.covered / n);
    parts.push(`${count(labels.covered)} of ${plural(n, "item")} (${share}) have votes.`);
    if (labels.changed !== null && labels.changed !== undefined && state.history.position > 0) {
      parts.push(
        `The last action changed ${labels.changed === 0 ? "no label" : plural(labels.changed, "label")}.`,
      );
    }
  }
  if (state.sampled) parts.push(`Estimates are from a sample of ${plural(state.sampled, "item")}.`);
  setText($("change"), parts.join(" "));
  reconcile($("messages"), state.messages || [], (text) => text, (text) => h("li", {}, text), () => {});
}

function renderBalance(state) {
  const shares = state.balance || [];
  show($("balance-box"), shares.length > 0);
  if (!shares.length) return;
  const name = (entry) => state.classes[entry.class];
  $("balance").setAttribute(
    "aria-label",
    shares.map((entry) => `${name(entry)} ${percent(entry.share)}`).join(", "),
  );
  $("balance").replaceChildren(
    ...shares.map((entry) => h("i", { class: hue(entry.class), style: { width: `${entry.share * 100}%` } })),
  );
  const largest = [...shares].sort((a, b) => b.share - a.share).slice(0, MAX_CLASSES);
  const entries = (shares.length > MAX_CLASSES ? largest : shares).map((entry) => {
    const interval = entry.interval ? h("small", { title: "95% interval" }, ` ${range(entry.interval)}`) : null;
    return h("li", {}, chip(entry.class, name(entry)), ` ${percent(entry.share)}`, interval);
  });
  const nOthers = shares.length - MAX_CLASSES;
  if (nOthers > 0) entries.push(h("li", { class: "note" }, `${count(nOthers)} more`));
  $("balance-key").replaceChildren(...entries);
}

function renderComparison(state) {
  const found = state.comparison;
  const box = $("comparison");
  if (!found) {
    setText($("comparison-h"), "Accuracy on gold labels");
    const wanted = state.gold.count
      ? "A few more gold labels are needed to compare with majority vote."
      : "Label some items to compare the labels with majority vote.";
    box.replaceChildren(h("p", { class: "note" }, wanted));
    return;
  }
  setText($("comparison-h"), `Accuracy on ${plural(found.gold, "gold label")}`);
  const line = (name, entry, other) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", {}, intervalBar(entry.accuracy, entry.interval, { other })),
      h("td", { class: "n" }, percent(entry.accuracy)),
      h("td", { class: "n" }, h("small", {}, entry.interval ? range(entry.interval) : "")),
    );
  box.replaceChildren(
    h("table", { class: "comparison" },
      h(
        "thead",
        { class: "hidden" },
        h(
          "tr",
          {},
          ...["Method", "Chart", "Accuracy", "95% interval"].map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h("tbody", {}, line("Label model", found.model, ""), line("Majority vote", found.majority, "other"))),
  );
}

function renderHistory(state) {
  for (const [id, text] of [["undo", state.history.undo], ["redo", state.history.redo]]) {
    const name = id === "undo" ? "Undo" : "Redo";
    $(id).disabled = !text;
    $(id).title = text ? `${name}: ${text}` : `Nothing to ${id}`;
    $(id).setAttribute("aria-label", text ? `${name}: ${text}` : name);
    $(id).replaceChildren(name, text ? h("small", {}, ` ${text}`) : "");
  }
}

function renderExports(state) {
  const names = state.exports || Object.keys(EXPORTS);
  reconcile(
    $("exports"), names, (name) => name,
    (name) => {
      const [title, note] = describeExport(name);
      return h(
        "li",
        {},
        h(
          "a",
          { href: `/api/export/${encodeURIComponent(name)}`, download: name },
          h("b", {}, title),
          h("small", {}, `${name}: ${note}`),
        ),
      );
    },
    () => {},
  );
}

function startMenu() {
  const menu = $("export");
  const close = (focus) => {
    if (!menu.open) return;
    menu.open = false;
    if (focus) menu.querySelector("summary").focus();
  };
  document.addEventListener("click", (event) => menu.contains(event.target) || close(false));
  menu.addEventListener("keydown", (event) => event.key === "Escape" && close(true));
  $("exports").addEventListener("click", () => close(false));
}

function startTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => setText($("theme"), isDark() ? "Light" : "Dark");
  const saved = localStorage.getItem("flyingsquid-theme");
  if (saved) root.dataset.theme = saved;
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("flyingsquid-theme", root.dataset.theme);
    name();
  });
  system.addEventListener("change", name);
  name();
}

/** What a screen reader hears after a refit. */
function announce(state) {
  const { changed } = state.labels || {};
  const text = changed ? `${plural(changed, "label")} changed. ` : "";
  setText($("live"), `Table updated. ${text}${state.verdict?.text || ""}`);
}

export function startHeader() {
  startMenu();
  startTheme();
  $("undo").addEventListener("click", () => attempt($("problem"), undo));
  $("redo").addEventListener("click", () => attempt($("problem"), redo));
  onConnection((message) => setError($("connection"), message));
  onState((state, previous) => {
    renderFacts(state);
    renderVerdict(state);
    renderBalance(state);
    renderComparison(state);
    renderHistory(state);
    renderExports(state);
    if (previous && previous.revision !== state.revision) announce(state);
  });
}

export const undoNow = () => store.state?.history.undo && attempt($("problem"), undo);
export const redoNow = () => store.state?.history.redo && attempt($("problem"), redo);
