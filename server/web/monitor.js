// The monitor: fetches /monitor.json every few seconds while the page is visible, and keeps the samples of the last
// minutes for the lines.

import {element} from "./elements.js";
import {memoryParts, namespaceRows, serverFigures} from "./monitor_figures.js";
import {patchChildren} from "./patch.js";
import {Server} from "./server.js";
import {Settings} from "./settings.js";
import {sparkline} from "./sparkline.js";
import {bytes, duration, number} from "./words.js";

const EVERY_MS = 3000, KEPT = 60;

const at = (id) => document.getElementById(id);
const settings = new Settings();
const server = new Server(() => settings.key);
const samples = [];
let timer = 0, isPaused = false;

function card({name, value, unit, note, line, highest}) {
  return element("article", {class: "card"},
    element("h2", {}, name),
    element("p", {class: "value"}, value, unit === "" ? "" : element("small", {}, ` ${unit}`)),
    element("p", {class: "soft"}, note),
    sparkline(line, KEPT, highest));
}

function stack(parts, whole) {
  return element("div", {class: "stack", "aria-hidden": "true"}, parts.map((part) => {
    const bar = element("span");
    bar.style.width = `${whole > 0 ? (100 * part.bytes) / whole : 0}%`;
    return bar;
  }));
}

function memory(model) {
  const {budget, parts, findable} = memoryParts(model);
  const shown = parts.map((part, i) => ({...part, i})).filter((part) => part.bytes > 0 || part.i === 0);
  const used = shown.reduce((sum, part) => sum + part.bytes, 0);
  return [
    element("h3", {}, "Memory"),
    stack(parts, budget),
    element("ul", {class: "legend"},
      shown.map((part) => element("li", {class: `part-${part.i}`}, `${part.name} ${bytes(part.bytes)}`)),
      element("li", {}, `free ${bytes(Math.max(0, budget - used))} of ${bytes(budget)}`)),
    element("p", {class: "soft"},
      `${bytes(findable)} are reusable; at most ${bytes(model.pool.peak_bytes)} were in use at once.`),
  ];
}

function table(head, rows) {
  return element("div", {class: "table", tabindex: "0", role: "group", "aria-label": head[0]}, element("table", {},
    element("thead", {}, element("tr", {}, head.map((each) => element("th", {scope: "col"}, each)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, row.map((each) => element("td", {}, each)))))));
}

function namespaces(model) {
  const rows = namespaceRows(model);
  return [
    element("h3", {}, "By namespace"),
    table(["Namespace", "bytes", "pages", "lookups", "hits", "hit rate"], rows.map((row) => [
      row.name, bytes(row.bytes), number(row.pages), number(row.lookups), number(row.hits), row.hitRate])),
  ];
}

function tiers({tiers}) {
  const shown = tiers.map((tier) => [
    tier.name === "server" ? "cache server" : "cache directory",
    ...(tier.name === "server" ? [bytes(tier.bytes_read + tier.bytes_written), "–"] : [bytes(tier.bytes), number(tier.pages)]),
    number(tier.pages_written), number(tier.waiting), number(tier.dropped), number(tier.evicted), number(tier.hits),
    number(tier.misses), number(tier.tokens_read)]);
  if (shown.length === 0) return [];
  const notes = [];
  if (tiers.some((tier) => !tier.is_usable)) notes.push("The cache server does not answer, and is not used now.");
  if (tiers.some((tier) => tier.is_usable && !tier.is_writing)) notes.push("Nothing is written now.");
  return [
    element("h3", {}, "Beyond memory"),
    table(["Tier", "bytes", "pages", "written", "waiting", "dropped", "evicted", "hits", "misses", "tokens read"], shown),
    ...notes.map((note) => element("p", {class: "soft"}, note)),
  ];
}

function modelSection(model) {
  const about = model.loaded ? `${bytes(model.file_bytes)} · context ${number(model.max_seq_len)}`
    : `${bytes(model.file_bytes)} · not loaded`;
  return element("article", {class: "model"},
    element("h2", {}, model.name, element("span", {class: "soft"}, about)),
    model.loaded ? [memory(model), namespaces(model), tiers(model)] : []);
}

function show() {
  const now = samples.at(-1);
  patchChildren(at("cards"), serverFigures(samples).map(card));
  patchChildren(at("models"), now.models.map(modelSection));
  at("state").textContent = `up ${duration(now.uptime_s * 1000)}${isPaused ? " · paused" : ""}`;
}

function say(text) {
  at("notice").textContent = text;
  at("notice").hidden = text === "";
}

async function refresh() {
  clearTimeout(timer);
  if (isPaused || document.hidden) return;
  try {
    const sample = await server.monitor(AbortSignal.timeout(10000));
    // Drop earlier samples after a restart of the server, because its counters began again.
    if (samples.length > 0 && sample.uptime_s < samples.at(-1).uptime_s) samples.length = 0;
    samples.push(sample);
    if (samples.length > KEPT) samples.shift();
    at("key-form").hidden = true;
    say("");
    show();
  } catch (error) {
    at("key-form").hidden = error.status !== 401;
    say(error.status === 401 ? "" : error.message);
  }
  timer = setTimeout(refresh, EVERY_MS);
}

at("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  at("pause").setAttribute("aria-pressed", String(isPaused));
  at("pause").textContent = isPaused ? "Continue" : "Pause";
  if (isPaused && samples.length > 0) show();
  refresh();
});
at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  settings.setKey(at("key").value.trim(), settings.isKeyKept);
  refresh();
});
document.addEventListener("visibilitychange", refresh);
refresh();
