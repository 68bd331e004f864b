// Elements, numbers and plurals. Data reach the page only through textContent and attributes, never as HTML.

export const $ = (id) => document.getElementById(id);

/** Create an element. Special attributes: `class`, `on` (listeners), `style` (CSSOM), `dataset`. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "on") Object.entries(value).forEach((entry) => element.addEventListener(...entry));
    else if (name === "style") Object.entries(value).forEach((entry) => element.style.setProperty(...entry));
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Create a button. `attributes` are those of `h`. */
export function button(text, click, attributes = {}) {
  return h("button", { type: "button", class: "button small", ...attributes, on: { click } }, text);
}

/** Set the text only if it changed, so that screen readers and selections are left alone. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  element.hidden = !visible;
}

/** Show a message next to what caused it; an empty message hides the element. */
export function setError(element, message) {
  setText(element, message || "");
  show(element, Boolean(message));
}

/** Run a call that may fail, and show its message in `element`. Returns whether it succeeded. */
export async function attempt(element, call) {
  setError(element, "");
  try {
    await call();
    return true;
  } catch (error) {
    setError(element, error.message);
    return false;
  }
}

/**
 * Make the children of `parent` follow `entries`. Elements are kept by key, so that focus and open details
 * survive.
 * `create(entry)` makes an element; `update(element, entry)` fills it.
 */
export function reconcile(parent, entries, key, create, update) {
  const existing = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let next = parent.firstElementChild;
  for (const entry of entries) {
    const name = String(key(entry));
    let element = existing.get(name);
    if (element) existing.delete(name);
    else {
      element = create(entry);
      element.dataset.key = name;
    }
    update(element, entry);
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
  }
  for (const element of existing.values()) element.remove();
}

const NUMBER = new Intl.NumberFormat("en-US");

export const count = (n) => NUMBER.format(n);

/** "1 item", "2 items"; `many` is for irregular plurals. */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A share as a percentage: one decimal, or "<0.1%". */
export function percent(share, digits = 1) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const smallest = 10 ** -digits;
  if (share > 0 && share * 100 < smallest) return `<${smallest.toFixed(digits)}%`;
  if (share < 1 && share * 100 > 100 - smallest) return `>${(100 - smallest).toFixed(digits)}%`;
  return `${(share * 100).toFixed(digits)}%`;
}

export function range(interval, digits = 0) {
  const [low, high] = interval.map((end) => (end * 100).toFixed(digits));
  return low === high ? `${low}%` : `${low}–${high}%`;
}

/** Join words as in a sentence: "a, b and c". */
export function listing(words, conjunction = "and") {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} ${conjunction} ${words.at(-1)}`;
}

/** The color of a class, as the name of a CSS class. */
export const hue = (label) => `k${label % 8}`;

/** A span with the name of a class and its color. */
export function chip(label, name, extra = null) {
  return h("span", { class: `chip ${hue(label)}` }, h("bdi", {}, name), extra);
}

/** A share with its interval on a scale from 0 to 1. Screen readers get the numbers next to it instead. */
export function intervalBar(value, interval, { chance = null, other = "" } = {}) {
  const bar = h("span", { class: `interval ${other}`, "aria-hidden": "true" });
  const at = (share) => `${Math.min(100, Math.max(0, share * 100))}%`;
  if (chance !== null) bar.append(h("i", { class: "chance", style: { left: at(chance) } }));
  if (interval) bar.append(
    h("i", { class: "whisker", style: { left: at(interval[0]), width: at(interval[1] - interval[0]) } }),
  );
  bar.append(h("i", { class: "point", style: { left: at(value) } }));
  return bar;
}

/** Wait until calls stop for `ms`. The returned function has `.now()` to run at once, and `.cancel()`. */
export function debounce(call, ms) {
  let timer = null;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), ms);
  };
  later.cancel = () => clearTimeout(timer);
  later.now = (...values) => {
    clearTimeout(timer);
    call(...values);
  };
  return later;
}
