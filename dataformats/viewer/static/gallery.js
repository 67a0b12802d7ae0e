// The gallery: the pictures of a page of records, with short captions.

import { bytes, element, grouped } from "./dom.js";
import { picture } from "./values.js";

const CAPTION = new Set(["number", "text"]);

/** Return the positions in `columns` whose values are pictures on this page. */
export function pictureColumns(rows, columns) {
  const sound = rows.filter((row) => row.cells);
  return columns.map((_, at) => at).filter((at) => sound.some((row) => imageOf(row.cells[at])));
}

const imageOf = (cell) => (cell.kind === "image" ? cell : cell.items?.find((item) => item.kind === "image"));

/** Return the gallery of the column `at`. */
export function gallery(rows, columns, at, { onOpen, onSelect }) {
  return element(
    "ul",
    { class: "gallery", "aria-label": "Gallery" },
    rows.map((row, index) => tile(row, columns, at, index, onOpen, onSelect)),
  );
}

function tile(row, columns, at, index, onOpen, onSelect) {
  const shown = row.error ? null : imageOf(row.cells[at]);
  const place = { record: row.record, field: columns[at].position, item: shown && row.cells[at].items ? row.cells[at].items.indexOf(shown) : undefined };
  const none = element("span", { class: row.error ? "bad" : "missing", text: row.error ? row.error.type : "no image" });
  const captions = row.error ? [] : row.cells.flatMap((cell, field) => (CAPTION.has(cell.kind) ? [[columns[field].name, cell.text]] : []));
  return element(
    "li",
    {},
    element(
      "button",
      {
        class: row.error ? "tile damaged" : "tile",
        "data-record": row.record,
        tabindex: index ? -1 : 0,
        on: { click: () => onOpen(index), focus: () => onSelect(index) },
      },
      element("span", { class: "frame" }, shown ? picture(shown, place, 256, "picture") : none),
      element("span", { class: "index", text: grouped(row.record) }),
      shown?.width ? element("span", { class: "caption note", text: `${shown.width} × ${shown.height}, ${bytes(shown.length)}` }) : null,
      captions.slice(0, 2).map(([name, text]) => element("span", { class: "caption", title: `${name}: ${text}` }, element("span", { class: "note", text: `${name} ` }), text)),
    ),
  );
}
