// Text of items with the searched words marked. It searches for plain substrings: a pattern of the user never
// runs in the page.

import { h } from "./dom.js";

const MAX_MARKS = 200;

/** Positions of `words` in `text`, ignoring case, without overlaps. */
function findWords(text, words) {
  const lower = text.toLowerCase();
  // Lowercasing changes the length of a few letters; then positions would be wrong.
  if (lower.length !== text.length) return [];
  const found = [];
  for (const word of words) {
    const wanted = word.toLowerCase();
    if (!wanted) continue;
    let at = lower.indexOf(wanted);
    while (at >= 0 && found.length < MAX_MARKS) {
      found.push([at, at + wanted.length]);
      at = lower.indexOf(wanted, at + wanted.length);
    }
  }
  found.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  return found.filter(
    ([start], at) => at === 0 || start >= Math.max(...found.slice(0, at).map(([, end]) => end)),
  );
}

/** Nodes for `text` with `words` marked. `around` keeps that many characters around the first mark. */
export function marked(text, words = [], { around = null } = {}) {
  const found = findWords(text, words);
  let start = 0;
  let end = text.length;
  if (around !== null && text.length > 2 * around) {
    const center = found.length ? found[0][0] : 0;
    start = Math.max(0, center - around);
    end = Math.min(text.length, start + 2 * around);
  }
  const nodes = start > 0 ? ["…"] : [];
  let at = start;
  for (const [from, to] of found) {
    if (from < at || to > end) continue;
    nodes.push(text.slice(at, from), h("mark", {}, text.slice(from, to)));
    at = to;
  }
  nodes.push(text.slice(at, end));
  if (end < text.length) nodes.push("…");
  return nodes;
}
