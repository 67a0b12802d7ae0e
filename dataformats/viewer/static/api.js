// Requests to the server. Addresses are relative to the page's own, which has the token.

/** The server does not answer. */
export class GoneError extends Error {}

const MOST_QUERY = 60_000; // characters: the server closes the connection of a longer request

async function ask(path, values = {}, options = {}) {
  const query = String(new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined)));
  if (query.length > MOST_QUERY) throw new Error(`The request is too long: ${query.length} characters, expected at most ${MOST_QUERY}.`);
  let response;
  try {
    response = await fetch(`${path}?${query}`, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new GoneError("The server does not answer.");
  }
  const answer = await response.json().catch((error) =>
    response.ok ? Promise.reject(error) : { error: { text: `the server answered ${response.status}` } }); // aborted, or cut
  if (!response.ok) throw new Error(answer.error.text);
  return answer;
}

const post = { method: "POST" };
const remove = { method: "DELETE", keepalive: true }; // also of a page that is closed

/** Datasets that are compared have addresses of their own: `base` is "first/" or "second/". */
export const dataset = (facts, base = "") => ask(`${base}api/dataset`, { facts: facts ? 1 : "" });
export const reopen = () => ask("api/open", {}, post);
export const records = (numbers, fields, detail, signal, base = "") =>
  ask(`${base}api/records`, { numbers: numbers.join(), fields: fields.join(), detail: detail ? 1 : "" }, { signal });
export const statistics = (fields) => ask("api/statistics", { fields: fields.join() });
export const runStatistics = (run, fields) => ask("api/statistics", { run: run ? 1 : "", fields: fields.join() }, post);
export const startFilter = (condition) => ask("api/filter", { condition }, post);
export const stopFilter = (filter) => ask("api/filter", { filter }, remove);
export const matches = (filter, first, count, signal) => ask("api/filter", { filter, first, count }, { signal });
export const startSort = (field, filter) => ask("api/sort", { field, filter }, post);
export const stopSort = (sort) => ask("api/sort", { sort }, remove);
export const sorted = (sort, first, count, descending, signal) => ask("api/sort", { sort, first, count, descending: descending ? 1 : "" }, { signal });
export const snippets = (selection) => ask("api/snippets", selection);
export const startDownload = (selection) => ask("api/download", selection, post);
export const downloaded = (download) => ask("api/download", { download });
export const comparison = (first, count) => ask("api/comparison", { first, count });
export const step = (number) => ask("api/step", { step: number });

const item = (place) => (place.item === undefined ? "" : `&item=${place.item}`);

export const thumbnail = (place, size) => `${place.base ?? ""}thumbnail/${place.record}/${place.field}?size=${size}${item(place)}`;
export const file = (download) => `download/${download}`;
export const value = (place) => `${place.base ?? ""}value/${place.record}/${place.field}?${item(place).slice(1)}`;
