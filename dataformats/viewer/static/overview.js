// The view of facts, damage and fields: types, statistics, distributions.

import { binLabels, histogram, rangeOf } from "./charts.js";
import { bytes, counted, element, grouped, short } from "./dom.js";

/** Return the view, and the function that fills it with statistics; a scan may still run. */
export function overview(facts, columns, actions) {
  const about = element("p", { role: "status" });
  const bar = element("progress", { "aria-label": "progress of the statistics" });
  const button = element("button", { id: "run", on: { click: () => actions.onRun(button.textContent !== "Stop") } });
  const damage = element("div", {});
  const cards = element("div", { class: "cards" });
  const scan = element("div", { class: "scan" }, about, bar, button);
  const update = (statistics) => {
    const isRunning = statistics.state === "running";
    about.textContent = progressOf(statistics, facts);
    bar.hidden = !isRunning;
    bar.max = Math.max(1, statistics.total);
    bar.value = statistics.done;
    button.hidden = statistics.state === "done";
    button.textContent = isRunning ? "Stop" : "Compute statistics";
    damage.replaceChildren(...damageOf(statistics, actions));
    if (!cards.querySelector(".is-dragged")) cards.replaceChildren(...columns.map((column) => card(column, statistics.fields[column.position], actions)));
  };
  return [element("div", { class: "overview" }, factsOf(facts), scan, damage, chosen(columns, facts, actions), cards), update];
}

function factsOf(facts) {
  const rows = [
    ["path", facts.path],
    ["format", facts.payload ? `${facts.format}, payload ${facts.payload}` : facts.format],
    ["records", facts.records === undefined ? "counting" : grouped(facts.records)],
    ["size", `${bytes(facts.nbytes)} in ${counted(facts.n_files, "file")}`],
    ["fields", `${grouped(facts.fields.length)}, ${facts.is_inferred ? "inferred from records" : "declared"}`],
    ...Object.entries(facts.metadata),
  ];
  const list = pairs("facts", rows);
  if (!facts.files || facts.files.length < 2) return list;
  const files = facts.files.map((file) =>
    element(
      "tr",
      {},
      element("td", { text: file.name }),
      element("td", { class: "number", text: grouped(file.records) }),
      element("td", { class: "number", text: bytes(file.nbytes) }),
    ),
  );
  const head = element("tr", {}, ["file", "records", "size"].map((text) => element("th", { scope: "col", text })));
  const more = facts.n_files - files.length;
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, files));
  const rest = more > 0 ? element("p", { class: "about", text: `and ${grouped(more)} more` }) : null;
  return [list, element("details", { class: "files" }, element("summary", { text: counted(facts.n_files, "file") }), table, rest)];
}

const pairs = (style, rows) =>
  element("dl", { class: style }, rows.map(([name, text]) => element("div", {}, element("dt", { text: name }), element("dd", { text, title: text }))));

function progressOf(statistics, facts) {
  const all = counted(statistics.total, "record");
  const texts = {
    idle: `Statistics read all ${bytes(facts.nbytes)} once, and check every record.`,
    running: `Reading: ${grouped(statistics.done)} of ${all}`,
    stopped: `Stopped after ${grouped(statistics.done)} of ${all}.`,
    done: `Statistics of all ${all}.`,
    failed: statistics.error ? `Ended by an error: ${statistics.error.text}` : "",
  };
  return texts[statistics.state];
}

function damageOf(statistics, { onRecord, onList }) {
  const { count, records } = statistics.failed;
  if (!count) {
    return statistics.state === "done" ? [element("p", { class: "sound", text: "No damaged record was found." })] : [];
  }
  const rows = records
    .slice(0, 20)
    .map((one) => element("li", {}, link(one.record, onRecord), " ", element("span", { class: "why", text: one.error.text })));
  const numbers = records.map((one) => one.record);
  const show = element("button", { class: "quiet", text: "Show in the table", on: { click: () => onList("damaged records", numbers) } });
  const more = count > rows.length ? element("p", { class: "about", text: `and ${grouped(count - rows.length)} more` }) : null;
  const title = element("h2", { text: counted(count, "damaged record") });
  return [element("section", { class: "problem", "aria-label": "Damage" }, title, element("ul", {}, rows), more, show)];
}

