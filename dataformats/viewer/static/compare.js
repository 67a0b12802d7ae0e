// The page that compares two datasets: types, then each record that differs, with both values side by side.

import * as api from "./api.js";
import { byId, bytes, counted, element, grouped } from "./dom.js";
import { failed, notice } from "./notices.js";
import { SOON } from "./state.js";
import { recallTheme, switchTheme } from "./theme.js";
import { small } from "./values.js";

const PAGE = 10; // records
const FIELDS = 12; // of a record that differs in fewer
const SIDES = ["first/", "second/"];

let datasets = []; // the facts of both
let first = 0; // the first difference of the page
let latest = { state: "indexing", found: 0, rows: [] };

const named = (side) => `${"AB"[side]}: ${datasets[side].name}`;

function showSides() {
  document.title = `${datasets.map((one) => one.name).join(" – ")} – dataformats`;
  byId("sides").replaceChildren(...datasets.map((one, side) => element(
    "section",
    { class: "card" },
    element("h2", {}, element("span", { class: "name", text: named(side), title: one.path }), element("a", { href: SIDES[side], target: "_blank", text: `Open ${"AB"[side]}` })),
    element("p", { text: [one.format, one.records === undefined ? "counting records" : counted(one.records, "record"), counted(one.fields.length, "field"), bytes(one.nbytes)].join(" · ") }),
  )));
}

function rowOf(style, name, cells) {
  return element("tr", { class: style }, element("th", { scope: "row" }, name), cells.map((cell) => element("td", {}, cell)));
}

function pairs(head, rows) {
  const names = [head, named(0), named(1)].map((text, at) => (at ? element("th", { scope: "col", text }) : element("td", { text: "" })));
  return element("table", { class: "pairs" }, element("thead", {}, element("tr", {}, names)), element("tbody", {}, rows));
}

/** Show the fields whose types differ, and how many records differ in each field. */
function showTypes({ types, n_types, counts }) {
  const missing = element("span", { class: "missing", text: "missing" });
  const rows = types.map(([name, ...both]) => rowOf("differs", name, both.map((one) => one ?? missing.cloneNode(true))));
  const more = n_types > types.length ? element("p", { class: "about", text: `and ${grouped(n_types - types.length)} more` }) : null;
  const list = counts.slice(0, 24).map(([name, n]) => element("div", {}, element("dt", { text: name }), element("dd", { text: counted(n, "record") })));
  byId("types").replaceChildren(
    ...(rows.length ? [element("h2", { text: "Fields whose types differ" }), element("section", { class: "card" }, pairs("field", rows), more)].filter(Boolean) : []),
    ...(list.length ? [element("h2", { text: "Fields whose values differ" }), element("dl", { class: "facts" }, list)] : []),
  );
}

const isKnown = (place) => place !== null && place !== undefined;

/** Return the fields of a record to show: those that differ, then others that both have. */
function fieldsOf(row) {
  const shown = new Set(row.fields.map((one) => one.name));
  const others = datasets[0].fields.map(({ name }, place) => ({ name, places: [place, datasets[1].places.get(name) ?? null] }));
  return [...row.fields, ...others.filter((one) => !shown.has(one.name)).slice(0, Math.max(0, FIELDS - shown.size))];
}

/** Return the cells of these fields of both datasets: record to field position to cell. */
async function cellsOf(rows) {
  return Promise.all(SIDES.map(async (side, at) => {
    const numbers = rows.map((row) => row.record);
    const places = [...new Set(rows.flatMap((row) => row.shown.map((one) => one.places[at])))].filter(isKnown).slice(0, 200);
    const answer = numbers.length ? await api.records(numbers, places, false, undefined, side) : { rows: [] };
    return new Map(answer.rows.map((row) => [row.record, row.error ? row : { cells: new Map(places.map((place, index) => [place, row.cells[index]])) }]));
  }));
}

const WHOLE = new Set(["number", "null", "missing"]); // shown whole

function valueOf(row, field, side, cells) {
  const found = cells[side].get(row.record);
  const place = field.places[side];
  const cell = isKnown(place) ? found?.cells?.get(place) : null;
  const text = field.texts?.[side];
  if (!cell) return text ? element("span", { class: "code", text }) : element("span", { class: "missing", text: found ? "missing" : "no record" });
  const isWhole = WHOLE.has(cell.kind) || (cell.kind === "text" && !cell.cut);
  return [small(cell, { base: SIDES[side], record: row.record, field: place }), text && !isWhole ? element("p", { class: "about", text }) : null];
}

