// The page: its state, what it loads, and how it answers to the user.

import * as api from "./api.js";
import { choose, help } from "./chooser.js";
import { showDetail } from "./detail.js";
import { byId, bytes, counted, element, grouped } from "./dom.js";
import { gallery, pictureColumns } from "./gallery.js";
import { failed, notice } from "./notices.js";
import { overview } from "./overview.js";
import { MOST_FIELDS, known, recall, remember, state, total } from "./state.js";
import { columnsOf, empty, table } from "./table.js";
import { recallTheme, switchTheme } from "./theme.js";

const MOST_DETAILS = 60; // fields of a record that are shown without a choice
const SOON = 400; // ms
const LATER = 4000;

// ---- which records

async function pageNumbers() {
  if (state.list) return state.list.numbers.slice(state.first, state.first + state.count);
  if (state.filter) {
    const answer = await api.matches(state.filter.id, state.first, state.count);
    heardOf(state.filter, answer);
    return answer.numbers;
  }
  const stop = Math.min(state.first + state.count, known());
  const most = Number.isFinite(stop) ? stop : state.first + state.count;
  return Array.from({ length: Math.max(0, most - state.first) }, (_, index) => state.first + index);
}

/** Note how far a filter is. */
function heardOf(filter, { found, done, left_out, is_cut, error }) {
  const notes = [done ? "" : " so far", is_cut ? ", no more are looked for" : "", left_out ? `, ${counted(left_out, "damaged record")} left out` : ""];
  Object.assign(filter, { found, done, notes: notes.join(""), error: error?.text });
}

let loading = null;

async function load() {
  loading?.abort();
  const mine = new AbortController();
  loading = mine;
  try {
    const numbers = await pageNumbers();
    if (loading !== mine) return;
    const answer = numbers.length ? await api.records(numbers, state.fields, false, mine.signal) : { rows: [] };
    if (loading !== mine) return;
    state.rows = answer.rows;
    state.at = Math.min(state.at, Math.max(0, state.rows.length - 1));
    notice("records", null);
    show();
  } catch (error) {
    if (error.name !== "AbortError" && loading === mine) failed(error, "records");
  }
}

function go(first) {
  const last = Math.max(0, Math.floor((total() - 1) / state.count) * state.count);
  const wanted = Math.max(0, Math.min(first, Number.isFinite(last) ? last : first));
  if (wanted === state.first && state.rows.length) return;
  state.first = wanted;
  state.at = 0;
  remember();
  load().then(() => byId("main").firstElementChild?.scrollTo?.(0, 0));
}

// ---- what is shown

let showStatistics = null; // fills the overview

