// The table of records.

import { binLabels, histogram } from "./charts.js";
import { element, grouped } from "./dom.js";
import { small } from "./values.js";

/** Return the table of these rows. `chart` returns the statistics of a field, or nothing. */
export function table(rows, columns, { onOpen, onSelect, chart }) {
  const head = element(
    "tr",
    {},
    element("th", { scope: "col", class: "index", text: "record" }),
    columns.map((column, at) => headOf(column, chart(column.position), rows.some((row) => row.cells?.[at].kind === "number"))),
    element("td", { class: "rest", "aria-hidden": "true" }), // takes the width that is left
  );
  const body = rows.map((row, index) => rowOf(row, columns, index, onOpen, onSelect));
  return element(
    "div",
    { class: "scroll", tabindex: -1 },
    element("table", { "aria-label": "Records" }, element("thead", {}, head), element("tbody", {}, body)),
  );
}

function headOf(column, statistics, isNumber) {
  return element(
    "th",
    { scope: "col", class: isNumber ? "is-number" : null, "data-field": column.position },
    element("span", { class: "name", text: column.name, title: column.name }),
    element("span", { class: "type", text: column.opaque ? `${column.type} (opaque)` : column.type }),
    element("span", { class: "chart" }, statistics ? miniature(statistics) : null),
  );
}

/** Return the small histogram of a field: of its values, or of the most common ones. */
export function miniature(statistics, width = 96, height = 22) {
  if (statistics.of_lengths && statistics.common?.length > 1 && statistics.common[0].count > 1) {
    const labels = statistics.common.map((one) => one.text);
    return histogram(statistics.common.map((one) => one.count), labels, width, height);
  }
  const bins = statistics.histogram;
  return bins && bins.counts.length > 1 ? histogram(bins.counts, binLabels(bins.edges), width, height) : null;
}

function rowOf(row, columns, index, onOpen, onSelect) {
  const number = element("th", { scope: "row", class: "index", text: grouped(row.record) });
  const cells = row.error
    ? [damaged(row.error, columns.length)]
    : row.cells.map((cell, at) => element("td", { class: `is-${cell.kind}` }, small(cell, { record: row.record, field: columns[at].position })));
  return element(
    "tr",
    {
      class: row.error ? "damaged" : null,
      "data-record": row.record,
      tabindex: index ? -1 : 0,
      on: { click: () => onOpen(index), focus: () => onSelect(index) },
    },
    number,
    cells,
    element("td", { class: "rest", "aria-hidden": "true" }),
  );
}

/** Return the cell that tells why a record cannot be shown. */
function damaged(error, width) {
  return element(
    "td",
    { colspan: Math.max(1, width) },
    element("span", { class: "bad", text: error.type }),
    " ",
    element("span", { class: "why", text: error.text, title: error.text }),
  );
}

/** Return the view of an empty page. */
export function empty(title, text, ...actions) {
  return element("div", { class: "empty" }, element("h2", { text: title }), element("p", { text }), actions);
}

/** Return the columns of these fields. */
export const columnsOf = (fields, positions) => positions.map((position) => ({ position, ...fields[position] }));
