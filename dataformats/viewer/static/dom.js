// Elements are made here, and nowhere from markup: text of a dataset is only ever text.

/** Return an element. `options`: attributes by name, `class`, `text`, `on` (event to function). */
export function element(tag, options = {}, ...children) {
  return filled(document.createElement(tag), options, children);
}

/** Return an SVG element, likewise. */
export function drawing(tag, options = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), options, children);
}

function filled(node, { text, on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  for (const [event, handler] of Object.entries(on)) node.addEventListener(event, handler);
  if (text !== undefined) node.textContent = text;
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** Return a whole number with thousands separated. */
export const grouped = (number) => Number(number).toLocaleString("en-US");

/** Return `1 record` or `2 records`. */
export const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Return a size such as `12.3 KB`. */
export function bytes(number) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = number;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

/** Return a number in few characters. */
export function short(number) {
  if (number === null || number === undefined) return "";
  if (Number.isInteger(number) && Math.abs(number) < 1e12) return grouped(number);
  const size = Math.abs(number);
  if (size >= 1000 && size < 1e12) return grouped(Math.round(number));
  return size >= 1e12 || (size && size < 1e-3) ? number.toExponential(2) : String(Number(number.toPrecision(4)));
}
