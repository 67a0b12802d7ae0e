// The page of records: all of them, those of a list, or those that a filter finds.

import * as api from "./api.js";
import { byId, counted } from "./dom.js";
import { failed, notice } from "./notices.js";
import { SOON, changes, known, remember, state, total } from "./state.js";

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

export async function load() {
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
    changes.dispatchEvent(new Event("rows"));
  } catch (error) {
    if (error.name !== "AbortError" && loading === mine) failed(error, "records");
  }
}

export function go(first) {
  const last = Math.max(0, Math.floor((total() - 1) / state.count) * state.count);
  const wanted = Math.max(0, Math.min(first, Number.isFinite(last) ? last : first));
  if (wanted === state.first && state.rows.length) return;
  state.first = wanted;
  state.at = 0;
  remember();
  load().then(() => byId("main").firstElementChild?.scrollTo?.(0, 0));
}

export async function filterBy(condition) {
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
      changes.dispatchEvent(new Event("found"));
    }
  }
}

export function clear() {
  byId("condition").value = "";
  return filterBy("");
}

export function showList(label, numbers, picture = null) {
  state.list = { label, numbers };
  state.picture = picture;
  state.filter = null;
  state.first = 0;
  state.at = 0;
  state.view = picture === null ? "table" : "gallery";
  state.rows = [];
  load();
}
