// The table of records.

import { binLabels, histogram, rangeOf } from "./charts.js";
import { element, grouped } from "./dom.js";
import { small } from "./values.js";

/** Return the table of these rows. `chart` returns the statistics of a field, or nothing; `sort` is how they are sorted. */
export function table(rows, columns, { onOpen, onSelect, onSort, onFilter, sort, chart }) {
  const head = element(
    "tr",
    {},
    element("th", { scope: "col", class: "index", text: "record" }),
    columns.map((column, at) => headOf(column, rows.map((row) => row.cells?.[at].kind), chart(column.position), { onSort, onFilter, sort })),
    rest(),
  );
  const body = rows.map((row, index) => rowOf(row, columns, index, onOpen, onSelect));
  return element(
    "div",
    { class: "scroll", tabindex: -1 },
    element("table", { "aria-label": "Records" }, element("thead", {}, head), element("tbody", {}, body)),
  );
}

function headOf(column, kinds, statistics, { onSort, onFilter, sort }) {
  const direction = sort?.field === column.position ? (sort.descending ? "descending" : "ascending") : null;
  const isSorted = onSort && column.ordered && (direction || !column.type.startsWith("bytes") || kinds.includes("text")); // and no images
  const name = element("span", { class: "name", text: column.name, title: column.name });
  return element(
    "th",
    { scope: "col", class: kinds.includes("number") ? "is-number" : null, "data-field": column.position, "aria-sort": direction },
    isSorted ? element("button", { class: "sort", title: "Sort: ascending, descending, not", on: { click: () => onSort(column.position) } }, name) : name,
    element("span", { class: "type", text: column.opaque ? `${column.type} (opaque)` : column.type }),
    element("span", { class: "chart" }, statistics ? miniature(statistics, onFilter) : null),
  );
}

/** Return the small histogram of a field: of its values, or of the most common ones. */
function miniature(statistics, onFilter, width = 96, height = 22) {
  const { common, histogram: bins } = statistics;
  if (statistics.of_lengths && common?.length > 1 && common[0].count > 1) {
    const conditionOf = (first, last) => common.slice(first, last + 1).map((one) => one.where);
    const filter = (first, last) => conditionOf(first, last).every(Boolean) && onFilter(either(conditionOf(first, last)));
    return histogram(common.map((one) => one.count), common.map((one) => one.text), width, height, filter);
  }
  if (!bins || bins.counts.length < 2) return null;
  return histogram(bins.counts, binLabels(bins.edges), width, height, bins.measure && ((first, last) => onFilter(rangeOf(bins, first, last))));
}

const either = (conditions) => (conditions.length > 1 ? `(${conditions.join(" or ")})` : conditions[0]);

function rowOf(row, columns, index, onOpen, onSelect) {
  const number = element("th", { scope: "row", class: "index", text: grouped(row.record) });
  const cells = row.error
    ? [damaged(row.error, columns.length + 1)]
    : row.cells.map((cell, at) => element("td", { class: `is-${cell.kind}` }, small(cell, { record: row.record, field: columns[at].position }))).concat(rest());
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
  );
}

/** Return the cell that takes the width that is left. */
const rest = () => element("td", { class: "rest", "aria-hidden": "true" });

/** Return the cell that tells why a record cannot be shown. */
function damaged(error, width) {
  return element(
    "td",
    { colspan: width },
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
