// The figures of the monitor, computed from samples (responses of /monitor.json). Pure functions.

import {bytes, number, rate, tokens} from "./words.js";

const sum = (sample, read) => sample.models.reduce((total, model) => total + (model.loaded ? read(model) : 0), 0);

// Returns the increase per second of a counter between two samples; 0 if the server was restarted.
function perSecond(before, now, read) {
  const seconds = (now.time_ms - before.time_ms) / 1000;
  return seconds > 0 ? Math.max(0, read(now) - read(before)) / seconds : 0;
}

function percent(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(part === whole ? 0 : 1)} %` : "–";
}

const readCached = (sample) => sample.tokens.cached;
const readPrompt = (sample) => sample.tokens.prompt;
const readPrefilled = (sample) => sample.tokens.prefilled;
const readDecoded = (sample) => sample.tokens.decoded;
const readRequests = (sample) => sample.server.requests;
const readPasses = (sample) => sum(sample, (model) => model.passes.n);
const readRows = (sample) => sum(sample, (model) => model.passes.rows);
const readEvicted = (sample) => sum(sample, (model) => model.store.evicted_pages);
const readBytes = (sample) => sum(sample, (model) => model.pool.bytes);
const readBudget = (sample) => sum(sample, (model) => model.pool.budget_bytes);

// levels() returns the value of `read` for each sample. rates() returns its increase per second from sample to sample.
const levels = (samples, read) => samples.map(read);
const rates = (samples, read) => samples.slice(1).map((sample, i) => perSecond(samples[i], sample, read));

// Returns the share of prompt tokens that were cached, from each sample to the next. If there were no requests between
// two samples, repeats the previous share.
function hitRates(samples) {
  let last = readPrompt(samples[0]) > 0 ? readCached(samples[0]) / readPrompt(samples[0]) : 0;
  return samples.slice(1).map((sample, i) => {
    const prompt = readPrompt(sample) - readPrompt(samples[i]);
    if (prompt > 0) last = Math.max(0, Math.min(1, (readCached(sample) - readCached(samples[i])) / prompt));
    return last;
  });
}

// Returns the figures, [{name, value, unit, note, line, highest}]. samples: the latest ones, at least one, in order of
// time.
export function serverFigures(samples) {
  const now = samples.at(-1);
  const {answers, conversations, server} = now;
  const latest = (values) => values.at(-1) ?? 0;
  const reused = rates(samples, readCached), prefilled = rates(samples, readPrefilled);
  const decoded = rates(samples, readDecoded), requests = rates(samples, readRequests);
  const passes = rates(samples, readPasses);
  return [
    {name: "Hit rate", value: percent(readCached(now), readPrompt(now)), unit: "",
     note: `${tokens(readPrompt(now))} asked for`, line: hitRates(samples), highest: 1},
    {name: "Tokens reused", value: number(readCached(now)), unit: "",
     note: `${number(Math.round(latest(reused)))} a second now`, line: reused},
    {name: "Tokens read", value: number(readPrefilled(now)), unit: "",
     note: `${rate(latest(prefilled))} now`, line: prefilled},
    {name: "Tokens written", value: number(readDecoded(now)), unit: "",
     note: `${rate(latest(decoded))} now`, line: decoded},
    {name: "Answers", value: number(answers.running), unit: "under way",
     note: `${number(answers.done)} so far · ${number(answers.cancelled)} cancelled · ` +
       `${number(answers.bad)} bad requests · ${number(answers.failed)} failed`,
     line: levels(samples, (sample) => sample.answers.running)},
    {name: "Queue", value: number(answers.waiting), unit: "waiting", note: `${number(answers.refused)} refused`,
     line: levels(samples, (sample) => sample.answers.waiting)},
    {name: "Requests", value: number(server.requests), unit: "",
     note: `${number(server.open)} connections open · ${number(server.refused)} refused · ` +
       `${number(server.slow_clients)} too slow`, line: requests},
    {name: "Passes", value: number(readPasses(now)), unit: "",
     note: readPasses(now) > 0 ? `${(readRows(now) / readPasses(now)).toFixed(1)} rows each · ` +
       `${number(Math.round(latest(passes)))} a second now` : "none yet", line: passes},
    {name: "Keys and values", value: bytes(readBytes(now)), unit: "",
     note: `of ${bytes(readBudget(now))}`, line: levels(samples, readBytes), highest: readBudget(now)},
    {name: "Evictions", value: number(readEvicted(now)), unit: readEvicted(now) === 1 ? "page" : "pages",
     note: "to free memory", line: rates(samples, readEvicted)},
    {name: "Conversations in memory", value: number(conversations.known), unit: "",
     note: `${number(conversations.continued)} continued · ${number(conversations.forked)} branched · ` +
       `${number(conversations.unknown)} new`, line: levels(samples, (sample) => sample.conversations.known)},
  ];
}

// Returns the rows of the table of namespaces, and the parts of the bar above the table.
export function namespaceRows(model) {
  return model.namespaces.map((space) => ({
    name: space.is_own ? space.name || "everybody" : "others",
    bytes: space.bytes, pages: space.pages, hits: space.hits, lookups: space.lookups,
    hitRate: percent(space.hits, space.lookups),
  }));
}

// Returns the parts of a model's memory, [{name, bytes}], and the budget.
export function memoryParts(model) {
  const {pool, store, tiers} = model;
  const waiting = tiers.reduce((sum, tier) => sum + tier.waiting_bytes, 0);
  const states = pool.state_bytes;
  const rows = Math.max(0, pool.bytes - states - waiting);
  return {
    budget: Math.max(pool.budget_bytes, pool.bytes),
    parts: [{name: "rows of conversations", bytes: rows}, {name: "recurrent states", bytes: states},
            {name: "to be written", bytes: waiting}],
    findable: store.bytes,
  };
}
