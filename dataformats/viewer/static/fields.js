// The view of facts, damage and fields: types, statistics, distributions.

import { binLabels, histogram } from "./charts.js";
import { bytes, counted, element, grouped, short } from "./dom.js";

/** Return the view. `statistics` may be from a scan that still runs. */
export function overview(facts, statistics, columns, { onRecord, onList, onRun, onChoose }) {
  return element(
    "div",
    { class: "overview" },
    factsOf(facts),
    scanOf(statistics, facts, onRun),
    damageOf(statistics, onRecord, onList),
    chosen(columns, facts, onChoose),
    element("div", { class: "cards" }, columns.map((column) => card(column, statistics.fields[column.position], onRecord, onList))),
  );
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
  const list = element("dl", { class: "facts" }, rows.map(([name, text]) => element("div", {}, element("dt", { text: name }), element("dd", { text, title: text }))));
  if (!facts.files || facts.files.length < 2) return list;
  const files = facts.files.map((file) =>
    element("tr", {}, element("td", { text: file.name }), element("td", { class: "number", text: grouped(file.records) }), element("td", { class: "number", text: bytes(file.nbytes) })),
  );
  const head = element("tr", {}, ["file", "records", "size"].map((text) => element("th", { scope: "col", text })));
  const more = facts.n_files - files.length;
  return element("div", {}, list, element("details", { class: "files" },
    element("summary", { text: counted(facts.n_files, "file") }),
    element("table", {}, element("thead", {}, head), element("tbody", {}, files)),
    more > 0 ? element("p", { class: "about", text: `and ${grouped(more)} more` }) : null));
}

function scanOf(statistics, facts, onRun) {
  const isRunning = statistics.state === "running";
  const texts = {
    idle: `Statistics read all ${bytes(facts.nbytes)} once, and check every record.`,
    running: `Reading: ${grouped(statistics.done)} of ${counted(statistics.total, "record")}`,
    stopped: `Stopped after ${grouped(statistics.done)} of ${counted(statistics.total, "record")}.`,
    done: `Statistics of all ${counted(statistics.total, "record")}.`,
    failed: statistics.error ? `Ended by an error: ${statistics.error.text}` : "",
  };
  const label = isRunning ? "Stop" : "Compute statistics";
  const bar = element("progress", { max: Math.max(1, statistics.total), value: statistics.done, "aria-label": "progress of the statistics" });
  return element("div", { class: "scan" },
    element("p", { text: texts[statistics.state] }),
    isRunning ? bar : null,
    statistics.state === "done" ? null : element("button", { id: "run", text: label, on: { click: () => onRun(!isRunning) } }));
}

function damageOf(statistics, onRecord, onList) {
  const { count, records } = statistics.failed;
  if (!count) {
    return statistics.state === "done" ? element("p", { class: "sound", text: "No damaged record was found." }) : null;
  }
  const rows = records.slice(0, 20).map((one) =>
    element("li", {}, link(one.record, onRecord), " ", element("span", { class: "why", text: one.error.text })),
  );
  const numbers = records.map((one) => one.record);
  const show = element("button", { class: "quiet", text: "Show in the table", on: { click: () => onList("damaged records", numbers) } });
  const more = count > rows.length ? element("p", { class: "about", text: `and ${grouped(count - rows.length)} more` }) : null;
  return element("section", { class: "problem", "aria-label": "Damage" },
    element("h2", { text: counted(count, "damaged record") }), element("ul", {}, rows), more, show);
}

function chosen(columns, facts, onChoose) {
  if (columns.length === facts.fields.length) return null;
  return element("p", { class: "about" }, `${grouped(columns.length)} of ${counted(facts.fields.length, "field")} `,
    element("button", { class: "quiet", text: "Choose", on: { click: onChoose } }));
}

const link = (record, onRecord, title = "Show this record") =>
  element("button", { class: "link", text: grouped(record), title, on: { click: () => onRecord(record) } });

function card(column, statistics, onRecord, onList) {
  const head = element("h3", {}, element("span", { class: "name", text: column.name, title: column.name }), element("span", { class: "type", text: column.type }));
  if (!statistics) return element("section", { class: "card" }, head);
  return element("section", { class: "card" }, head, numbers(statistics), distribution(statistics), common(statistics), largest(column, statistics, onRecord, onList));
}

function numbers(statistics) {
  const [least, mean, most] = statistics.of_lengths ? ["shortest", "mean length", "longest"] : ["least", "mean", "most"];
  const rows = [
    ["records", grouped(statistics.count)],
    statistics.missing ? ["missing", grouped(statistics.missing)] : null,
    [least, short(statistics.minimum)],
    [mean, short(statistics.mean)],
    [most, short(statistics.maximum)],
    ["deviation", short(statistics.std)],
    statistics.distinct ? ["distinct", grouped(statistics.distinct)] : null,
    statistics.nans ? ["NaN", grouped(statistics.nans)] : null,
    statistics.infinite ? ["infinite", grouped(statistics.infinite)] : null,
  ].filter((row) => row && row[1] !== "");
  return element("dl", { class: "numbers" }, rows.map(([name, text]) => element("div", {}, element("dt", { text: name }), element("dd", { text }))));
}

function distribution(statistics) {
  const bins = statistics.histogram;
  const isShort = statistics.common && statistics.distinct <= 12; // the bars below say as much
  if (!bins || bins.counts.length < 2 || isShort) return null;
  const ends = element("div", { class: "ends" }, [statistics.minimum, statistics.maximum].map((end) => element("span", { text: short(end) })));
  return element("figure", {}, histogram(bins.counts, binLabels(bins.edges), 320, 64), ends);
}

function common(statistics) {
  if (!statistics.common || !statistics.common.length) return null;
  const most = statistics.common[0].count;
  const rows = statistics.common.slice(0, 12).map((one) => {
    const bar = element("span", { class: "fill" });
    bar.style.width = `${(100 * one.count) / most}%`;
    return element("li", {}, element("span", { class: "value", text: one.text, title: one.text }), element("span", { class: "track" }, bar), element("span", { class: "number", text: grouped(one.count) }));
  });
  return element("ol", { class: "common", "aria-label": "Most common values" }, rows);
}

function largest(column, statistics, onRecord, onList) {
  if (!statistics.largest || !statistics.largest.length) return null;
  const what = statistics.of_lengths ? "longest" : "largest";
  const show = element("button", { class: "quiet", text: "Show them", on: { click: () => onList(`${what} ${column.name}`, statistics.largest.map((one) => one.record)) } });
  return element("div", { class: "largest" }, element("span", { class: "note", text: `${what}: ` }), statistics.largest.map((one) => [link(one.record, onRecord, `${short(one.size)} ${one.text}`), " "]), show);
}
