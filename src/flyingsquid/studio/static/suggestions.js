// Suggested rules. A person accepts or rejects each of them; nothing is added automatically.

import { get, isAbort, superseding } from "./api.js";
import { KINDS, describe } from "./describe.js";
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
  setText,
} from "./dom.js";
import { marked } from "./text.js";
import { act, onState, store } from "./store.js";

const SHOWN = 6;
const latest = superseding();
let expanded = false;
let found = [];

async function decide(card, type, id) {
  const buttons = card.querySelectorAll("button");
  const next = card.nextElementSibling || card.previousElementSibling;
  buttons.forEach((button) => (button.disabled = true));
  if (await attempt(card.querySelector(".error"), () => act({ type, id }))) {
    found = found.filter((entry) => entry.id !== id);
    render();
    (next?.isConnected ? next.querySelector("button") : $("suggestions-h"))?.focus?.();
  } else buttons.forEach((button) => (button.disabled = false));
}

function createCard(entry) {
  const { id, source } = entry;
  const rule = describe(source);
  const accept = button("Accept", () => decide(card, "accept_suggestion", id), {
    class: "button small primary",
    "aria-label": `Accept: ${rule}`,
  });
  const reject = button("Reject", () => decide(card, "reject_suggestion", id), {
    "aria-label": `Reject: ${rule}`,
  });
  const card = h(
    "li",
    { class: "card" },
    h(
      "div",
      { class: "rule" },
      h("span", {}, KINDS[source.kind] || source.kind, ": ", h("bdi", {}, rule)),
      " → ",
      chip(source.label, store.state.classes[source.label]),
    ),
    h("div", { class: "measure" }),
    h("p", { class: "note about" }),
    h("details", {}, h("summary", {}, "Examples"), h("ul", { class: "examples" })),
    h("p", { class: "error", role: "alert", hidden: true }),
    h("div", { class: "line tight decide" }, accept, reject),
  );
  return card;
}

function updateCard(card, entry) {
  const key = JSON.stringify(entry);
  if (card.dataset.content === key) return;
  card.dataset.content = key;
  card.querySelector(".measure").replaceChildren(
    h("span", {}, `Estimated precision ${percent(entry.precision, 0)}`),
    entry.interval ? h("small", {}, ` ${range(entry.interval)}`) : "",
    intervalBar(entry.precision, entry.interval, { chance: 1 / store.state.classes.length }),
  );
  const about = [
    `Matches ${plural(entry.coverage, "item")},`,
    entry.new_items ? `${count(entry.new_items)} without any vote so far.` : "all with votes already.",
  ];
  const names = new Map(store.state.sources.map((row) => [row.id, row.name]));
  const others = (entry.overlap || []).filter((other) => names.has(other.source) && other.share >= 0.1);
  const [most] = others.sort((a, b) => b.share - a.share);
  if (most) about.push(`${percent(most.share, 0)} of them also have a vote from ${names.get(most.source)}.`);
  setText(card.querySelector(".about"), about.join(" "));
  const words = entry.source.words || [];
  card.querySelector(".examples").replaceChildren(
    ...(entry.examples || []).slice(0, 5).map(
      (text) => h("li", {}, ...marked(String(text), words, { around: 110 })),
    ),
  );
  card.querySelector("details").hidden = !(entry.examples || []).length;
}

function render() {
  const shown = expanded ? found : found.slice(0, SHOWN);
  reconcile($("suggestion-list"), shown, (entry) => entry.id, createCard, updateCard);
  const more = $("suggestions-more");
  more.hidden = shown.length === found.length;
  setText(more, `Show ${count(found.length - shown.length)} more`);
}

async function load() {
  try {
    const answer = await latest.run((signal) => get("/api/suggestions", signal));
    found = answer.suggestions;
    render();
    const isWorking = answer.status === "working";
    let note = "From the current labels. Check the examples before you accept a rule.";
    if (isWorking) note = "Looking for rules…";
    else if (!found.length && store.state.sources.length) note = "No suggestions for the current labels.";
    else if (!found.length) note = "Suggestions appear once some items have labels.";
    setText($("suggestions-note"), note);
  } catch (error) {
    if (!isAbort(error)) setText($("suggestions-note"), error.message);
  }
}

export function startSuggestions() {
  $("suggestions-more").addEventListener("click", () => {
    expanded = true;
    render();
  });
  onState(() => load());
}
