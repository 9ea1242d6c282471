// The chat page in a browser: hostile input, secrets, errors.
import assert from "node:assert/strict";
import test from "node:test";

import {answers, questions, say} from "./browser.mjs";
import {HOSTILE} from "./mock_server.mjs";
import {name, setUp} from "./page_fixture.mjs";

const at = await setUp();
const place = (message) => message.locator(".place").innerText();

test("a hostile file is refused with its reason, or shown as text", async () => {
  const page = await at.open();
  await say(page, "Mine");
  const give = (text) => page.setInputFiles("#import-file", {name: "x.json", mimeType: "application/json", buffer: Buffer.from(text)});
  const node = (fields) => ({id: "n1", parent: "", role: "user", text: "x", ...fields});
  const record = (nodes) => JSON.stringify({format: "ibid conversations", version: 1, conversations: [
    {id: "c", title: "<img src=x onerror=window.hacked=1>", nodes}]});
  for (const text of ["{", "[]", record([node({parent: "n1"})]), record([node({role: "system"})]), record([node({id: "__proto__"})])]) {
    await give(text);
    await page.waitForSelector("#notice:not([hidden])");
    assert.match(await page.innerText("#notice"), /^Nothing was imported\. /);
    assert.equal(await page.locator(".conversation").count(), 1);
    await page.evaluate(() => { document.getElementById("notice").hidden = true; });
  }
  await give(record([node({}), node({id: "n2", parent: "n1", role: "assistant", text: HOSTILE, end: "<b>"})]));
  await page.waitForFunction(() => document.querySelectorAll(".conversation").length === 2);
  assert.equal(await page.locator("main img, nav img, .prose script").count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
});

test("hostile Markdown runs nothing, fetches nothing and has no unsafe links", async () => {
  const page = await at.open();
  await page.evaluate(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
  });
  await say(page, "hostile please");
  await page.click("figure.code button");
  await page.waitForTimeout(300);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(await page.evaluate(() => window.violations), []);
  const inside = await page.evaluate(() => ({
    tags: [...new Set([...document.querySelectorAll(".prose *")].map((node) => node.tagName.toLowerCase()))],
    links: [...document.querySelectorAll(".prose a")].map((node) => [node.protocol, node.rel, node.target]),
    handlers: [...document.querySelectorAll(".prose *")].flatMap((node) => node.getAttributeNames())
      .filter((each) => each.startsWith("on") || each === "src" || each === "style" || each === "srcdoc"),
    text: document.querySelector(".prose").textContent,
  }));
  for (const tag of ["script", "img", "iframe", "svg", "object", "style", "b"]) assert.ok(!inside.tags.includes(tag), tag);
  assert.ok(inside.links.length > 0);
  for (const link of inside.links) {
    assert.match(link[0], /^(https?|mailto):$/);
    assert.deepEqual(link.slice(1), ["noopener noreferrer", "_blank"]);
  }
  assert.deepEqual(inside.handlers, []);
  assert.ok(inside.text.includes("<script>window.hacked = 1</script>"));
});

test("the content security policy blocks inline scripts, HTML from text and other origins", async () => {
  const page = await at.open();
  const tried = await page.evaluate(async () => {
    const outcomes = {};
    try {
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=window.hacked=1>");
      outcomes.html = "made";
    } catch (error) {
      outcomes.html = error.name;
    }
    outcomes.connect = await fetch("https://example.org/").then(() => "sent", () => "refused");
    const script = document.createElement("script");
    try {
      script.textContent = "window.hacked = 2";
      document.body.append(script);
      outcomes.script = "made";
    } catch (error) {
      outcomes.script = error.name;
    }
    return outcomes;
  });
  assert.deepEqual(tried, {html: "TypeError", connect: "refused", script: "TypeError"});
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  page.problems = page.problems.filter((text) => !/Content Security Policy|TrustedHTML|TrustedScript|trusted types/i.test(text));
  page.asked = page.asked.filter((url) => url !== "https://example.org/");
});

test("a huge answer is shown completely, and the page stays responsive", async () => {
  const page = await at.open();
  await say(page, "huge please");
  const length = await page.evaluate(() => document.querySelector(".prose").textContent.length);
  assert.ok(length > 80000, String(length));
  await say(page, "still there?");
  assert.equal(await answers(page).count(), 2);
});

