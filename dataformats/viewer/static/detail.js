// One record: its row in the page, and the panel that shows every value, large.

import * as api from "./api.js";
import { byId, counted, element, grouped } from "./dom.js";
import { failed, notice } from "./notices.js";
import { START, inRows, visit } from "./page.js";
import { known, remember, state, total } from "./state.js";
import { columnsOf } from "./table.js";
import { large } from "./values.js";

const MOST_DETAILS = 60; // fields of a record that are shown without a choice

export function mark() {
  const rows = [...document.querySelectorAll("#main [data-record]")];
  rows.forEach((row, index) => {
    row.tabIndex = index === state.at ? 0 : -1;
    row.classList.toggle("is-open", Number(row.dataset.record) === state.open && !byId("detail").hidden);
  });
  return rows[state.at];
}

export function openRow(index) {
  state.at = index;
  return openRecord(state.rows[index].record);
}

let opening = 0; // the latest wish: an earlier answer may come later

/** Show all of a record; as a step, if it replaces the record before it. */
export function openRecord(record, isStep = false) {
  state.open = record;
  remember(isStep);
  return showOpened();
}

/** Show the record that the state has open, or none. */
export async function showOpened() {
  opening += 1;
  const mine = opening;
  const record = state.open;
  if (record === null) {
    byId("detail").hidden = true;
    byId("detail").replaceChildren();
    mark();
    return;
  }
  const all = state.facts.fields.length;
  const positions = all <= MOST_DETAILS ? [...Array(all).keys()] : state.fields;
  try {
    const { rows } = await api.records([record], positions, true);
    if (mine !== opening) return;
    if (!rows.length) throw new Error(`There is no record ${grouped(record)}.`);
    showDetail(rows[0], columnsOf(state.facts.fields, positions));
    mark();
  } catch (error) {
    failed(error, "records");
  }
}

export function closeDetail() {
  openRecord(null);
  mark()?.focus();
}

/** Move to another row, over the ends of the page. */
export async function step(by) {
  const next = state.at + by;
  if (next < 0 || next >= state.rows.length) {
    const first = state.first + by * state.count;
    if (first < 0 || first >= total()) return;
    await visit({ first }, true);
    state.at = by > 0 ? 0 : state.rows.length - 1;
  } else state.at = next;
  if (state.open !== null) await openRecord(state.rows[state.at].record, true);
  mark()?.focus();
  mark()?.scrollIntoView({ block: "nearest" });
}

export async function jump(text) {
  const number = Number(text.replace(/[,_\s]/g, ""));
  const n = known();
  if (!text.trim() || !Number.isInteger(number) || number < -n || number >= n) {
    notice("jump", Number.isFinite(n) ? `Expected a number from 0 to ${grouped(n - 1)}.` : "Expected the number of a record.");
    return;
  }
  notice("jump", null);
  const record = number < 0 ? number + n : number;
  const first = Math.floor(record / state.count) * state.count;
  await visit({ ...START, condition: "", sort: null, view: inRows(), first, at: record - first, open: record });
  await showOpened();
  mark()?.focus({ preventScroll: true });
  mark()?.scrollIntoView({ block: "center" });
}

/** Fill the panel with a row whose cells are large. */
function showDetail(row, columns) {
  const panel = byId("detail");
  const button = (by, text, label) => element("button", { class: "quiet", text, title: label, "aria-label": label, on: { click: () => step(by) } });
  const head = element(
    "header",
    {},
    element("h2", { text: `Record ${grouped(row.record)}` }),
    button(-1, "‹", "Previous record (k)"),
    button(1, "›", "Next record (j)"),
    element("button", { class: "quiet", text: "Close", title: "Esc", on: { click: closeDetail } }),
  );
  panel.replaceChildren(head, row.error ? errorOf(row.error) : valuesOf(row, columns));
  panel.hidden = false;
  panel.scrollTop = 0;
}

function errorOf(error) {
  const isDamage = /Checksum|Truncated|Corrupt/.test(error.type);
  const remedy = ["All other records stay readable. ", element("code", { text: "dataformats repair" }), " copies them."];
  const more = isDamage ? element("p", { class: "about" }, remedy) : null;
  return element("div", { class: "problem" }, element("h3", { text: error.type }), element("p", { text: error.text }), more);
}

function valuesOf(row, columns) {
  const all = state.facts.fields.length;
  const some = columns.length < all
    ? element("p", { class: "about", text: `${grouped(columns.length)} of ${counted(all, "field")}: choose others with Fields.` })
    : null;
  const values = columns.map((column, at) => {
    const cell = row.cells[at];
    return element(
      "section",
      { class: `is-${cell.kind}` },
      element("h3", {}, element("span", { class: "name", text: column.name }), element("span", { class: "type", text: column.type })),
      large(cell, { record: row.record, field: column.position }),
    );
  });
  return element("div", { class: "fields" }, some, values);
}
