// The three views: the table, the gallery and the overview, and the lines above and below them.

import { choose } from "./chooser.js";
import { mark, openRecord, openRow } from "./detail.js";
import { byId, bytes, counted, element, grouped } from "./dom.js";
import { gallery, pictureColumns } from "./gallery.js";
import { overview } from "./overview.js";
import { clear, filterFurther, showList, sortBy, visit } from "./page.js";
import { MOST_FIELDS, changes, remember, state, total } from "./state.js";
import { refresh, run } from "./statistics.js";
import { columnsOf, empty, table } from "./table.js";

let showStatistics = null; // fills the overview

export function show() {
  const main = byId("main");
  const columns = columnsOf(state.facts.fields, state.view === "overview" ? state.fields : state.shown);
  const actions = {
    onOpen: openRow,
    onSelect: (index) => { state.at = index; },
    onSort: state.list ? null : sortBy, // a list has its own order
    onFilter: filterFurther,
    sort: state.list ? null : state.sort,
    chart: (field) => state.statistics.fields[field],
  };
  for (const button of byId("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === state.view));
  document.body.dataset.view = state.view;
  const { scrollTop = 0, scrollLeft = 0 } = main.firstElementChild ?? {};
  const hadFocus = main.contains(document.activeElement);
  if (state.view === "overview") {
    const [view, update] = overview(state.facts, columns, { onRecord: openRecord, onList: showList, onRun: run, onChoose: openChooser, onFilter: filterFurther });
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
  changes.dispatchEvent(new Event("drawn"));
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
  const select = element("select", { "aria-label": "The field whose pictures are shown", on: { change: (event) => visit({ picture: Number(event.target.value) }) } },
    found.map((one) => element("option", { value: columns[one].position, selected: one === at, text: columns[one].name })));
  return element("div", { class: "scroll", tabindex: -1 }, element("label", { class: "which" }, "Pictures of ", select), tiles);
}

function showPlace() {
  const n = total();
  const last = state.first + state.rows.length;
  const range = state.rows.length ? `${grouped(state.first + (state.list || state.filter ? 1 : 0))} – ${grouped(state.list || state.filter ? last : last - 1)}` : "0";
  const of = Number.isFinite(n) ? grouped(n) : "many";
  const sorted = state.list ? "" : state.order?.notes ?? "";
  const what = state.list ? ` ${state.list.label}` : state.filter ? ` matches${state.filter.notes ?? ""}` : "";
  byId("place").textContent = state.filter?.error ? "" : `${range} of ${of}${what}${sorted}`;
  byId("page-first").disabled = byId("page-back").disabled = state.first === 0;
  byId("page-next").disabled = byId("page-last").disabled = last >= n || state.rows.length < state.count;
  byId("clear").hidden = !state.filter && !state.list;
}

export function setView(view) {
  state.view = view;
  remember();
  show();
  if (view === "overview") refresh();
}

export function showFacts() {
  const { facts } = state;
  byId("name").textContent = facts.name;
  byId("name").title = facts.path;
  document.title = `${facts.name} – dataformats`;
  const records = facts.records === undefined ? "counting records" : counted(facts.records, "record");
  const example = facts.fields.find(({ name, type }) => /^u?int|^float/.test(type) && !/[[?]/.test(type) && /^[a-z]\w*$/i.test(name));
  byId("condition").placeholder = `Filter, such as ${example ? `${example.name} > 3` : "record < 100"}`;
  byId("facts").textContent = [facts.format, records, counted(facts.fields.length, "field"), bytes(facts.nbytes)].join(" · ");
}

export function openChooser() {
  let isMore = false; // one entry of the history for all choices
  choose(byId("chooser"), state.facts.fields, state.fields, MOST_FIELDS, (fields) => {
    visit({ fields }, isMore);
    isMore = true;
    refresh();
  });
}

changes.addEventListener("rows", show);
changes.addEventListener("found", showPlace);
changes.addEventListener("statistics", () => {
  if (state.view === "overview") showStatistics?.(state.statistics);
  else if (state.statistics.state !== "running") show();
});