test("files are attached as text; large and binary ones are refused", async () => {
  const page = await at.open();
  const files = [{name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("alpha\nbeta\n")},
                 {name: "big.txt", mimeType: "text/plain", buffer: Buffer.alloc((1 << 20) + 1, "x")},
                 {name: "bits.bin", mimeType: "text/plain", buffer: Buffer.from([0xff, 0xfe, 0x00])},
                 {name: "nul.txt", mimeType: "text/plain", buffer: Buffer.from("a\0b")}];
  await page.setInputFiles("#composer [type=file]", files);
  await page.waitForSelector("#notice:not([hidden])");
  assert.equal(await page.innerText("#notice"), "nul.txt is not text.");
  assert.equal(await page.locator("#composer .file").count(), 1);
  assert.match(await page.innerText("#composer .file"), /notes\.txt\s*about 3 tokens/);
  await say(page, "What is in it?");
  assert.equal(at.server.requests[0].messages[0].content, "File notes.txt:\n```\nalpha\nbeta\n```\n\nWhat is in it?");
  assert.equal(await page.locator("#composer .file").count(), 0);
  assert.equal(await page.locator(".bubble .file").count(), 1);

  // Dropped on the page.
  const data = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["dropped"], "drop.md", {type: "text/markdown"}));
    return transfer;
  });
  await page.dispatchEvent("#thread", "drop", {dataTransfer: data});
  await page.waitForSelector("#composer .file");
  await page.click(name("Remove drop.md"));
  assert.equal(await page.locator("#composer .file").count(), 0);
});

// Browsers do not provide some functions to such pages.
test("a page that was loaded over plain HTTP from another machine works too", async () => {
  at.server.url = at.server.url.replace("127.0.0.1", "other.machine");
  const page = await at.open();
  assert.equal(await page.evaluate(() => isSecureContext), false);
  await say(page, "Hello");
  await page.click(name("Copy this answer"));
  await page.waitForFunction(() => document.getElementById("live").textContent.includes("does not allow copying"));
  await page.reload();
  await page.waitForSelector(".message.assistant");
});

test("errors of the server are shown with its message, and can be retried", async () => {
  const page = await at.open();
  await say(page, "refuse this");
  assert.equal(await page.innerText(".note.error"), "the context is full: 9000 tokens of 8192");
  await say(page, "break this");
  assert.equal(await answers(page).last().locator(".note").innerText(), "the model ran out of memory");
  assert.equal(await answers(page).count(), 1);
  assert.equal(await place(questions(page).last()), "2/2");
  at.server.close();
  await say(page, "nobody is there");
  assert.equal(await answers(page).last().locator(".note").innerText(), "The server cannot be reached.");
});

test("an API key is requested, kept until the tab is closed, and longer only on request", async () => {
  await at.startServer({key: "secret-1"});
  const page = await at.open();
  await page.waitForSelector("#notice:not([hidden])");
  assert.match(await page.innerText("#notice"), /API key/);
  await page.click("#open-settings");
  await page.fill("#key", "secret-1");
  await page.press("#key", "Tab");
  await page.waitForFunction(() => document.getElementById("model").value === "tiny-model");
  await page.keyboard.press("Escape");
  await say(page, "Hello");
  const stored = () => page.evaluate(() => [JSON.stringify({...sessionStorage}), JSON.stringify({...localStorage})]
    .map((text) => text.includes("secret-1")));
  assert.deepEqual(await stored(), [true, false]);
  await page.click("#open-settings");
  await page.check("[name=keep]");
  assert.deepEqual(await stored(), [true, true]);
  await page.uncheck("[name=keep]");
  assert.deepEqual(await stored(), [true, false]);
});

test("code is copied as it was written", async () => {
  const page = await at.open({permissions: ["clipboard-read", "clipboard-write"]});
  await say(page, "code please");
  await page.click("figure.code button");
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^def fib\(n\):.*\n {4}a, b = 0, 1\n/);
  await answers(page).locator(name("Copy this answer")).click();
  await page.waitForFunction(() => document.getElementById("live").textContent === "Copied");
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /```python/);
});
