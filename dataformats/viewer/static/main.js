// The page begins here: it listens to the user, and asks how the server is.

import * as api from "./api.js";
import { jump, openRecord } from "./detail.js";
import { byId, bytes, element } from "./dom.js";
import { KEYS, onKey } from "./keys.js";
import { failed, notice } from "./notices.js";
import { clear, filterBy, load, showList } from "./page.js";
import { showStep } from "./run.js";
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
  if (state.facts.has_run) showStep(""); // waits for the index, whose progress is shown meanwhile
  if (place.record !== null) await openRecord(place.record);
  await refresh();
  attend();
}

begin();
