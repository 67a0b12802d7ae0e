// The panel of one record: every value, large.

import { counted, element, grouped } from "./dom.js";
import { large } from "./values.js";

/** Fill the panel with a row whose cells are large. */
export function showDetail(panel, row, columns, { onClose, onStep, total }) {
  const step = (by, text, label) => element("button", { class: "quiet", text, title: label, "aria-label": label, on: { click: () => onStep(by) } });
  const head = element(
    "header",
    {},
    element("h2", { text: `Record ${grouped(row.record)}` }),
    step(-1, "‹", "Previous record (k)"),
    step(1, "›", "Next record (j)"),
    element("button", { class: "quiet", text: "Close", title: "Esc", on: { click: onClose } }),
  );
  panel.replaceChildren(head, row.error ? errorOf(row.error) : valuesOf(row, columns, total));
  panel.hidden = false;
  panel.scrollTop = 0;
}

function errorOf(error) {
  const isDamage = /Checksum|Truncated|Corrupt/.test(error.type);
  const remedy = ["All other records stay readable. ", element("code", { text: "dataformats repair" }), " copies them."];
  const more = isDamage ? element("p", { class: "about" }, remedy) : null;
  return element("div", { class: "problem" }, element("h3", { text: error.type }), element("p", { text: error.text }), more);
}

function valuesOf(row, columns, total) {
  const some = columns.length < total
    ? element("p", { class: "about", text: `${grouped(columns.length)} of ${counted(total, "field")}: choose others with Fields.` })
    : null;
  const values = columns.map((column, at) => {
    const cell = row.cells[at];
    return element(
      "section",
      { class: `is-${cell.kind}` },
      element("h3", {}, element("span", { class: "name", text: column.name }), element("span", { class: "type", text: column.type })),
      large(cell, { record: row.record, field: column.position }),
    );
  });
  return element("div", { class: "fields" }, some, values);
}
