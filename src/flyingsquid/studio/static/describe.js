// Descriptions of sources: what a rule does, and its kind.

import { count, listing } from "./dom.js";

export const KINDS = {
  keywords: "Keywords",
  regex: "Pattern (regex)",
  comparison: "Comparison",
  similarity: "Similarity",
  column: "Vote column",
  function: "Python function",
};

const quote = (text) => `“${text}”`;

/** What a source looks for, such as `contains “subscribe” or “my channel”`. */
export function describe(source) {
  const where = source.column && source.column !== "text" ? ` in ${source.column}` : "";
  switch (source.kind) {
    case "keywords": {
      const words = source.words.slice(0, 4).map(quote);
      if (source.words.length > 4) words.push(`${count(source.words.length - 4)} more`);
      const cased = source.ignore_case === false ? ", case-sensitive" : "";
      const parts = source.whole_words === false ? ", also inside words" : "";
      return `contains ${listing(words, "or")}${where}${cased}${parts}`;
    }
    case "regex":
      return `matches /${source.pattern}/${source.ignore_case ? "i" : ""}${where}`;
    case "comparison":
      return `${source.column} ${SIGNS[source.operator] || source.operator} ${source.value}`;
    case "similarity":
      return `similarity to item ${source.item} of at least ${source.at_least}`;
    case "column":
      return `column ${source.column}`;
    case "function":
      return `${source.function} in ${source.file.split(/[\\/]/).at(-1)}`;
    default:
      return source.kind;
  }
}

export const SIGNS = { ">=": "≥", ">": ">", "<=": "≤", "<": "<", "==": "=", "!=": "≠" };

/** The classes that a source votes for, as positions: the class of a rule, or every class with votes. */
export function votedClasses(row) {
  if (typeof row.source.label === "number") return [row.source.label];
  return (row.votes || []).flatMap((n, label) => (n > 0 ? [label] : []));
}
