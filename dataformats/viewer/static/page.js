// The page of records: all of them, those of a list, or those that a filter finds, in their order or sorted.

import * as api from "./api.js";
import { byId, counted } from "./dom.js";
import { failed, notice } from "./notices.js";
import { SOON, changes, known, remember, state, total } from "./state.js";

async function pageNumbers(signal) {
  const { filter, order, list, first, count } = state;
  if (list) return list.numbers.slice(first, first + count);
  if (filter && !filter.id) return [];
  let matches = null;
  if (filter && !(filter.done && order?.done && !order.error)) {
    matches = await api.matches(filter.id, first, count, signal);
    heardOf(filter, matches);
  }
  if (order && !order.error) {
    const answer = await api.sorted(order.id, first, count, state.sort?.descending, signal);
    heardOfSort(order, answer);
    if (answer.numbers) return answer.numbers;
  }
  if (matches) return matches.numbers;
  const stop = Math.min(first + count, known());
  const most = Number.isFinite(stop) ? stop : first + count;
  return Array.from({ length: Math.max(0, most - first) }, (_, index) => first + index);
}

/** Note how far a filter is. */
function heardOf(filter, { found, done, left_out, is_cut, error }) {
  const notes = [done ? "" : " so far", is_cut ? ", no more are looked for" : "", left_out ? `, ${counted(left_out, "damaged record")} left out` : ""];
  Object.assign(filter, { found, done, notes: notes.join(""), error: error?.text });
  byId("condition").ariaInvalid = Boolean(error);
}

/** Note how far a sort is. */
function heardOfSort(order, { done, read, total: all, error }) {
  const far = all ? ` ${Math.floor((100 * read) / all)} %` : "";
  Object.assign(order, { done, notes: done ? "" : `, sorting${far}`, error: error?.text });
  if (error && !state.filter?.error) notice("sort", `The records cannot be sorted: ${error.text}`);
}

let loading = null; // ends the questions for an earlier page

export async function load() {
  loading?.abort();
  const mine = new AbortController();
  loading = mine;
  try {
    const numbers = await pageNumbers(mine.signal);
    if (loading !== mine) return;
    const isKnown = state.facts.state === "ready" && state.filter?.done !== false && state.order?.done !== false;
    if (isKnown && state.first && state.first >= total()) return go(total() - 1, true); // a file may have become shorter
    const fields = state.fields;
    const answer = numbers.length ? await api.records(numbers, fields, false, mine.signal) : { rows: [] };
    if (loading !== mine) return;
    Object.assign(state, { rows: answer.rows, shown: fields });
    state.at = Math.min(state.at, Math.max(0, state.rows.length - 1));
    notice("records", null);
    changes.dispatchEvent(new Event("rows"));
  } catch (error) {
    if (error.name !== "AbortError" && loading === mine) failed(error, "records");
  }
}

/** Change what the page shows: as a new entry of the history, or as a step that replaces the present one. */
export function visit(changed, isStep = false) {
  Object.assign(state, changed);
  remember(isStep);
  return apply();
}

let applying = Promise.resolve();

/** Show what the state wants, after the earlier state: a filter must not end while a sort of its matches starts. */
export function apply() {
  loading?.abort();
  applying = applying.then(applyState);
  return applying;
}

/** Start and stop the filter and the sort that the state wants, and load its records. */
async function applyState() {
  loading?.abort();
  byId("count").value = state.count;
  try {
    await applyFilter();
    await applySort();
  } catch (error) {
    failed(error, "records");
    return;
  }
  await load();
  follow();
}

async function applyFilter() {
  const { condition, filter } = state;
  if ((filter?.condition ?? "") === condition) return;
  byId("condition").value = condition;
  byId("condition").ariaInvalid = false;
  if (filter) api.stopFilter(filter.id).catch(() => {});
  Object.assign(state, { filter: null, rows: [] });
  if (!condition) return;
  const { filter: id, error } = await api.startFilter(condition).catch((error) => {
    if (error instanceof api.GoneError) throw error;
    return { filter: 0, error: error.message }; // no filter has this number
  });
  if (state.condition === condition && !state.filter) state.filter = { id, condition, found: 0, done: Boolean(error), error };
  else api.stopFilter(id).catch(() => {}); // the user went on
}

async function applySort() {
  const { sort, filter, order } = state;
  if (order?.field === sort?.field && order?.filter === (sort ? filter : undefined)) return;
  if (order) api.stopSort(order.id).catch(() => {});
  state.order = null;
  notice("sort", null);
  if (!sort || filter?.error) return;
  const { sort: id } = await api.startSort(sort.field, filter?.id);
  if (state.sort?.field === sort.field && state.filter === filter && !state.order) state.order = { id, field: sort.field, filter, done: false, notes: "" };
  else api.stopSort(id).catch(() => {});
}

let followed = {};

/** Load matches as they are found, and the sorted records when they are there. */
async function follow() {
  const { filter, order } = state;
  if (followed.filter === filter && followed.order === order) return;
  followed = { filter, order };
  const isWanted = () => state.filter === filter && state.order === order && !state.isGone;
  while (isWanted() && (filter?.done === false || order?.done === false)) {
    await new Promise((resolve) => setTimeout(resolve, SOON));
    if (!isWanted()) return;
    if (filter?.done === false && state.rows.length < state.count) await load();
    else await hear(filter, order, loading.signal).catch(() => {}); // the next question may be answered
  }
}

async function hear(filter, order, signal) {
  if (filter?.done === false) heardOf(filter, await api.matches(filter.id, 0, 0, signal));
  if (order?.done === false) heardOfSort(order, await api.sorted(order.id, 0, 0, state.sort?.descending, signal));
  if (order?.done) await load();
  else changes.dispatchEvent(new Event("found"));
}

/** End the work of the server for this page. */
export function stop() {
  if (state.filter) api.stopFilter(state.filter.id).catch(() => {});
  if (state.order) api.stopSort(state.order.id).catch(() => {});
}

export function go(first, isStep = false) {
  const last = Math.max(0, Math.floor((total() - 1) / state.count) * state.count);
  const wanted = Math.max(0, Math.min(first, Number.isFinite(last) ? last : first));
  if (wanted === state.first && state.rows.length) return;
  visit({ first: wanted, at: 0 }, isStep).then(() => byId("main").firstElementChild?.scrollTo?.(0, 0));
}

export const START = { first: 0, at: 0, list: null, step: null };
export const inRows = () => (state.view === "overview" ? "table" : state.view);

export const filterBy = (condition) => visit({ ...START, condition, view: inRows() });

/** Show the records that meet the present filter and a further condition. */
export function filterFurther(condition) {
  const present = state.condition;
  if (!present || present === condition) return filterBy(condition);
  return filterBy(`${/\bor\b|--|\/\*/i.test(present) ? `(${present})` : present} and ${condition}`);
}

/** Sort by a field: ascending, then descending, then not. */
export function sortBy(field) {
  const { sort } = state;
  const isSame = sort?.field === field;
  return visit({ first: 0, at: 0, sort: isSame && sort.descending ? null : { field, descending: isSame } });
}

export const clear = () => filterBy("");

export function showList(label, numbers, picture = null) {
  return visit({ ...START, list: { label, numbers }, condition: "", picture, view: picture === null ? "table" : "gallery", rows: [] });
}
