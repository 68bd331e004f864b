// The page of the studio: starts its parts and the keyboard shortcuts.

import { $, h } from "./dom.js";
import { focusForm, startForm } from "./form.js";
import { redoNow, startHeader, undoNow } from "./header.js";
import { labelCurrent, move, showNext, startItems, toggleCurrent } from "./items.js";
import { startSetup } from "./setup.js";
import { startSources } from "./sources.js";
import { connect, refresh } from "./store.js";
import { startSuggestions } from "./suggestions.js";

const SHORTCUTS = [
  [["j", "k"], "Next and previous item"],
  [["1", "…", "9"], "Give the current item this class as its gold label"],
  [["u"], "Clear the gold label of the current item"],
  [["e"], "Show or hide the explanation of the current item"],
  [["n"], "Show what to label next"],
  [["/"], "Search the items"],
  [["a"], "Add a rule"],
  [["z"], "Undo (also Ctrl+Z)"],
  [["y"], "Redo (also Ctrl+Shift+Z)"],
  [["?"], "Show this help"],
];

const COMMANDS = {
  j: () => move(1),
  k: () => move(-1),
  u: () => labelCurrent(null),
  e: toggleCurrent,
  n: showNext,
  "/": () => $("search").focus(),
  a: focusForm,
  z: undoNow,
  y: redoNow,
  "?": () => $("help").showModal(),
};

const KEYS_OFF = "flyingsquid-keys-off";

function startShortcuts() {
  $("help-keys").append(
    ...SHORTCUTS.flatMap(
      ([keys, text]) => [
        h("dt", {}, keys.map((key) => (key === "…" ? " to " : h("kbd", {}, key)))),
        h("dd", {}, text),
      ],
    ),
  );
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("help-close").addEventListener("click", () => $("help").close());
  const enabled = $("keys-enabled");
  enabled.checked = localStorage.getItem(KEYS_OFF) === null;
  enabled.addEventListener(
    "change",
    () => (enabled.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "1")),
  );
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const isTyping = target instanceof HTMLElement && (
      target.matches("input:not([type=checkbox], [type=radio]), textarea, select") || target.isContentEditable
    );
    if (isTyping) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if ($("help").open) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "z") {
      event.preventDefault();
      (event.shiftKey ? redoNow : undoNow)();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !enabled.checked) return;
    if (/^[1-9]$/.test(event.key)) {
      event.preventDefault();
      labelCurrent(Number(event.key) - 1);
    } else if (event.key in COMMANDS) {
      event.preventDefault();
      COMMANDS[event.key]();
    }
  });
}

startHeader();
startSetup();
startForm();
startSources();
startItems();
startSuggestions();
startShortcuts();
refresh();
connect();
