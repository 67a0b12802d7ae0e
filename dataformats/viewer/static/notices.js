// Messages above the records.

import { GoneError } from "./api.js";
import { byId, element } from "./dom.js";
import { state } from "./state.js";

/** Show a message under a key, or remove it if `text` is null. */
export function notice(key, text, ...actions) {
  const old = document.querySelector(`[data-notice="${key}"]`);
  if (text === null) return old?.remove();
  const made = element("div", { class: "notice", "data-notice": key }, element("span", { text }), actions);
  return old ? old.replaceWith(made) : byId("notices").append(made);
}

/** Show an error. */
export function failed(error, key) {
  if (error instanceof GoneError) {
    state.isGone = true;
    notice("gone", "The server has ended, or does not answer. Run dataformats view again.");
  } else {
    notice(key, error.message);
  }
}
