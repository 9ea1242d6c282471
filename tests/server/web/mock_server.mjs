// A mock of `ibid serve` without a model: serves the files of server/web with the headers of page_routes.cc, and
// answers chat completions by a script. For the tests of the page, and for work on it:
//   node tests/server/web/mock_server.mjs 8081
//
// A token is a word here. The longest prefix of a prompt that an earlier prompt or answer had is cached.

import {readFile, readFileSync} from "node:fs";
import {createServer} from "node:http";
import {dirname, extname, join} from "node:path";
import {fileURLToPath} from "node:url";

const FOLDER = join(dirname(fileURLToPath(import.meta.url)), "../../../server/web");
const TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
               ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"};

// The product's policy.
function policy() {
  const source = readFileSync(join(FOLDER, "page_routes.cc"), "utf8");
  return [.../kPagePolicy\[\] =\s*((?:"[^"\n]*"\s*)+);/.exec(source)[1].matchAll(/"([^"]*)"/g)].map((m) => m[1]).join("");
}

export const HOSTILE = [
  "<script>window.hacked = 1</script> <img src=x onerror=\"window.hacked = 2\">",
  "[click](javascript:window.hacked=3) [data](data:text/html,<script>window.hacked=4</script>)",
  "![picture](http://127.0.0.1:9/pixel.png) <javascript:window.hacked=5> [rel](/v1/models) [good](https://example.org/a)",
  "`<b onclick=alert(1)>` **bold <svg onload=window.hacked=6>** \u202Eevil\u202C",
  "```html\n<script>window.hacked = 7</script>\n```",
  `${">".repeat(500)} deep`,
  `${"- ".repeat(300)}deeper`,
  `${"*_".repeat(2000)}deepest${"_*".repeat(2000)}`,
  "| a | b |\n|---|---|\n| <iframe src=javascript:window.hacked=8> | 2 |",
].join("\n\n");

const CODE = "Here is a function and why it works.\n\n```python\ndef fib(n):  # the n-th number\n    a, b = 0, 1\n" +
  "    for _ in range(n):\n        a, b = b, a + b\n    return a\n```\n\n- It needs **two** numbers only.\n- It takes " +
  "`O(n)` steps.\n\n| n | fib(n) |\n|--:|--:|\n| 10 | 55 |\n| 20 | 6765 |\n";

const words = (text) => text.split(/\s+/).filter((word) => word !== "");

// {text, reasoning, calls, delay} of the answer to the last user message.
function scripted(said, n) {
  if (said.includes("hostile")) return {text: HOSTILE};
  if (said.includes("huge")) return {text: "word and *word* and `word`\n\n".repeat(4000), chunk: 4000};
  if (said.includes("growing")) return {text: `\`\`\`text\n${"one line of many\n".repeat(200)}\`\`\`\n`, delay: 40};
  if (said.includes("code")) return {text: CODE};
  if (said.includes("think")) return {reasoning: "First I look at the **question**. Then I answer.", text: "It is 42."};
  if (said.includes("tool")) return {text: "", calls: [{name: "look_up", arguments: "{\"city\": \"Rome\"}"}]};
  if (said.includes("slow")) return {text: "This answer comes slowly, word by word, and takes its time. ".repeat(40), delay: 40};
  return {text: `Answer ${n} to: ${said}`};
}

export class MockServer {
  constructor({key = ""} = {}) {
    this.key = key;
    this.requests = [];  // bodies of chat completions
    this.paths = [];     // of all requests
    this.aborted = 0;
    this.known = [];     // lists of words that were prefilled
    this.server = createServer((request, response) => this.#serve(request, response));
  }

  async listen(port = 0) {
    await new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this.url;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  #serve(request, response) {
    const {pathname} = new URL(request.url, "http://localhost");
    this.paths.push(pathname);
    if (pathname.startsWith("/v1/") || pathname === "/monitor.json") {
      if (this.key !== "" && request.headers.authorization !== `Bearer ${this.key}`) {
        return this.#json(response, 401, {error: {message: "This server needs an API key.", code: "invalid_api_key"}});
      }
      if (pathname === "/v1/models") return this.#models(response);
      if (pathname === "/monitor.json") return this.#json(response, 200, this.monitor());
      if (pathname === "/v1/chat/completions") return this.#readBody(request, response);
      return this.#json(response, 404, {error: {message: "not found"}});
    }
    const name = pathname === "/" ? "index.html" : pathname === "/monitor" ? "monitor.html" : pathname.slice(6);
    readFile(join(FOLDER, name), (error, content) => {
      if (error || !(extname(name) in TYPES)) return this.#json(response, 404, {error: {message: "not found"}});
      response.writeHead(200, {
        "content-type": TYPES[extname(name)], "content-security-policy": policy(), "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer", "cache-control": "no-cache"});
      response.end(content);
    });
  }

  #json(response, status, body) {
    response.writeHead(status, {"content-type": "application/json"});
    response.end(JSON.stringify(body));
  }

  #models(response) {
    const data = [{id: "tiny-model", meta: {n_ctx: 8192}}, {id: "other-model"}];
    this.#json(response, 200, {object: "list", data});
  }

  #readBody(request, response) {
    let body = "";
    request.on("data", (part) => { body += part; });
    request.on("end", () => {
      const parsed = JSON.parse(body);
      this.requests.push(parsed);
      this.#answer(parsed, response);
    });
  }

  async #answer(request, response) {
    const said = request.messages.at(-1).content;
    if (said.includes("refuse")) {
      return this.#json(response, 400, {error: {message: "the context is full: 9000 tokens of 8192"}});
    }
    if (said.includes("busy")) {
      response.setHeader("retry-after", "7");
      return this.#json(response, 429, {error: {message: "the queue is full"}});
    }
    let gone = false;
    response.on("close", () => {
      if (response.writableEnded) return;
      gone = true;
      this.aborted += 1;
    });
    response.writeHead(200, {"content-type": "text/event-stream"});
    const send = (chunk) => response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    const delta = (fields) => send({choices: [{index: 0, delta: fields, finish_reason: null}]});

    const prompt = words(request.messages.map((message) => `<${message.role}> ${message.content}`).join(" "));
    const cached = Math.min(prompt.length - 1, this.#longestKnown(prompt));
    const continues = request.messages.at(-1).role === "assistant";
    const {text, reasoning = "", calls = [], delay = 2, chunk = 0} =
      continues ? {text: "and goes on"} : scripted(said, this.requests.length);
    send({choices: [], prompt_progress: {total: prompt.length, cache: cached, processed: cached}});
    delta({role: "assistant", content: ""});
    for (const part of reasoning.match(/\S+\s*/g) ?? []) delta({reasoning_content: part});
    for (const [index, call] of calls.entries()) {
      delta({tool_calls: [{index, id: `call_${index}`, type: "function", function: {name: call.name, arguments: ""}}]});
      delta({tool_calls: [{index, function: {arguments: call.arguments}}]});
    }
    const parts = chunk > 0 ? text.match(new RegExp(`[^]{1,${chunk}}`, "g")) : text.match(/\S*\s*/g) ?? [];
    for (const part of parts) {
      if (gone) return;
      if (part !== "") delta({content: part});
      await new Promise((resolve) => setTimeout(resolve, delay));
      if (said.includes("cut") && part.startsWith("to")) return response.destroy();
      if (said.includes("break") && part.startsWith("to")) {
        send({error: {message: "the model ran out of memory"}});
        return response.end();
      }
    }
    this.known.push(prompt, [...prompt, "<assistant>", ...words(text)]);
    const written = words(text).length + words(reasoning).length;
    const ibid = {prefilled: prompt.length - cached, cached};
    if (said.includes("lost")) {
      ibid.lost_prefix = {tokens: 17, message: 0, byte: 120, token: 30, cause: "the message was changed"};
    }
    send({choices: [{index: 0, delta: {}, finish_reason: calls.length > 0 ? "tool_calls" : "stop"}],
          timings: {cache_n: cached, prompt_n: prompt.length - cached, predicted_per_second: 58.3}, ibid});
    send({choices: [], usage: {prompt_tokens: prompt.length, completion_tokens: written,
                               prompt_tokens_details: {cached_tokens: cached}}});
    response.end("data: [DONE]\n\n");
  }

  #longestKnown(prompt) {
    return this.known.reduce((most, known) => {
      let n = 0;
      while (n < prompt.length && n < known.length && known[n] === prompt[n]) n += 1;
      return Math.max(most, n);
    }, 0);
  }

  monitor() {
    this.ticks = (this.ticks ?? 0) + 1;
    const n = this.ticks;
    return {
      time_ms: 1_790_000_000_000 + 2000 * n, uptime_s: 2 * n + 5000,
      server: {connections: 40 + n, open: 3, requests: 300 + 4 * n, refused: 2, slow_clients: 0},
      answers: {done: 120 + n, running: n % 3, waiting: n % 2, cancelled: 4, bad: 2, failed: 0, refused: 1},
      tokens: {prompt: 90000 + 900 * n, cached: 82000 + 850 * n, prefilled: 8000 + 50 * n,
               decoded: 21000 + Math.round(90 * n + 40 * Math.sin(n))},
      conversations: {known: 31, bytes: 2_400_000, continued: 88 + n, forked: 12, unknown: 21},
      models: [{
        name: "tiny-model", loaded: true, file_bytes: 98_000_000, max_seq_len: 8192,
        passes: {n: 30000 + 95 * n, shared: 400 + n, rows: 52000 + 160 * n, most_sequences: 4},
        pool: {budget_bytes: 268_435_456, bytes: 120_000_000 + 300_000 * n, peak_bytes: 190_000_000, state_bytes: 0},
        store: {bytes: 100_000_000 + 280_000 * n, budget_bytes: 268_435_456, pages: 900 + n, lookups: 130 + n,
                hits: 118 + n, reused_tokens: 80000 + 850 * n, inserted_pages: 1100 + n, evicted_pages: 40 + (n >> 2)},
        namespaces: [{name: "alice", is_own: true, bytes: 70_000_000 + 200_000 * n, pages: 600, hits: 80, lookups: 88},
                     {name: "", is_own: false, bytes: 30_000_000 + 80_000 * n, pages: 300, hits: 38, lookups: 42}],
        tiers: [{name: "directory", bytes: 320_000_000, pages: 2100, hits: 9, misses: 30, tokens_read: 4100,
                 pages_written: 2300, evicted: 20, waiting: n % 5, waiting_bytes: 4_000_000 * (n % 5), dropped: 0,
                 failures: 0, is_usable: true, is_writing: true},
                {name: "server", bytes: 0, pages: 0, hits: 3, misses: 21, tokens_read: 1900, pages_written: 2200,
                 evicted: 0, waiting: 0, waiting_bytes: 0, dropped: 0, failures: 0, bytes_read: 24_000_000,
                 bytes_written: 1_740_000_000, is_usable: true, is_writing: true}],
      }, {name: "other-model", loaded: false, file_bytes: 4_100_000_000}],
    };
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(await new MockServer().listen(Number(process.argv[2] ?? 8081)));
}
