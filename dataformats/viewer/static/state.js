// What the page shows, and how its address keeps that.

const DEFAULT_FIELDS = 12;
export const MOST_FIELDS = 100;
export const SOON = 400; // ms between two questions to a server that is at work

/** Tells the views what is new: "rows", "found" (more matches of a filter) or "statistics". */
export const changes = new EventTarget();

export const state = {
  facts: null,
  view: "table",
  fields: [],
  first: 0,
  count: 50,
  list: null, // { label, numbers }: these records alone
  filter: null, // { id, condition, found, done }
  rows: [],
  at: 0, // the row that has the focus
  open: null, // the record in the panel
  picture: null, // the field of the gallery
  statistics: { state: "idle", done: 0, total: 0, fields: {}, failed: { count: 0, records: [] } },
  isGone: false,
};

/** The number of records as far as known; Infinity if the first ones can be shown before they are counted. */
export const known = () => state.facts.records ?? (state.facts.previews ? Infinity : 0);

/** The number of records to page through. */
export const total = () => (state.list ? state.list.numbers.length : state.filter ? state.filter.found : known());

/** Keep the place in the address, so that a reload shows the same. */
export function remember() {
  const place = { view: state.view, first: state.first, fields: state.fields.join(), record: state.open ?? "", filter: state.filter?.condition ?? "" };
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(place).filter(([, value]) => value !== ""))}`);
}

/** Return to the place in the address; return the record and the filter in it. */
export function recall() {
  const place = new URLSearchParams(location.hash.slice(1));
  const n = state.facts.fields.length;
  const fields = (place.get("fields") ?? "").split(",").filter(Boolean).map(Number).filter((one) => Number.isInteger(one) && one >= 0 && one < n);
  state.fields = fields.length ? fields.slice(0, MOST_FIELDS) : [...Array(Math.min(n, DEFAULT_FIELDS)).keys()];
  state.view = ["table", "gallery", "overview"].includes(place.get("view")) ? place.get("view") : "table";
  state.first = Math.max(0, Number(place.get("first")) || 0);
  return { record: place.has("record") ? Number(place.get("record")) : null, filter: place.get("filter") };
}
