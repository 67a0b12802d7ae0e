// Sparklines, heat maps and histograms.

import { drawing, element, short } from "./dom.js";

/** Return a line through numbers; `null` interrupts it. */
export function sparkline(numbers, width, height) {
  const known = numbers.filter((number) => number !== null);
  const low = Math.min(...known);
  const range = Math.max(...known) - low || 1;
  const step = (width - 2) / Math.max(1, numbers.length - 1);
  let path = "";
  let drawn = false;
  numbers.forEach((number, index) => {
    if (number !== null) {
      const y = height - 2 - ((number - low) / range) * (height - 4);
      path += `${drawn ? "L" : "M"}${(1 + index * step).toFixed(1)} ${y.toFixed(1)}`;
    }
    drawn = number !== null;
  });
  const line = drawing("path", { d: path, fill: "none", "vector-effect": "non-scaling-stroke" });
  const label = `line through ${numbers.length} numbers, from ${short(low)} to ${short(low + range)}`;
  return drawing(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none", role: "img", "aria-label": label },
    line,
  );
}

const STOPS = [[48, 18, 92], [44, 92, 158], [33, 156, 146], [122, 202, 94], [252, 228, 86]];

function shade(level) {
  const place = (level / 255) * (STOPS.length - 1);
  const index = Math.min(Math.floor(place), STOPS.length - 2);
  const part = place - index;
  return STOPS[index].map((from, channel) => Math.round(from + (STOPS[index + 1][channel] - from) * part));
}

/** Return the heat map of a matrix of levels. */
export function heatMap(map, side) {
  const canvas = element("canvas", {
    class: "heat",
    width: map.columns,
    height: map.rows,
    role: "img",
    "aria-label": `heat map, from ${short(map.low)} to ${short(map.high)}`,
  });
  const scale = side / Math.max(map.rows, map.columns);
  canvas.style.width = `${Math.max(6, Math.round(map.columns * scale))}px`;
  canvas.style.height = `${Math.max(6, Math.round(map.rows * scale))}px`;
  const context = canvas.getContext("2d");
  const picture = context.createImageData(map.columns, map.rows);
  const levels = atob(map.levels);
  for (let pixel = 0; pixel < levels.length; pixel += 1) {
    picture.data.set([...shade(levels.charCodeAt(pixel)), 255], 4 * pixel);
  }
  context.putImageData(picture, 0, 0);
  return canvas;
}

/** Return bars for counts; `labels` name them. `onRange` gets the first and the last of the bars that the user chose. */
export function histogram(counts, labels, width, height, onRange = null) {
  const most = Math.max(1, ...counts);
  const step = width / counts.length;
  const gap = step > 4 ? 1 : 0;
  const bars = counts.map((count, index) => {
    const size = count ? Math.max(1.5, (count / most) * (height - 1)) : 0;
    const place = { x: index * step, y: height - size, width: Math.max(0.5, step - gap), height: size };
    return drawing("rect", place, drawing("title", { text: `${labels[index]}: ${short(count)}` }));
  });
  const base = drawing("path", { class: "base", d: `M0 ${height - 0.5}H${width}` });
  const chart = drawing(
    "svg",
    {
      class: onRange ? "histogram is-filter" : "histogram",
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `histogram of ${counts.length} bins`,
    },
    base,
    bars,
  );
  if (onRange) chooseBars(chart, counts.length, width, height, onRange);
  return chart;
}

/** Let the user choose bars: a click takes one, a drag all from its start to its end. */
function chooseBars(chart, n, width, height, onRange) {
  const range = drawing("rect", { class: "range", y: 0, height, width: 0 });
  chart.prepend(range);
  let start = null;
  const barAt = (event) => {
    const { left, width: wide } = chart.getBoundingClientRect();
    return Math.max(0, Math.min(n - 1, Math.floor(((event.clientX - left) / wide) * n)));
  };
  const ends = (event) => [Math.min(start, barAt(event)), Math.max(start, barAt(event))];
  const mark = (event) => {
    if (start === null) return;
    const [first, last] = ends(event);
    range.setAttribute("x", (first * width) / n);
    range.setAttribute("width", ((last + 1 - first) * width) / n);
  };
  const end = (event) => {
    chart.classList.remove("is-dragged");
    range.setAttribute("width", 0);
    if (start !== null && event.type === "pointerup") onRange(...ends(event));
    start = null;
  };
  chart.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    start = barAt(event);
    chart.setPointerCapture(event.pointerId);
    chart.classList.add("is-dragged");
    mark(event);
  });
  chart.addEventListener("pointermove", mark);
  chart.addEventListener("pointerup", end);
  chart.addEventListener("pointercancel", end);
}

/** Return the condition of values in the bins from `first` to `last`. */
export function rangeOf({ bounds, measure }, first, last) {
  return `${measure} >= ${bounds[first]} and ${measure} < ${bounds[last + 1]}`;
}

/** Return the labels of the bins between these edges. */
export const binLabels = (edges) =>
  edges.slice(1).map((edge, index) => (edge - edges[index] === 1 ? short(edges[index]) : `${short(edges[index])} to ${short(edge)}`));