function chosen(columns, facts, { onChoose }) {
  if (columns.length === facts.fields.length) return null;
  const choose = element("button", { class: "quiet", text: "Choose", on: { click: onChoose } });
  return element("p", { class: "about" }, `${grouped(columns.length)} of ${counted(facts.fields.length, "field")} `, choose);
}

const link = (record, onRecord, title = "Show this record") =>
  element("button", { class: "link", text: grouped(record), title, on: { click: () => onRecord(record) } });

function card(column, statistics, actions) {
  const name = element("span", { class: "name", text: column.name, title: column.name });
  const head = element("h3", {}, name, element("span", { class: "type", text: column.type }));
  if (!statistics) return element("section", { class: "card" }, head);
  const parts = [numbers(statistics), distribution(statistics, actions), common(statistics, actions), largest(column, statistics, actions)];
  return element("section", { class: "card" }, head, parts);
}

const isOfImages = (statistics) => statistics.largest.some((one) => one.text.includes("image"));

/** Return the names of minimum, mean, maximum and largest values, and how these are written. */
function words(statistics) {
  if (isOfImages(statistics)) return ["smallest", "mean size", "largest", bytes];
  return statistics.of_lengths ? ["shortest", "mean length", "longest", short] : ["least", "mean", "largest", short];
}

function numbers(statistics) {
  const [least, mean, most, write] = words(statistics);
  const rows = [
    ["records", grouped(statistics.count)],
    ...[[least, statistics.minimum], [mean, statistics.mean], [most, statistics.maximum], ["deviation", statistics.std]]
      .map(([name, number]) => [name, number === null ? "" : write(number)]),
    ["distinct", short(statistics.distinct)],
    ["missing", statistics.missing && grouped(statistics.missing)],
    ["NaN", statistics.nans && grouped(statistics.nans)],
    ["infinite", statistics.infinite && grouped(statistics.infinite)],
  ];
  return pairs("numbers", rows.filter(([, text]) => text));
}

const repeats = (statistics) => statistics.common && statistics.common.length && statistics.common[0].count > 1;

const isListed = (statistics) => repeats(statistics) && statistics.distinct <= 12; // `common` says all

function distribution(statistics, { onFilter }) {
  const bins = statistics.histogram;
  if (!bins || bins.counts.length < 2 || isListed(statistics)) return null;
  const ends = [statistics.minimum, statistics.maximum].map((end) => element("span", { text: words(statistics)[3](end) }));
  const chart = histogram(bins.counts, binLabels(bins.edges), 320, 64, bins.measure && ((first, last) => onFilter(rangeOf(bins, first, last))));
  return element("figure", {}, chart, element("div", { class: "ends" }, ends));
}

function common(statistics, { onFilter }) {
  if (!repeats(statistics)) return null;
  const most = statistics.common[0].count;
  const rows = statistics.common.slice(0, 12).map((one) => {
    const bar = element("span", { class: "fill" });
    bar.style.width = `${(100 * one.count) / most}%`;
    const value = one.where
      ? element("button", { class: "value", text: one.text, title: `Show records with ${one.where}`, on: { click: () => onFilter(one.where) } })
      : element("span", { class: "value", text: one.text, title: one.text });
    return element("li", {}, value, element("span", { class: "track" }, bar), element("span", { class: "number", text: grouped(one.count) }));
  });
  return element("ol", { class: "common", "aria-label": "Most common values" }, rows);
}

function largest(column, statistics, { onRecord, onList }) {
  if (!statistics.largest.length || statistics.minimum === statistics.maximum || isListed(statistics)) return null;
  const what = words(statistics)[2];
  const records = statistics.largest.map((one) => one.record);
  const show = () => onList(`${what} ${column.name}`, records, isOfImages(statistics) ? column.position : null);
  const links = statistics.largest.map((one) => [link(one.record, onRecord, `${short(one.size)} ${one.text}`), " "]);
  const button = element("button", { class: "quiet", text: "Show them", on: { click: show } });
  return element("div", { class: "largest" }, element("span", { class: "note", text: `${what}: ` }), links, button);
}
