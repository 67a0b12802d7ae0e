// Statistics of the shown fields: started, stopped, and asked for while they run.

import * as api from "./api.js";
import { byId, grouped } from "./dom.js";
import { failed } from "./notices.js";
import { SOON, changes, state } from "./state.js";

export async function run(isWanted) {
  await api.runStatistics(isWanted, state.fields).catch((error) => failed(error, "statistics"));
  await refresh();
}

export async function refresh() {
  try {
    const before = state.statistics;
    state.statistics = await api.statistics(state.fields);
    const { state: now, done, total: all } = state.statistics;
    const { failed: damage } = state.statistics;
    byId("damage").hidden = !damage.count;
    byId("damage").textContent = `${grouped(damage.count)} damaged`;
    byId("progress").textContent = now === "running" ? `statistics: ${Math.floor((100 * done) / Math.max(1, all))} %` : "";
    const isNew = now !== before.state || done !== before.done || Object.keys(before.fields).length !== Object.keys(state.statistics.fields).length;
    if (isNew) changes.dispatchEvent(new Event("statistics"));
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
