// One item of the list: text, votes, probabilities, gold label and explanation.

import { get } from "./api.js";
import { chip, count, h, hue, percent, setText, show } from "./dom.js";
import { similarTo } from "./form.js";
import { marked } from "./text.js";
import { store } from "./store.js";

const MAX_CHIPS = 8;
const MAX_FIELDS = 8;
const MAX_BUTTONS = 9;
/** Smaller probabilities are not drawn. */
const MIN_SHARE = 0.01;

/** Make an empty element for an item. `on` has the functions `select(index)`, `toggle(index)`. */
export function createItem(index, on) {
  const explain = h(
    "button",
    {
      type: "button",
      class: "link explain",
      "aria-expanded": "false",
      on: { click: () => on.toggle(index) },
    },
    "Explain",
  );
  return h(
    "li",
    {
      class: "item",
      tabindex: "-1",
      on: { focusin: () => on.select(index), click: () => on.select(index) },
    },
    h("div", { class: "top" }, h("span", { class: "id" }), h("span", { class: "result" })),
    h("p", { class: "text" }),
    h("ul", { class: "votes", "aria-label": "Votes" }),
    h("div", { class: "line tight marks" }, h("span", { class: "gold", role: "group" }), explain),
    h("div", { class: "inside", hidden: true }),
  );
}

/** Fill the element of an item, if anything changed. Returns whether it did. */
export function updateItem(element, item, { sources, search, setGold }) {
  const { classes } = store.state;
  const names = new Map(store.state.sources.map((row) => [row.id, row.name]));
  const votes = sources.flatMap((id, at) => {
    const vote = item.votes?.[at] ?? null;
    return vote === null ? [] : [[names.get(id) ?? id, vote]];
  });
  const key = JSON.stringify([item, votes, classes, search]);
  if (element.dataset.content === key) return false;
  element.dataset.content = key;
  setText(element.querySelector(".id"), nameOf(item));
  element.querySelector(".result").replaceChildren(...drawResult(item, classes));
  const textKey = JSON.stringify([item.text, search]);
  if (element.dataset.text !== textKey) {
    element.dataset.text = textKey;
    element.querySelector(".text").replaceChildren(...drawText(item, search));
  }
  element.querySelector(".votes").replaceChildren(...drawVotes(votes, classes));
  drawGold(element.querySelector(".gold"), item, classes, setGold);
  return true;
}

const nameOf = (item) => String(item.id ?? item.index);

function drawText(item, search) {
  if (item.text) return marked(item.text, search ? [search] : []);
  // Items without text show their fields instead; votes are shown below them.
  const votes = new Set(store.state.data.columns.filter(({ type }) => type === "vote").map(({ name }) => name));
  const shown = Object.entries(item.fields || {}).filter(([name]) => !votes.has(name)).slice(0, MAX_FIELDS);
  const text = shown.map(([name, content]) => `${name}: ${content || "–"}`).join(" · ");
  return [h("span", { class: "soft" }, text || "(empty)")];
}

function drawResult(item, classes) {
  if ((item.label ?? null) === null || !item.proba) return [h("span", { class: "note" }, "no label")];
  const shares = item.proba.map((p, label) => `${classes[label]} ${percent(p, 0)}`).slice(0, 8);
  const bar = h(
    "span",
    { class: "stack small", role: "img", "aria-label": `Probabilities: ${shares.join(", ")}` },
    item.proba.map((p, label) => {
      const style = { width: `${p * 100}%` };
      return p >= MIN_SHARE && h("i", { class: hue(label), style });
    }),
  );
  return [
    chip(item.label, classes[item.label]),
    h("span", { class: "p" }, percent(item.proba[item.label], 0)),
    bar,
  ];
}

function drawVotes(votes, classes) {
  if (!votes.length) return [h("li", { class: "note" }, "No votes")];
  const nodes = votes.slice(0, MAX_CHIPS).map(([name, label]) => {
    const spoken = h("span", { class: "hidden" }, ` votes ${classes[label]}`);
    const title = `${name} votes ${classes[label]}`;
    return h("li", {}, h("span", { class: `chip ${hue(label)}`, title }, h("bdi", {}, name), spoken));
  });
  if (votes.length > MAX_CHIPS) nodes.push(
    h("li", { class: "note" }, `${count(votes.length - MAX_CHIPS)} more`),
  );
  return nodes;
}

