// The keyboard: which key does what.

import { help } from "./chooser.js";
import { closeDetail, openRow, step } from "./detail.js";
import { byId } from "./dom.js";
import { showExport } from "./export.js";
import { go } from "./page.js";
import { state, total } from "./state.js";
import { switchTheme } from "./theme.js";
import { openChooser, setView } from "./views.js";

const SAME = { ArrowDown: "j", ArrowUp: "k", ArrowRight: "n", PageDown: "n", ArrowLeft: "p", PageUp: "p" };
export const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  n: (isStep) => go(state.first + state.count, isStep),
  p: (isStep) => go(state.first - state.count, isStep),
  Home: () => go(0),
  End: () => Number.isFinite(total()) && go(total() - 1),
  Enter: () => state.rows[state.at] && openRow(state.at),
  Escape: () => closeDetail(),
  g: () => byId("number").select(),
  "/": () => byId("condition").select(),
  f: () => openChooser(),
  e: () => showExport(),
  t: switchTheme,
  "?": () => help(byId("help")),
  1: () => setView("table"),
  2: () => setView("gallery"),
  3: () => setView("overview"),
};

export function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { target } = event;
  if (target.matches("input, select, textarea, audio, video")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  const inText = target.matches("pre, .values");
  if (inText && event.key.startsWith("Arrow")) return;
  if (event.key === "Enter" && target.matches("button, a, summary")) return;
  if (event.shiftKey && event.key.startsWith("Arrow")) return; // scrolls
  const action = KEYS[SAME[event.key] ?? event.key];
  if (!action || !state.facts) return;
  event.preventDefault();
  action(event.repeat); // a key that is held down makes one entry of the history
}
