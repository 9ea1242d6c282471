// The chat page in a browser: what is stored and what is not, and that the user is informed.
import assert from "node:assert/strict";
import test from "node:test";

import {answers, say, waitForAnswer, watch} from "./browser.mjs";
import {setUp} from "./page_fixture.mjs";

const at = await setUp();

// From now on the browser stores nothing, as if it had no space: the transaction fails at its end, although its
// requests succeeded. after: the number of puts that still work in each transaction.
function fillUp(page, after = 1) {
  return page.evaluate((most) => {
    const put = IDBObjectStore.prototype.put;
    const counts = new WeakMap();
    IDBObjectStore.prototype.put = function (...values) {
      const request = put.apply(this, values);
      const count = (counts.get(this.transaction) ?? 0) + 1;
      counts.set(this.transaction, count);
      const {transaction} = this;
      if (count > most) request.addEventListener("success", () => transaction.abort());
      return request;
    };
  }, after);
}

async function beginSlowAnswer(page) {
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => [...document.querySelectorAll(".prose")].at(-1)?.textContent.length > 20);
}

const stored = (page) => page.evaluate(() => new Promise((resolve) => {
  indexedDB.open("ibid").onsuccess = ({target}) => {
    target.result.transaction("conversations").objectStore("conversations").getAll().onsuccess = (event) => {
      resolve(event.target.result.map((record) => record.title));
    };
  };
}));

test("a full storage is reported, and stored conversations are not lost", async () => {
  const page = await at.open();
  await say(page, "Kept");
  await fillUp(page);
  await say(page, "Not kept");
  await page.waitForSelector("#notice:not([hidden])");
  assert.match(await page.innerText("#notice"), /could not keep this conversation/);
  assert.equal(await answers(page).count(), 2);
  await page.reload();
  await page.waitForSelector(".message.assistant");
  assert.deepEqual(await page.locator(".said").allInnerTexts(), ["Kept"]);
});

test("persistent storage is requested", async () => {
  const page = await at.open();
  await page.evaluate(() => {
    window.asked = 0;
    navigator.storage.persist = async () => { window.asked += 1; return true; };
  });
  await say(page, "One");
  await say(page, "Two");
  assert.equal(await page.evaluate(() => window.asked), 1);
});

test("a conversation that is deleted during its answer stays deleted", async () => {
  const page = await at.open();
  await beginSlowAnswer(page);
  await page.click("#delete");
  await page.click("#confirm-dialog button[value=yes]");
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 0);
  await page.waitForTimeout(300);
  assert.deepEqual(await stored(page), []);
  assert.equal(await page.locator(".conversation").count(), 0);
});

test("a conversation that another tab deletes stays deleted, and its answer ends", async () => {
  const page = await at.open();
  await beginSlowAnswer(page);
  const other = await page.context().newPage();
  watch(other);
  await other.goto(at.server.url);
  await other.click(".conversation");
  await other.click("#delete");
  await other.click("#confirm-dialog button[value=yes]");
  await page.waitForSelector("#notice:not([hidden])");
  assert.match(await page.innerText("#notice"), /deleted in another tab/);
  assert.equal(await page.locator(".message").count(), 0);
  await page.waitForTimeout(300);
  assert.equal(at.server.aborted, 1);
  assert.deepEqual(await stored(page), []);
  await say(page, "A new one");
  assert.deepEqual(await stored(page), ["A new one"]);
  assert.deepEqual(other.problems, []);
});

test("an import that does not fit imports nothing", async () => {
  const page = await at.open({acceptDownloads: true});
  await say(page, "First");
  await page.click("#new");
  await say(page, "Second");
  await page.click("#open-settings");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export-all")]);
  await fillUp(page, 2);
  await page.setInputFiles("#import-file", await download.path());
  await page.waitForSelector("#notice:not([hidden])");
  assert.match(await page.innerText("#notice"), /Nothing was imported/);
  assert.equal((await stored(page)).length, 2);
});

test("Escape in the search field clears it, and stops no answer", async () => {
  const page = await at.open();
  await beginSlowAnswer(page);
  await page.fill("#search", "apples");
  await page.press("#search", "Escape");
  assert.equal(await page.inputValue("#search"), "");
  await page.press("#search", "Escape");
  assert.equal(await page.locator(".send.stop").count(), 1);
  await page.press("#message", "Escape");
  await waitForAnswer(page);
  assert.equal(await page.innerText(".note:not([hidden])"), "Stopped.");
});

test("Escape that closes the list of a narrow screen stops no answer", async () => {
  const page = await at.open({viewport: {width: 360, height: 640}});
  await beginSlowAnswer(page);
  await page.click("#open-side");
  await page.fill("#search", "slow");
  await page.press("#search", "Escape");
  assert.equal(await page.getAttribute("#open-side", "aria-expanded"), "true");
  await page.press("#search", "Escape");
  assert.equal(await page.getAttribute("#open-side", "aria-expanded"), "false");
  assert.equal(await page.locator(".send.stop").count(), 1);
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
  assert.equal(await answers(page).locator(".note").innerText(), "Stopped.");
});