/** Draw one button per class, or a list to choose from if there are many classes. */
function drawGold(box, item, classes, setGold) {
  const name = `Gold label of item ${nameOf(item)}`;
  box.setAttribute("aria-label", name);
  if (classes.length > MAX_BUTTONS) {
    const choose = () => setGold(item.index, select.value === "" ? null : Number(select.value));
    const select = h(
      "select",
      { class: "field small", "aria-label": name, on: { change: choose } },
      h("option", { value: "" }, "no gold label"),
      classes.map((text, at) => {
        const key = at < MAX_BUTTONS ? `${at + 1} ` : "";
        return h("option", { value: String(at), selected: item.gold === at }, `${key}${text}`);
      }),
    );
    box.replaceChildren(select);
    return;
  }
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.label : null;
  const buttons = classes.map((text, at) => {
    const pressed = item.gold === at;
    return h(
      "button",
      {
        type: "button",
        class: `key-button ${hue(at)}`,
        "aria-pressed": String(pressed),
        dataset: { label: String(at) },
        title: pressed ? "Remove the gold label (u)" : `Gold label ${text} (${at + 1})`,
        on: { click: () => setGold(item.index, pressed ? null : at) },
      },
      h("kbd", { "aria-hidden": "true" }, String(at + 1)),
      " ",
      h("bdi", {}, text),
    );
  });
  box.replaceChildren(...buttons);
  if (focused !== null) box.querySelector(`[data-label="${focused}"]`)?.focus();
}

/** Show or hide the part of an item below its votes. */
export function setOpen(element, isOpen) {
  const button = element.querySelector(".explain");
  show(element.querySelector(".inside"), isOpen);
  element.classList.toggle("open", isOpen);
  button.setAttribute("aria-expanded", String(isOpen));
  setText(button, isOpen ? "Hide explanation" : "Explain");
}

/** Load and draw the explanation of an item, and its whole text if the list has only a part of it. */
export async function explain(element, item, search) {
  const inside = element.querySelector(".inside");
  try {
    const found = await get(`/api/items/${item.index}`);
    inside.replaceChildren(...drawExplanation(found));
    if ((found.item.text ?? "").length > (item.text ?? "").length) {
      element.querySelector(".text").replaceChildren(...drawText(found.item, search));
    }
  } catch (error) {
    inside.replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }
}

function drawExplanation({ item, explanation: lines = [], neighbors = [] }) {
  const nodes = [];
  if (lines.length) nodes.push(drawContributions(item, lines));
  else {
    const text = "No source votes on this item, so its probabilities are the class balance.";
    nodes.push(h("p", { class: "note" }, text));
  }
  const fields = Object.entries(item.fields || {});
  if (fields.length) {
    const entries = fields.flatMap(([name, content]) => [
      h("dt", {}, name),
      h("dd", {}, content === null ? "–" : String(content)),
    ]);
    nodes.push(h("dl", {}, entries));
  }
  if (neighbors.length) {
    const entries = neighbors.map((other) =>
      h("li", {}, `${other.similarity.toFixed(2)} `, h("bdi", {}, (other.text || nameOf(other)).slice(0, 160))),
    );
    nodes.push(h("div", {}, h("h3", {}, "Most similar items"), h("ul", { class: "examples" }, entries)));
  }
  if (store.state.data.similarity) {
    const write = { type: "button", class: "button small", on: { click: () => similarTo(item.index) } };
    nodes.push(h("button", write, "Write a rule for similar items"));
  }
  return nodes;
}

function drawContributions(item, lines) {
  const { classes } = store.state;
  const largest = Math.max(0.01, ...lines.map((line) => Math.abs(line.log_odds)));
  const ofClass = (item.label ?? null) === null ? "" : ` of ${classes[item.label]}`;
  const rows = lines.map((line) => {
    const width = `${(Math.abs(line.log_odds) / largest) * 50}%`;
    const isFor = line.log_odds >= 0;
    const color = (line.vote ?? null) === null ? "" : hue(line.vote);
    const bar = h("i", { class: color, style: { [isFor ? "left" : "right"]: "50%", width } });
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("bdi", {}, line.source)),
      h("td", {}, (line.vote ?? null) === null ? "" : chip(line.vote, classes[line.vote])),
      h("td", { class: "n" }, `${isFor ? "+" : "−"}${Math.abs(line.log_odds).toFixed(2)}`),
      h("td", { class: "diverging", "aria-hidden": "true" }, bar),
    );
  });
  const heads = ["Source", "Vote", "Log odds", "Chart"].map((text) => h("th", { scope: "col" }, text));
  return h(
    "table",
    { class: "why" },
    h("caption", {}, `Contributions to the log odds${ofClass}`),
    h("thead", { class: "hidden" }, h("tr", {}, heads)),
    h("tbody", {}, rows),
  );
}