function show() {
  const main = byId("main");
  const columns = columnsOf(state.facts.fields, state.fields);
  const actions = { onOpen: openRow, onSelect: (index) => { state.at = index; }, chart: (field) => state.statistics.fields[field] };
  for (const button of byId("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === state.view));
  document.body.dataset.view = state.view;
  const { scrollTop = 0, scrollLeft = 0 } = main.firstElementChild ?? {};
  const hadFocus = main.contains(document.activeElement);
  if (state.view === "overview") {
    const [view, update] = overview(state.facts, columns, { onRecord: openRecord, onList: showList, onRun: run, onChoose: openChooser, onFilter: filterBy });
    main.replaceChildren(view);
    showStatistics = update;
    update(state.statistics);
  } else if (!state.rows.length) {
    main.replaceChildren(nothing());
  } else if (state.view === "gallery") {
    main.replaceChildren(galleryOf(columns, actions));
  } else {
    main.replaceChildren(table(state.rows, columns, actions));
  }
  main.firstElementChild.scrollTo(scrollLeft, scrollTop);
  const row = mark();
  if (hadFocus) row?.focus({ preventScroll: true });
  showPlace();
}

const all = () => element("button", { text: "Show all records", on: { click: clear } });

function nothing() {
  if (state.filter?.error) return empty("The filter cannot be applied", state.filter.error, all());
  if (state.filter && !state.filter.done) return empty("Looking", `Searching for records with ${state.filter.condition}.`);
  if (state.filter) return empty("No record matches", `No record has ${state.filter.condition}.`, all());
  if (state.facts.state === "indexing") return empty("Building the index", "The records appear as soon as it is there. It is kept, so this happens once.");
  return empty("No records", "The files of this dataset are sound and hold no record.");
}

function galleryOf(columns, actions) {
  const found = pictureColumns(state.rows, columns);
  if (!found.length) return empty("No pictures here", "No shown field of these records is an image. Choose other fields, or look at the table.", element("button", { text: "Choose fields", on: { click: openChooser } }));
  const at = found.find((one) => columns[one].position === state.picture) ?? found[0];
  const tiles = gallery(state.rows, columns, at, actions);
  if (found.length === 1) return element("div", { class: "scroll", tabindex: -1 }, tiles);
  const select = element("select", { "aria-label": "The field whose pictures are shown", on: { change: (event) => { state.picture = Number(event.target.value); show(); } } },
    found.map((one) => element("option", { value: columns[one].position, selected: one === at, text: columns[one].name })));
  return element("div", { class: "scroll", tabindex: -1 }, element("label", { class: "which" }, "Pictures of ", select), tiles);
}

function showPlace() {
  const n = total();
  const last = state.first + state.rows.length;
  const range = state.rows.length ? `${grouped(state.first + (state.list || state.filter ? 1 : 0))} – ${grouped(state.list || state.filter ? last : last - 1)}` : "0";
  const of = Number.isFinite(n) ? grouped(n) : "many";
  const what = state.list ? ` ${state.list.label}` : state.filter ? ` matches${state.filter.notes ?? ""}` : "";
  byId("place").textContent = `${range} of ${of}${what}`;
  byId("page-first").disabled = byId("page-back").disabled = state.first === 0;
  byId("page-next").disabled = byId("page-last").disabled = last >= n || state.rows.length < state.count;
  byId("clear").hidden = !state.filter && !state.list;
}

function mark() {
  const rows = [...document.querySelectorAll("#main [data-record]")];
  rows.forEach((row, index) => {
    row.tabIndex = index === state.at ? 0 : -1;
    row.classList.toggle("is-open", Number(row.dataset.record) === state.open && !byId("detail").hidden);
  });
  return rows[state.at];
}

function showFacts() {
  const { facts } = state;
  byId("name").textContent = facts.name;
  byId("name").title = facts.path;
  document.title = `${facts.name} – dataformats`;
  const records = facts.records === undefined ? "counting records" : counted(facts.records, "record");
  const example = facts.fields.find(({ name, type }) => /^u?int|^float/.test(type) && !/[[?]/.test(type) && /^[a-z]\w*$/i.test(name));
  byId("condition").placeholder = `Filter, such as ${example ? `${example.name} > 3` : "record < 100"}`;
  byId("facts").textContent = [facts.format, records, counted(facts.fields.length, "field"), bytes(facts.nbytes)].join(" · ");
}

// ---- one record

function openRow(index) {
  state.at = index;
  return openRecord(state.rows[index].record);
}

let opening = 0; // the latest wish: an earlier answer may come later

async function openRecord(record) {
  opening += 1;
  const mine = opening;
  const all = state.facts.fields.length;
  const positions = all <= MOST_DETAILS ? [...Array(all).keys()] : state.fields;
  try {
    const { rows } = await api.records([record], positions, true);
    if (mine !== opening) return;
    if (!rows.length) throw new Error(`There is no record ${grouped(record)}.`);
    state.open = record;
    showDetail(byId("detail"), rows[0], columnsOf(state.facts.fields, positions), { onClose: closeDetail, onStep: step, total: all });
    mark();
    remember();
  } catch (error) {
    failed(error, "records");
  }
}

function closeDetail() {
  opening += 1;
  byId("detail").hidden = true;
  byId("detail").replaceChildren();
  state.open = null;
  mark()?.focus();
  remember();
}

/** Move to another row, over the ends of the page. */
async function step(by) {
  const next = state.at + by;
  if (next < 0 || next >= state.rows.length) {
    const first = state.first + by * state.count;
    if (first < 0 || first >= total()) return;
    state.first = first;
    await load();
    state.at = by > 0 ? 0 : state.rows.length - 1;
  } else state.at = next;
  if (state.open !== null) await openRecord(state.rows[state.at].record);
  mark()?.focus();
  mark()?.scrollIntoView({ block: "nearest" });
}

// ---- filter, lists, jumps

async function filterBy(condition) {
  if (state.filter) api.stopFilter(state.filter.id).catch(() => {});
  state.filter = null;
  state.list = null;
  state.first = 0;
  state.at = 0;
  byId("condition").value = condition;
  try {
    if (condition) state.filter = { id: (await api.startFilter(condition)).filter, condition, found: 0, done: false };
  } catch (error) {
    failed(error, "records");
    return;
  }
  if (state.view === "overview") state.view = "table";
  state.rows = [];
  remember();
  await load();
  follow();
}

/** Load matches as they are found. */
async function follow() {
  const { filter } = state;
  while (filter && state.filter === filter && !filter.done && !state.isGone) {
    await new Promise((resolve) => setTimeout(resolve, SOON));
    if (state.filter !== filter) return;
    if (state.rows.length < state.count) await load();
    else {
      const answer = await api.matches(filter.id, 0, 0).catch(() => null);
      if (answer) heardOf(filter, answer);
      showPlace();
    }
  }
}

function clear() {
  byId("condition").value = "";
  return filterBy("");
}

function showList(label, numbers, picture = null) {
  state.list = { label, numbers };
  state.picture = picture;
  state.filter = null;
  state.first = 0;
  state.at = 0;
  state.view = picture === null ? "table" : "gallery";
  state.rows = [];
  load();
}

async function jump(text) {
  const number = Number(text.replace(/[,_\s]/g, ""));
  const n = known();
  if (!text.trim() || !Number.isInteger(number) || number < -n || number >= n) {
    notice("jump", Number.isFinite(n) ? `Expected a number from 0 to ${grouped(n - 1)}.` : "Expected the number of a record.");
    return;
  }
  notice("jump", null);
  const record = number < 0 ? number + n : number;
  state.list = null;
  if (state.filter) await clear();
  state.first = Math.floor(record / state.count) * state.count;
  state.at = record - state.first;
  if (state.view === "overview") state.view = "table";
  await load();
  await openRecord(record);
  mark()?.focus({ preventScroll: true });
  mark()?.scrollIntoView({ block: "center" });
}

// ---- fields, statistics

function openChooser() {
  choose(byId("chooser"), state.facts.fields, state.fields, MOST_FIELDS, (positions) => {
    state.fields = positions;
    remember();
    load();
    refresh();
  });
}

async function run(isWanted) {
  await api.runStatistics(isWanted, state.fields).catch((error) => failed(error, "statistics"));
  await refresh();
}

async function refresh() {
  try {
    const before = state.statistics;
    state.statistics = await api.statistics(state.fields);
    const { state: now, done, total: all } = state.statistics;
    const { failed: damage } = state.statistics;
    byId("damage").hidden = !damage.count;
    byId("damage").textContent = `${grouped(damage.count)} damaged`;
    byId("progress").textContent = now === "running" ? `statistics: ${Math.floor((100 * done) / Math.max(1, all))} %` : "";
    const isNew = now !== before.state || done !== before.done || Object.keys(before.fields).length !== Object.keys(state.statistics.fields).length;
    if (isNew && state.view === "overview") showStatistics?.(state.statistics);
    else if (isNew && now !== "running") show();
    if (now === "running" && before.state !== "running") watch();
  } catch (error) {
    failed(error, "statistics");
  }
}

async function watch() {
  while (state.statistics.state === "running" && !state.isGone) {
    await new Promise((resolve) => setTimeout(resolve, SOON));
    await refresh();
  }
}

// ---- keys

const KEYS = {
  j: () => step(1),
  ArrowDown: () => step(1),
  k: () => step(-1),
  ArrowUp: () => step(-1),
  n: () => go(state.first + state.count),
  ArrowRight: () => go(state.first + state.count),
  PageDown: () => go(state.first + state.count),
  p: () => go(state.first - state.count),
  ArrowLeft: () => go(state.first - state.count),
  PageUp: () => go(state.first - state.count),
  Home: () => go(0),
  End: () => Number.isFinite(total()) && go(total() - 1),
  Enter: () => state.rows[state.at] && openRow(state.at),
  Escape: () => closeDetail(),
  g: () => byId("number").select(),
  "/": () => byId("condition").select(),
  f: () => openChooser(),
  t: switchTheme,
  "?": () => help(byId("help")),
  1: () => setView("table"),
  2: () => setView("gallery"),
  3: () => setView("overview"),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const { target } = event;
  if (target.matches("input, select, textarea, audio, video")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  const inText = target.matches("pre, .values");
  if (inText && event.key.startsWith("Arrow")) return;
  if (event.key === "Enter" && target.matches("button, a, summary")) return;
  if (event.shiftKey && event.key.startsWith("Arrow")) return; // scrolls
  const action = KEYS[event.key];
  if (!action || !state.facts) return;
  event.preventDefault();
  action();
}

function setView(view) {
  state.view = view;
  remember();
  show();
  if (view === "overview") refresh();
}

// ---- begin

function listen() {
  document.addEventListener("keydown", onKey);
  for (const button of byId("views").children) button.addEventListener("click", () => setView(button.dataset.view));
  byId("theme").addEventListener("click", KEYS.t);
  byId("help-open").addEventListener("click", KEYS["?"]);
  byId("choose").addEventListener("click", openChooser);
  byId("clear").addEventListener("click", clear);
  byId("damage").addEventListener("click", () => showList("damaged records", state.statistics.failed.records.map((one) => one.record)));
  byId("page-first").addEventListener("click", KEYS.Home);
  byId("page-back").addEventListener("click", KEYS.p);
  byId("page-next").addEventListener("click", KEYS.n);
  byId("page-last").addEventListener("click", KEYS.End);
  byId("count").addEventListener("change", (event) => {
    state.count = Number(event.target.value);
    state.first = Math.floor(state.first / state.count) * state.count;
    load();
  });
  byId("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    filterBy(byId("condition").value.trim());
  });
  byId("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    jump(byId("number").value);
  });
}

/** Ask how the server is: quickly while it builds the index, then now and then. */
async function attend() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, state.facts.state === "indexing" ? SOON : LATER));
    if (document.hidden && state.facts.state !== "indexing") continue;
    try {
      const now = await api.dataset(false);
      if (state.isGone) {
        state.isGone = false;
        notice("gone", null);
        await load();
      }
      await heard(now);
    } catch (error) {
      failed(error, "server");
    }
  }
}

async function heard(now) {
  const was = state.facts.state;
  if (now.state === "indexing") {
    const part = now.total ? ` ${Math.floor((100 * now.done) / now.total)} % of ${bytes(now.total)}` : "";
    notice("index", `Building the index:${part}. ${now.previews ? "The first records are shown meanwhile." : ""}`);
  } else if (was === "indexing") {
    notice("index", null);
    state.facts = await api.dataset(true);
    showFacts();
    await load();
    await refresh();
  }
  if (now.state === "failed") notice("index", now.error.text, reopenButton());
  if (now.changed) notice("changed", `${now.changed} has changed since it was opened.`, reopenButton());
}

const reopenButton = () => element("button", { text: "Open again", on: { click: () => api.reopen().then(() => location.reload(), (error) => failed(error, "changed")) } });

async function begin() {
  recallTheme();
  listen();
  try {
    state.facts = await api.dataset(true);
  } catch (error) {
    byId("name").textContent = "No dataset";
    failed(error, "server");
    return;
  }
  const place = recall();
  showFacts();
  await heard(state.facts);
  if (place.filter) await filterBy(place.filter);
  else await load();
  if (place.record !== null) await openRecord(place.record);
  await refresh();
  attend();
}

begin();
