// The page begins here: it listens to the user, and asks how the server is.

import * as api from "./api.js";
import { jump, showOpened } from "./detail.js";
import { byId, bytes, element } from "./dom.js";
import { KEYS, onKey } from "./keys.js";
import { failed, notice } from "./notices.js";
import { apply, clear, filterBy, load, showList, stop, visit } from "./page.js";
import { showStep, stepOf } from "./run.js";
import { SOON, recall, state } from "./state.js";
import { refresh } from "./statistics.js";
import { recallTheme } from "./theme.js";
import { openChooser, setView, showFacts } from "./views.js";

const LATER = 4000; // ms

function listen() {
  document.addEventListener("keydown", onKey);
  for (const button of byId("views").children) button.addEventListener("click", () => setView(button.dataset.view));
  byId("theme").addEventListener("click", KEYS.t);
  byId("help-open").addEventListener("click", KEYS["?"]);
  byId("choose").addEventListener("click", openChooser);
  byId("export").addEventListener("click", KEYS.e);
  byId("clear").addEventListener("click", clear);
  byId("damage").addEventListener("click", () => showList("damaged records", state.statistics.failed.records.map((one) => one.record)));
  byId("page-first").addEventListener("click", KEYS.Home);
  byId("page-back").addEventListener("click", () => KEYS.p());
  byId("page-next").addEventListener("click", () => KEYS.n());
  byId("page-last").addEventListener("click", KEYS.End);
  byId("count").addEventListener("change", (event) => {
    const count = Number(event.target.value);
    visit({ count, first: Math.floor(state.first / count) * count });
  });
  addEventListener("popstate", restore);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => event.persisted && location.reload());
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
        Object.assign(state, { isGone: false, filter: null, order: null }); // a server with this token may be new
        notice("gone", null);
        await apply();
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

let restored = 0; // the latest place that was returned to

/** Show the place in the address. */
async function restore() {
  restored += 1;
  const mine = restored;
  const unknown = recall();
  notice("link", unknown.length ? `The link names fields that this dataset lacks: ${unknown.slice(0, 5).join(", ")}.` : null);
  if (state.step !== null) {
    const found = await stepOf(state.step, state.rank);
    if (mine !== restored) return;
    Object.assign(state, found);
  }
  await apply();
  if (mine !== restored) return;
  await showOpened();
  await refresh();
}

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
  const isPlain = !location.hash;
  showFacts();
  await heard(state.facts);
  await restore();
  if (state.facts.has_run && state.step === null) (isPlain ? showStep : stepOf)(""); // waits for the index, whose progress is shown meanwhile
  attend();
}

begin();
