// The dialogs: which fields are shown, and the keys.

import { counted, element } from "./dom.js";

const SHOWN = 300;

/** Let the user choose fields; `onChange` gets their positions in order. */
export function choose(dialog, fields, positions, most, onChange) {
  const chosen = new Set(positions);
  const list = element("ul", {});
  const about = element("p", { class: "about", role: "status" });
  const search = element("input", { type: "search", placeholder: "Find a field", "aria-label": "Find a field", spellcheck: "false" });
  const changed = () => {
    onChange([...chosen].sort((a, b) => a - b));
    fill();
  };
  const fill = () => {
    const wanted = search.value.toLowerCase();
    const found = fields.map((field, position) => ({ ...field, position })).filter((field) => field.name.toLowerCase().includes(wanted));
    list.replaceChildren(...found.slice(0, SHOWN).map((field) => choice(field, chosen, most, changed)));
    const more = found.length > SHOWN ? `, the first ${SHOWN} listed` : "";
    about.textContent = `${chosen.size} of ${counted(fields.length, "field")} shown; ${found.length} found${more}. At most ${most}.`;
  };
  search.addEventListener("input", fill);
  const all = element("button", { class: "quiet", text: fields.length > most ? `First ${most}` : "All", on: { click: () => {
    fields.slice(0, most).forEach((_, position) => chosen.add(position));
    changed();
  } } });
  const none = element("button", { class: "quiet", text: "None", on: { click: () => { chosen.clear(); changed(); } } });
  open(dialog, "Fields", element("div", { class: "row" }, search, all, none), about, list);
  fill();
  search.focus();
}

function choice(field, chosen, most, changed) {
  const isChosen = chosen.has(field.position);
  const box = element("input", { type: "checkbox", checked: isChosen, disabled: !isChosen && chosen.size >= most });
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(field.position);
    else chosen.delete(field.position);
    changed();
  });
  const label = element("label", {}, box, element("span", { class: "name", text: field.name }), element("span", { class: "type", text: field.type }));
  return element("li", {}, label);
}

const KEYS = [
  ["↓ or j, ↑ or k", "next and previous record"],
  ["Enter", "show all of a record"],
  ["Esc", "close the record"],
  ["→ or n, ← or p", "next and previous page"],
  ["Home, End", "first and last page"],
  ["g", "jump to a record"],
  ["/", "filter"],
  ["f", "choose fields"],
  ["e", "export: copy as text, download"],
  ["1, 2, 3", "table, gallery, overview"],
  ["t", "light or dark"],
  ["?", "these keys"],
];

/** Show the keys. */
export function help(dialog) {
  const rows = KEYS.map(([keys, text]) => element("div", {}, element("dt", {}, keys.split(/(, | or )/).map((part) => (/^(, | or )$/.test(part) ? part : element("kbd", { text: part })))), element("dd", { text })));
  const filters = element("p", { class: "about", text: "A filter is an SQL condition on the fields, such as: label = 3 and width > 100. Put names with other characters in double quotes." });
  open(dialog, "Keys", element("dl", { class: "keys" }, rows), filters);
}

/** Show a dialog. */
export function open(dialog, title, ...parts) {
  const close = element("button", { class: "quiet", text: "Close", on: { click: () => dialog.close() } });
  dialog.replaceChildren(element("header", {}, element("h2", { text: title }), close), ...parts);
  if (!dialog.open) dialog.showModal();
}
