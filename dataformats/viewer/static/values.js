// Values of records, small in the table and large in the panel.

import * as api from "./api.js";
import { heatMap, sparkline } from "./charts.js";
import { bytes, counted, element, grouped } from "./dom.js";

const note = (text, title) => element("span", { class: "note", text, title });

const describe = (cell) => [cell.name, cell.width && `${cell.width} × ${cell.height}`].filter(Boolean).join(" ");

/** Return the value for a cell of the table. */
export function small(cell, place) {
  const draw = SMALL[cell.kind];
  return draw ? draw(cell, place) : note(cell.kind);
}

const SMALL = {
  missing: () => element("span", { class: "missing", text: "missing", title: "The record lacks this field" }),
  error: (cell) => element("span", { class: "bad", text: cell.type, title: cell.text }),
  null: () => note("null"),
  number: (cell) => element("span", { class: "number", text: cell.text }),
  text: (cell) => [
    element("span", { class: "text", text: oneLine(cell.text), title: cell.text }),
    cell.cut ? note(` ${grouped(cell.length)}`, cell.bytes ? "bytes" : "characters") : null,
  ],
  json: (cell, place) => [
    element("span", { class: "code", text: cell.text, title: cell.text }),
    cell.entries === undefined ? null : note(` ${grouped(cell.entries)}`, "entries"),
    pictures(cell, place),
  ],
  chat: (cell) => [
    ...cell.turns.map((turn) => element("div", { class: "turn" }, element("b", { text: turn.role }), " ", element("span", { class: "text", text: oneLine(turn.text), title: turn.text }))),
    cell.turns.length < cell.length ? note(counted(cell.length, "message")) : null,
  ],
  bytes: (cell, place) => [element("span", { class: "code", text: spaced(cell.hex.slice(0, 24)) }), note(` ${bytes(cell.length)}`), pictures(cell, place)],
  image: (cell, place) => picture(cell, place, 96, "thumb"),
  audio: (cell) => note(`♪ ${cell.name}, ${bytes(cell.length)}`),
  video: (cell) => note(`▶ ${cell.name}, ${bytes(cell.length)}`),
  array: (cell) => [drawn(cell, 96, 26, 40), note(` ${cell.dtype}[${cell.shape.join(",")}]`, cell.values.join(" "))],
  list: (cell, place) => [
    pictures(cell, place),
    note(`${counted(cell.length, "item")}: lengths ${cell.lengths.map(grouped).join(", ")}${cell.length > cell.lengths.length ? ", …" : ""}`),
  ],
};

const pictures = (cell, place) =>
  cell.items?.map((item, index) => (item.kind === "image" ? picture(item, { ...place, item: index }, 96, "thumb") : null));

const oneLine = (text) => text.replace(/\s+/g, " ");
const spaced = (hex) => hex.replace(/(..)/g, "$1 ").trim();

function drawn(cell, width, height, side) {
  if (cell.line) return sparkline(cell.line, width, height);
  if (cell.map) return heatMap(cell.map, side);
  return element("span", { class: "code", text: cell.values.join(" ") });
}

/** Return the thumbnail of an image. */
export function picture(cell, place, size, style) {
  if (cell.error) return element("span", { class: "bad", text: "broken image", title: cell.error });
  return element("img", {
    class: isTiny(cell) ? `${style} tiny` : style,
    loading: "lazy",
    decoding: "async",
    src: api.thumbnail(place, size),
    alt: `image of record ${place.record}`,
    title: `${describe(cell)}, ${bytes(cell.length)}`,
  });
}

const isTiny = (cell) => Math.max(cell.width || 0, cell.height || 0) < 96;

/** Return the value for the panel of one record. */
export function large(cell, place) {
  const draw = LARGE[cell.kind];
  return draw ? draw(cell, place) : small(cell, place);
}

