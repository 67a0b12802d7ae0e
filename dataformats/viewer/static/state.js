// What the page shows, and how its address keeps that.

const DEFAULT_FIELDS = 12;
const DEFAULT_COUNT = 50;
const COUNTS = [25, 50, 100, 200];
const MOST_LABEL = 100; // characters
const VIEWS = ["table", "gallery", "overview"];
export const MOST_FIELDS = 100;
export const SOON = 400; // ms between two questions to a server that is at work
const REST = 150; // ms without a step, after which the address has the last one: browsers refuse many changes

/** Tells what is new: "rows", "found" (more matches of a filter) or "statistics"; and that the rows are "drawn". */
export const changes = new EventTarget();

export const state = {
  facts: null,
  view: "table",
  fields: [],
  first: 0,
  count: DEFAULT_COUNT,
  condition: "",
  sort: null, // { field, descending }
  list: null, // { label, numbers }: these records alone
  step: null, // of a run; its records are the list
  rank: "all", // whose records of the step are shown
  open: null, // the record in the panel
  picture: null, // the field of the gallery
  filter: null, // the matches of the condition: { id, condition, found, done, notes, error }
  order: null, // the sorted records: { id, field, filter, found, done, notes, error }
  rows: [],
  shown: [], // the fields of these rows, while those of other fields load
  at: 0, // the row that has the focus
  statistics: { state: "idle", done: 0, total: 0, fields: {}, failed: { count: 0, records: [] } },
  isGone: false,
};

/** The number of records as far as known; Infinity if the first ones can be shown before they are counted. */
export const known = () => state.facts.records ?? (state.facts.previews ? Infinity : 0);

/** The number of records to page through. */
export const total = () => (state.list ? state.list.numbers.length : state.filter ? state.filter.found : known());

const defaults = () => [...Array(Math.min(state.facts.fields.length, DEFAULT_FIELDS)).keys()];

const nameOf = (field) => state.facts.fields[field].name.toWellFormed?.() ?? state.facts.fields[field].name; // as addresses hold it

/** Return the part of the address behind `#`: what differs from the first view. */
function place() {
  const { view, first, count, condition, sort, list, step, rank, open, picture, fields } = state;
  const values = new URLSearchParams();
  const note = (name, value, usual) => value !== usual && value !== null && values.append(name, value);
  note("view", view, "table");
  if (fields.join() !== defaults().join()) fields.forEach((field) => values.append("field", nameOf(field)));
  note("fields", fields.length ? null : "none");
  note("filter", condition, "");
  if (sort) note(sort.descending ? "descending" : "ascending", nameOf(sort.field));
  note("first", first, 0);
  note("count", count, DEFAULT_COUNT);
  note("step", step);
  note("rank", step === null ? null : rank, "all");
  if (list && step === null) {
    note("list", list.label);
    note("records", list.numbers.join());
  }
  if (picture !== null) note("picture", nameOf(picture));
  note("record", open);
  return String(values);
}

let shown = ""; // the place in the address
let waiting = 0; // the timer of a step

/** Keep the place in the address: as a new entry of the history, or instead of the present one. */
export function remember(isStep = false) {
  clearTimeout(waiting);
  if (isStep) waiting = setTimeout(write, REST, "replaceState");
  else write("pushState");
}

function write(change) {
  const now = place();
  if (now !== shown) history[change](null, "", now ? `#${now}` : location.pathname);
  shown = now;
}

/** Return to the place in the address; return the names in it that no field has. */
export function recall() {
  clearTimeout(waiting);
  const values = new URLSearchParams(location.hash.slice(1));
  const positions = new Map(state.facts.fields.map((_, field) => [nameOf(field), field]));
  const unknown = [];
  const field = (name) => {
    if (name !== null && !positions.has(name)) unknown.push(name);
    return positions.get(name) ?? null;
  };
  const number = (name, usual) => (/^\d{1,15}$/.test(values.get(name) ?? "") ? Number(values.get(name)) : usual);
  const fields = values.getAll("field").slice(0, MOST_FIELDS).map(field).filter((one) => one !== null);
  const by = field(values.get("ascending") ?? values.get("descending"));
  const records = (values.get("records") ?? "").split(",").filter((one) => /^\d{1,15}$/.test(one)).map(Number);
  Object.assign(state, {
    view: VIEWS.includes(values.get("view")) ? values.get("view") : "table",
    fields: fields.length || values.get("fields") === "none" ? fields : defaults(),
    condition: values.get("filter") ?? "",
    sort: by === null ? null : { field: by, descending: values.has("descending") },
    first: number("first", 0),
    count: COUNTS.includes(number("count")) ? number("count") : DEFAULT_COUNT,
    step: number("step", null),
    rank: values.get("rank") ?? "all",
    list: values.has("list") ? { label: values.get("list").slice(0, MOST_LABEL), numbers: records } : null,
    picture: field(values.get("picture")),
    open: number("record", null),
    at: 0,
  });
  shown = place();
  return unknown;
}
