// The monitor in a browser, with mock_server.mjs.
import assert from "node:assert/strict";
import test, {after, afterEach} from "node:test";

import {accessibilityProblems, launchBrowser, openPage, sidewaysScroll} from "./browser.mjs";
import {MockServer} from "./mock_server.mjs";

const browser = await launchBrowser();
let server, page;

async function open(options = {}, key = "") {
  server = new MockServer({key});
  await server.listen();
  page = await openPage(browser, `${server.url}/monitor`, options);
}

afterEach(async () => {
  assert.deepEqual(page.problems, []);
  for (const url of page.asked) assert.ok(url.startsWith(server.url), url);
  await page.context().close();
  server.close();
});
after(() => browser.close());

const refresh = () => page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
const card = (name) => page.locator(".card", {has: page.locator(`h2:text-is("${name}")`)}).innerText();

test("the figures of the server and of each model are shown", async () => {
  await open();
  await page.waitForSelector(".card");
  assert.match(await card("Hit rate"), /91\.1 %\s*90,900 tokens asked for/);
  assert.match(await card("Tokens reused"), /82,850/);
  assert.match(await card("Queue"), /1 waiting/);
  assert.match(await card("Evictions"), /40 pages/);
  assert.match(await card("Keys and values"), /120 MB\s*of 268 MB/);
  assert.equal(await page.locator(".model").count(), 2);
  assert.match(await page.locator(".model").first().innerText(), /alice.*others.*cache directory.*cache server/s);
  assert.match(await page.locator(".model").last().innerText(), /other-model.*not loaded/s);
});

test("focus and selection stay when figures are updated", async () => {
  await open();
  await page.waitForSelector(".card");
  await page.evaluate(() => {
    document.querySelector(".model .table").focus();
    const text = document.querySelector(".card h2").firstChild;
    document.getSelection().setBaseAndExtent(text, 0, text, text.length);
  });
  const selected = await page.evaluate(() => document.getSelection().toString());
  const before = await card("Tokens reused");
  await refresh();
  await page.waitForFunction((old) => document.querySelectorAll(".card")[1].innerText !== old, before);
  assert.equal(await page.evaluate(() => document.activeElement.className), "table");
  assert.equal(await page.evaluate(() => document.getSelection().toString()), selected);
  assert.notEqual(selected, "");
});

test("figures are polled, rates and lines are updated, and it can be paused", async () => {
  await open();
  await page.waitForSelector(".card");
  for (let i = 0; i < 5; i += 1) {
    await refresh();
    await page.waitForFunction((n) => Number(document.querySelectorAll(".card .value")[1].textContent.replace(/\D/g, "")) >= n,
      82850 + 850 * (i + 1));
  }
  assert.match(await card("Tokens reused"), /425 a second now/);
  const line = await page.getAttribute(".card .spark-line >> nth=0", "d");
  assert.ok(line.split("L").length >= 5, line);
  await page.waitForFunction(() => Number(document.querySelectorAll(".card .value")[1].textContent.replace(/\D/g, "")) > 87100,
    null, {timeout: 8000});
  await page.click("#pause");
  const before = server.ticks;
  await page.waitForTimeout(3500);
  assert.equal(server.ticks, before);
  assert.equal(await page.getAttribute("#pause", "aria-pressed"), "true");
});

test("it asks for a key if the server requires one", async () => {
  await open({}, "secret");
  await page.waitForSelector("#key-form:not([hidden])");
  await page.fill("#key", "secret");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".card");
  assert.equal(await page.isVisible("#key-form"), false);
});

test("a lost server is reported", async () => {
  await open();
  await page.waitForSelector(".card");
  server.close();
  await refresh();
  await page.waitForSelector("#notice:not([hidden])");
  assert.equal(await page.innerText("#notice"), "The server cannot be reached.");
});

test("names, contrast and 360 pixels", async () => {
  await open({viewport: {width: 360, height: 640}});
  await page.waitForSelector(".card");
  assert.deepEqual(await sidewaysScroll(page), []);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({colorScheme});
    assert.deepEqual(await accessibilityProblems(page), [], colorScheme);
  }
});