function difference(row, cells) {
  const broken = cells.map((one) => one.get(row.record)).map((one) => (one ? one.error?.text : "There is no such record."));
  const rest = row.fields.length < row.n_fields ? `, the first ${row.fields.length} shown` : "";
  const about = broken.some(Boolean) ? null : `${latest.is_described ? "" : "at least "}${counted(row.n_fields, "field")} differ${row.n_fields === 1 ? "s" : ""}${rest}`;
  const links = SIDES.map((side, at) => element("a", { href: `${side}#record=${row.record}&first=${row.record}`, target: "_blank", text: `Open in ${"AB"[at]}` }));
  const lines = row.shown.map((field) => rowOf(field.texts ? "differs" : null, field.texts ? ["≠ ", field.name] : field.name, [0, 1].map((side) => (broken[side] ? "" : valueOf(row, field, side, cells)))));
  if (broken.some(Boolean)) lines.unshift(rowOf("differs", "record", broken.map((text) => text ?? "")));
  const head = element("h3", {}, element("span", { class: "name", text: `Record ${grouped(row.record)}` }), element("span", { class: "note", text: about }), links.filter((_, at) => cells[at].has(row.record)));
  return element("section", { class: "card difference" }, head, pairs("field", lines));
}

function showProgress({ state, done, total, records, found, damaged, types, is_cut }) {
  const differ = `${grouped(found)}${is_cut ? " and more" : ""} differ${found === 1 ? "s" : ""}${damaged ? `, ${grouped(damaged)} cannot be read` : ""}`;
  const isEqual = !found && !types.length;
  const texts = {
    indexing: "Building the indexes",
    running: `Compared ${grouped(done)} of ${counted(total, "record")}: ${differ}`,
    done: isEqual ? `Equal: ${counted(total, "record")}` : `${grouped(records[0])} and ${counted(records[1], "record")}: ${differ}`,
    failed: `Ended by an error after ${counted(done, "record")}`,
  };
  byId("progress").textContent = texts[state];
  const last = Math.min(first + PAGE, found);
  byId("place").textContent = found ? `${grouped(first + 1)} – ${grouped(last)} of ${grouped(found)}` : "0";
  byId("page-first").disabled = byId("page-back").disabled = first === 0;
  byId("page-next").disabled = byId("page-last").disabled = last >= found;
}

/** Ask how far the comparison is, and show a page of differences unless it is shown already. */
async function load(isNew = true) {
  const mine = first;
  const answer = await api.comparison(first, isNew || latest.rows.length < PAGE ? PAGE : 0);
  if (mine !== first) return;
  const rows = answer.rows.length || isNew ? answer.rows : latest.rows;
  const isSame = !isNew && rows.length === latest.rows.length;
  latest = { ...answer, rows };
  showProgress(answer);
  showTypes(answer);
  if (answer.error) notice("comparison", answer.error.text);
  if (isSame) return;
  for (const row of rows) row.shown = fieldsOf(row);
  const cells = await cellsOf(rows);
  if (mine === first) byId("records").replaceChildren(...(rows.length ? [element("h2", { text: "Records that differ" })] : []), ...rows.map((row) => difference(row, cells)));
}

function go(to) {
  first = Math.max(0, Math.min(to, Math.floor((latest.found - 1) / PAGE) * PAGE));
  history.replaceState(null, "", `#first=${first}`);
  load().then(() => byId("main").scrollTo(0, 0), (error) => failed(error, "comparison"));
}

const KEYS = {
  n: () => go(first + PAGE),
  p: () => go(first - PAGE),
  Home: () => go(0),
  End: () => go(latest.found - 1),
  t: switchTheme,
};

async function begin() {
  recallTheme();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  for (const [id, key] of [["theme", "t"], ["page-first", "Home"], ["page-back", "p"], ["page-next", "n"], ["page-last", "End"]]) byId(id).addEventListener("click", KEYS[key]);
  first = Number(new URLSearchParams(location.hash.slice(1)).get("first")) || 0;
  for (let isNew = true; isNew || ["indexing", "running"].includes(latest.state); isNew = false) {
    try {
      if (datasets.some((one) => one.records === undefined) || !datasets.length) {
        datasets = await Promise.all(SIDES.map((side) => api.dataset(true, side)));
        for (const one of datasets) one.places = new Map(one.fields.map(({ name }, place) => [name, place]));
        showSides();
      }
      await load(isNew);
    } catch (error) {
      failed(error, "comparison");
    }
    await new Promise((resolve) => setTimeout(resolve, SOON));
  }
}

begin();