const LARGE = {
  text(cell, place) {
    const unit = cell.bytes ? "byte" : "character";
    return [tree(cell.text) || folded(cell.text), cut(cell, unit, place)];
  },
  json: (cell, place) => [tree(cell.text) || folded(cell.text), cut(cell, "character", place), items(cell, place)],
  chat(cell, place) {
    const turns = cell.turns.map((turn) => element("li", {}, element("b", { text: turn.role }), element("div", { class: "said", text: turn.text })));
    const shown = turns.length < cell.length ? `, the first ${turns.length} shown` : "";
    return [element("ul", { class: "items" }, turns), facts(`${counted(cell.length, "message")}${shown}`, place)];
  },
  bytes: (cell, place) => [dump(cell.hex), facts(bytes(cell.length), place), items(cell, place)],
  image(cell, place) {
    if (cell.error) return [element("p", { class: "bad", text: cell.error }), facts(bytes(cell.length), place)];
    const isArray = cell.name.includes("[");
    const source = isArray ? api.thumbnail(place, 1024) : api.value(place);
    const options = { class: isTiny(cell) ? "whole tiny" : "whole", src: source, alt: `image of record ${place.record}` };
    const broken = (event) =>
      event.target.replaceWith(element("p", { class: "bad", text: "The image cannot be decoded." }));
    return [element("img", { ...options, on: { error: broken } }), facts(`${describe(cell)}${cell.mode ? ` ${cell.mode}` : ""}, ${bytes(cell.length)}`, place)];
  },
  audio: (cell, place) => [player("audio", place), facts(`${cell.name}, ${bytes(cell.length)}`, place)],
  video: (cell, place) => [player("video", place), facts(`${cell.name}, ${bytes(cell.length)}`, place)],
  array(cell, place) {
    const shown = cell.values.length < cell.length ? `, the first ${grouped(cell.values.length)} shown` : "";
    const text = `${cell.dtype}[${cell.shape.join(",")}], ${counted(cell.length, "value")}${shown}`;
    const values = element("div", { class: "values", tabindex: 0 }, cell.values.map((one) => element("span", { text: one })));
    if (cell.shape.length > 1) values.style.gridTemplateColumns = `repeat(${cell.shape.at(-1)}, max-content)`; // a row in a line
    return [cell.line || cell.map ? drawn(cell, 360, 96, 240) : null, values, facts(text, place)];
  },
  list(cell, place) {
    const shown = cell.items.length < cell.length ? `, the first ${cell.items.length} shown` : "";
    return [items(cell, place), facts(`${counted(cell.length, "item")}${shown}`, place)];
  },
};

/** Return the items of a list, or the files inside a document. */
function items(cell, place) {
  const shown = cell.items?.map((item, index) => element("li", {}, element("div", {}, large(item, { ...place, item: index }))));
  return shown ? element("ol", { class: "items", start: 0 }, shown) : null;
}

function facts(text, place) {
  return element("p", { class: "about" }, note(text), " ", element("a", { href: api.value(place), download: "", text: "Download" }));
}

function cut(cell, unit, place) {
  if (cell.length < 200) return null;
  const all = cell.length === undefined ? "" : ` of ${grouped(cell.length)}`;
  const text = cell.cut ? `the first ${grouped(cell.text.length)}${all} ${unit}s` : counted(cell.length, unit);
  return facts(text, place);
}

function player(kind, place) {
  const broken = (event) => event.target.replaceWith(element("p", { class: "bad", text: `The browser cannot play this ${kind}.` }));
  return element(kind, { controls: true, preload: "metadata", src: api.value(place), on: { error: broken } });
}

function folded(text) {
  const block = element("pre", { class: "block", text, tabindex: 0 });
  if (text.length < 600 && text.split("\n").length < 12) return block;
  block.classList.add("is-folded");
  const button = element("button", { class: "quiet more", text: "Show more", "aria-expanded": "false" });
  button.addEventListener("click", () => {
    const isFolded = block.classList.toggle("is-folded");
    button.textContent = isFolded ? "Show more" : "Show less";
    button.setAttribute("aria-expanded", String(!isFolded));
  });
  return element("div", {}, block, button);
}

function dump(hex) {
  const lines = [];
  for (let start = 0; start < Math.min(hex.length, 8184); start += 24) {
    const part = hex.slice(start, start + 24);
    const characters = (part.match(/../g) || []).map((pair) => parseInt(pair, 16));
    const text = characters.map((code) => (code > 31 && code < 127 ? String.fromCharCode(code) : "·")).join("");
    lines.push(`${(start / 2).toString(16).padStart(6, "0")}  ${spaced(part).padEnd(35)}  ${text}`);
  }
  const block = folded(lines.join("\n"));
  (block.querySelector("pre") ?? block).classList.add("dump");
  return block;
}

// ---- JSON as a tree that opens level by level

function tree(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    return element("div", { class: "tree" }, branch(JSON.parse(text), null, true));
  } catch {
    return null;
  }
}

function branch(value, key, isOpen) {
  const label = key === null ? null : element("span", { class: "key", text: `${key}: ` });
  if (value === null || typeof value !== "object") {
    const style = typeof value === "string" ? "string" : "number";
    return element("div", { class: "leaf" }, label, element("span", { class: style, text: JSON.stringify(value) }));
  }
  const entries = Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
  const about = Array.isArray(value) ? `[${counted(entries.length, "item")}]` : `{${counted(entries.length, "key")}}`;
  const details = element("details", {}, element("summary", {}, label, note(about)));
  const open = () => {
    if (details.childElementCount > 1 || !details.open) return;
    details.append(...entries.slice(0, 200).map(([name, item]) => branch(item, name, false)));
    if (entries.length > 200) details.append(note(`and ${grouped(entries.length - 200)} more`));
  };
  details.addEventListener("toggle", open);
  details.open = isOpen;
  if (isOpen) open();
  return details;
}
