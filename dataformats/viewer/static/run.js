// The panel of a training run: the records of a step, rank by rank, and the skip list for the next start.

import * as api from "./api.js";
import { byId, counted, element, grouped } from "./dom.js";
import { failed, notice } from "./notices.js";
import { START, inRows, visit } from "./page.js";
import { changes, state } from "./state.js";

const skipped = new Set(); // records of the skip list

/** Show the records of a step; "" is the first one to show. */
export async function showStep(number, rank = state.rank) {
  const found = await stepOf(number, rank);
  if (found) await visit({ ...START, condition: "", sort: null, view: inRows(), ...found }, number === "");
}

/** Show the panel of a step; return what the page shows with it, or nothing if there is no such step. */
export async function stepOf(number, rank) {
  try {
    const step = await api.step(number);
    notice("step", null);
    const ranks = ["all", ...new Set(step.records.map(([one]) => String(one)))];
    const chosen = ranks.includes(rank) ? rank : "all";
    const shown = step.records.filter(([one]) => chosen === "all" || chosen === String(one));
    showPanel(step, ranks, chosen, shown.map(([, position]) => position));
    const label = `of step ${grouped(step.step)}${chosen === "all" ? "" : `, rank ${chosen}`}`;
    return { step: step.step, rank: chosen, list: { label, numbers: shown.map(([, , record]) => record) } };
  } catch (error) {
    failed(error, "step");
    return null;
  }
}

function showPanel(step, ranks, rank, positions) {
  const button = (text, label, click, disabled = false) => element("button", { class: "quiet", text, title: label, "aria-label": label, disabled, on: { click } });
  const select = element("select", { "aria-label": "Rank", on: { change: (event) => showStep(step.step, event.target.value) } },
    ranks.map((one) => element("option", { value: one, selected: one === rank, text: one === "all" ? "all ranks" : `rank ${one}` })));
  const panel = byId("run");
  panel.replaceChildren(
    button("‹", "Previous step", () => showStep(step.step - 1), step.step === 0),
    element("span", { text: `Step ${grouped(step.step)}` }),
    button("›", "Next step", () => showStep(step.step + 1)),
    select,
    element("code", { text: skipCalls(positions) }),
    button("Skip record", "Add the record of the current row to the skip list, or remove it", () => {
      const record = state.rows[state.at]?.record;
      if (record !== undefined && !skipped.delete(record)) skipped.add(record);
      showPanel(step, ranks, rank, positions);
      markSkipped();
    }),
    ...(skipped.size ? [download(step)] : []),
  );
  panel.hidden = false;
}

function markSkipped() {
  for (const row of document.querySelectorAll("#main [data-record]")) row.classList.toggle("skipped", skipped.has(Number(row.dataset.record)));
}

changes.addEventListener("drawn", markSkipped);

/** Return the calls of Python that take these positions out of the run. */
function skipCalls(positions) {
  const ranges = [];
  for (const position of [...positions].sort((a, b) => a - b)) {
    if (ranges.at(-1)?.[1] === position) ranges.at(-1)[1] += 1;
    else ranges.push([position, position + 1]);
  }
  return ranges.map(([start, stop]) => `loader.skip(${start}, ${stop})`).join("; ");
}

function download({ fingerprint, sizes }) {
  const records = [...skipped].sort((a, b) => a - b);
  const list = JSON.stringify({ version: 1, fingerprint, records: [records], positions: [], sizes });
  const text = `Download skip list of ${counted(records.length, "record")}`;
  return element("a", { download: "skip.json", href: `data:application/json,${encodeURIComponent(list)}`, title: records.join(", "), text });
}
