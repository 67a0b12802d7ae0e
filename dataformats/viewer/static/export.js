// The dialog that takes the shown records elsewhere: as text to paste, or as a file.

import * as api from "./api.js";
import { open } from "./chooser.js";
import { byId, counted, element } from "./dom.js";
import { failed, notice } from "./notices.js";
import { showList } from "./page.js";
import { SOON, changes, state, total } from "./state.js";

const SNIPPETS = [["python", "Python"], ["sql", "SQL"], ["command", "command line, JSON lines"], ["conversion", "command line, new dataset"]];
const FILES = [["jsonl", "JSON lines"], ["parquet", "Parquet"], ["zip", "Zip of images"]];

const isDone = () => Boolean(state.list) || (state.filter?.done !== false && state.order?.done !== false);

let update = () => {}; // shows how far the filter and the sort are
for (const event of ["rows", "found"]) changes.addEventListener(event, () => update());

/** Show the dialog. */
export async function showExport() {
  const { list, sort, fields, condition } = state;
  const chosen = { fields: fields.join(), numbers: list?.numbers.join(), sort: list ? "" : sort?.field, descending: !list && sort?.descending ? 1 : "" };
  const name = sort && !list ? `, sorted by ${state.facts.fields[sort.field].name}` : "";
  const about = element("p", { class: "about", role: "status" });
  const files = FILES.map(([kind, text]) => element("button", { text, on: { click: () => download(kind, { ...chosen, filter: list ? "" : state.filter?.id, sort: list ? "" : state.order?.id }) } }));
  update = () => {
    const notes = list ? "" : `${state.filter?.notes ?? ""}${state.order?.notes ?? ""}`;
    about.textContent = `${counted(total(), "record")}${condition && ` with ${condition}`}${notes}${name}; ${counted(fields.length, "field")}.`;
    for (const file of files) file.disabled = !isDone() || !fields.length;
  };
  update();
  const texts = element("div", {});
  open(byId("exporter"), "Export", about, element("h3", { text: "Download" }), element("div", { class: "row" }, files), texts);
  try {
    if (!fields.length) throw new Error("no field is shown: choose some");
    const found = await api.snippets({ ...chosen, condition });
    texts.replaceChildren(...SNIPPETS.map(([kind, title]) => snippet(`Copy as ${title}`, found[kind], sort && !list && /command/.test(title))));
  } catch (error) {
    texts.replaceChildren(element("p", { class: "bad", text: error.message }));
  }
}

function snippet(title, { text, error }, isUnsorted) {
  const heading = element("h3", { text: title });
  if (error) return element("section", { class: "snippet" }, heading, element("p", { class: "about", text: error }));
  const block = element("pre", { class: "block", text, tabindex: 0 });
  const copy = element("button", { class: "quiet", text: "Copy", "aria-label": title });
  copy.addEventListener("click", async () => {
    getSelection().selectAllChildren(block); // so that Ctrl-C copies it, if the browser refuses
    copy.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Press Ctrl-C");
  });
  const note = isUnsorted ? element("p", { class: "about", text: "Commands keep the order of the dataset." }) : null;
  return element("section", { class: "snippet" }, element("header", {}, heading, copy), note, block);
}

async function download(kind, selection) {
  try {
    const { download: id } = await api.startDownload({ kind, ...selection });
    byId("exporter").close();
    element("a", { href: api.file(id), download: "" }).click();
    await watch(id, kind);
  } catch (error) {
    failed(error, "download");
  }
}

/** Follow a download to its end, and tell which records it lacks. */
async function watch(id, kind) {
  let now;
  do {
    await new Promise((resolve) => setTimeout(resolve, SOON));
    now = await api.downloaded(id);
  } while (["waiting", "asked", "running"].includes(now.state));
  const { count, records } = now.failed;
  const ends = { canceled: "The download was canceled.", failed: `The file is incomplete: ${now.error?.text}`, done: `records.${kind} has ${counted(now.written, kind === "zip" ? "image" : "record")}.` };
  const damage = count ? ` ${counted(count, "damaged record")} left out: ${records[0].error.text}` : "";
  const show = element("button", { text: "Show damaged records", on: { click: () => showList("damaged records", records.map((one) => one.record)) } });
  notice("download", now.state === "done" && now.written && !count ? null : ends[now.state] + damage, ...(count ? [show] : []));
}
