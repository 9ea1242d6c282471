// The chat page in a browser: keyboard, screen readers, narrow and dark screens.
import assert from "node:assert/strict";
import test from "node:test";

import {accessibilityProblems, questions, say, sidewaysScroll, waitForAnswer} from "./browser.mjs";
import {name, setUp} from "./page_fixture.mjs";

const at = await setUp();

test("the page scrolls along only while the reader is at the end", async () => {
  const page = await at.open({viewport: {width: 900, height: 500}});
  await say(page, "code please");
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => [...document.querySelectorAll(".prose")].at(-1)?.textContent.length > 600);
  const isAtEnd = () => page.evaluate(() => {
    const {scrollHeight, scrollTop, clientHeight} = document.getElementById("scroller");
    return scrollHeight - scrollTop - clientHeight < 50;
  });
  assert.equal(await isAtEnd(), true);
  await page.mouse.move(450, 200);
  await page.mouse.wheel(0, -400);
  await page.waitForTimeout(300);
  const top = await page.evaluate(() => document.getElementById("scroller").scrollTop);
  await page.waitForTimeout(700);
  assert.equal(await page.evaluate(() => document.getElementById("scroller").scrollTop), top);
  assert.equal(await page.isVisible("#to-end"), true);
  await page.click("#to-end");
  await page.waitForTimeout(300);
  assert.equal(await isAtEnd(), true);
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
});

test("everything can be done with keys alone", async () => {
  const page = await at.open();
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
  await page.waitForFunction(() => document.activeElement.id === "message");
  await page.keyboard.type("First line");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("second line");
  await page.keyboard.press("Enter");
  await waitForAnswer(page);
  assert.equal(at.server.requests[0].messages[0].content, "First line\nsecond line");
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(), "Edit this message");
  await page.keyboard.type("!");
  await page.keyboard.press("Escape");
  assert.equal(await focused(), "Edit this message");
  assert.equal(await page.locator(".editor").count(), 0);
  await page.keyboard.press("?");
  assert.equal(await page.locator("#keys-dialog[open]").count(), 1);
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  assert.equal(await focused(), "Message");
  await page.keyboard.press("Alt+KeyK");
  assert.equal(await focused(), "Search conversations");
  await page.keyboard.press("Tab");
  assert.match(await focused(), /First line/);
  await page.keyboard.press("Alt+KeyN");
  assert.equal(await page.locator(".message").count(), 0);
  // The link to the message field comes first, and is visible when it has the focus.
  await page.evaluate(() => document.querySelector("a, button, input, select, textarea").focus());
  assert.equal(await focused(), "To the message field");
  assert.ok((await page.locator(".skip").boundingBox()).y >= 0);
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => location.hash), "#message");
});

test("every element has a name, and text stands out from its ground, light and dark", async () => {
  const page = await at.open();
  await page.click("#system-place summary");
  await say(page, "code please");
  await say(page, "think about what was lost");
  await say(page, "use a tool");
  await say(page, "refuse this");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({colorScheme, reducedMotion: "reduce"});
    assert.deepEqual(await accessibilityProblems(page), [], colorScheme);
    for (const [opener, dialog] of [["#open-settings", "#settings-dialog"], ["#open-keys", "#keys-dialog"],
                                    ["#open-tree", "#tree-dialog"], ["#delete", "#confirm-dialog"]]) {
      await page.click(opener);
      assert.deepEqual(await accessibilityProblems(page), [], `${dialog} ${colorScheme}`);
      await page.keyboard.press("Escape");
    }
  }
});

test("events are announced to screen readers", async () => {
  const page = await at.open();
  await say(page, "Hello");
  assert.equal(await page.innerText("#live"), "Answer: Answer 1 to: Hello");
  assert.equal(await page.getAttribute("#live", "aria-live"), "polite");
  assert.equal(await page.getAttribute("#notice", "role"), "alert");
});

test("the tree has the tree role and levels for screen readers", async () => {
  const page = await at.open();
  await say(page, "One");
  await say(page, "Two");
  await page.keyboard.press("Alt+KeyB");
  const rows = () => page.locator("[role=tree] [role=treeitem]").evaluateAll((all) => (
    all.map((row) => [row.getAttribute("aria-level"), row.getAttribute("aria-selected")])));
  assert.deepEqual(await rows(), [["1", "true"], ["2", "true"], ["3", "true"], ["4", "true"]]);
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("ArrowLeft");
  assert.equal(await focused(), "Two");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await focused(), "Answer 1 to: One");
  await page.keyboard.press("ArrowRight");
  assert.equal(await focused(), "Two");
});

test("single-key shortcuts can be turned off", async () => {
  const page = await at.open();
  await page.click("#open-settings");
  await page.uncheck("[name=keys]");
  await page.keyboard.press("Escape");
  await page.reload();
  await page.waitForFunction(() => document.activeElement.id === "message");
  await page.focus("#new");
  await page.keyboard.press("?");
  await page.keyboard.press("/");
  assert.equal(await page.locator("dialog[open]").count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.id), "new");
});

test("a growing answer keeps focus and selection", async () => {
  const page = await at.open();
  await page.fill("#message", "growing please");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => document.querySelector("pre code")?.textContent.length > 60);
  await page.evaluate(() => {
    document.querySelector("figure button").focus();
    document.getSelection().setBaseAndExtent(document.querySelector("pre code").firstChild, 0,
      document.querySelector("pre code").firstChild, 16);
  });
  const before = await page.innerText("pre code");
  await page.waitForFunction((n) => document.querySelector("pre code").textContent.length > n + 60, before.length);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Copy this code");
  assert.equal(await page.evaluate(() => document.getSelection().toString()), "one line of many");
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
});

test("an error shows when to retry, and a lost connection is explained", async () => {
  const page = await at.open();
  await say(page, "busy");
  assert.equal(await page.locator(".note.error").last().innerText(), "the queue is full Try again in 7 s.");
  await say(page, "cut");
  assert.equal(await page.locator(".note.error").last().innerText(), "The connection ended before the answer did.");
});

test("sending during an answer shows why it is refused", async () => {
  const page = await at.open();
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => document.querySelector(".prose")?.textContent.length > 20);
  await page.keyboard.press("Alt+KeyR");
  assert.match(await page.innerText("#notice"), /An answer is under way/);
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
  assert.equal(await page.isVisible("#notice"), false);
});

test("attached files count for the context gauge before they are sent", async () => {
  const page = await at.open();
  await page.waitForFunction(() => document.querySelector("#model").value !== "");
  await page.setInputFiles("#composer [type=file]",
    {name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("word ".repeat(800))});
  await page.waitForSelector("#gauge:not([hidden])");
  assert.match(await page.innerText("#gauge-text"), /^1,0\d\d \/ 8,192$/);
});

test("with forced colours, the active branch is still marked", async () => {
  const page = await at.open({forcedColors: "active"});
  await say(page, "One");
  const edge = (selector) => page.evaluate((each) => getComputedStyle(document.querySelector(each)).borderTopColor, selector);
  await page.keyboard.press("Alt+KeyB");
  assert.notEqual(await edge(".tree-row.active"), await edge("#open-tree"));
});

test("light and dark follow the system, or a switch", async () => {
  const page = await at.open({colorScheme: "dark"});
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.emulateMedia({colorScheme: "light"});
  const light = await ground();
  assert.notEqual(dark, light);
  await page.click("#theme");
  await page.click("#theme");
  assert.equal(await ground(), dark);
  await page.reload();
  assert.equal(await ground(), dark);
});

test("prefers-reduced-motion disables animations", async () => {
  const page = await at.open({reducedMotion: "reduce"});
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.waitForSelector(".running");
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
});

test("360 pixels are enough for everything, without scrolling sideways", async () => {
  const page = await at.open({viewport: {width: 360, height: 640}});
  await say(page, "code please");
  await say(page, `${"averylongwordwithoutanyblank".repeat(12)} hostile`);
  await say(page, "use a tool");
  await page.setInputFiles("#composer [type=file]",
    {name: "a very long name of a file that nobody would give.txt", mimeType: "text/plain", buffer: Buffer.from("x ".repeat(5000))});
  assert.deepEqual(await sidewaysScroll(page), []);
  await questions(page).first().locator(name("Edit this message")).click();
  assert.deepEqual(await sidewaysScroll(page), []);
  await page.keyboard.press("Escape");
  for (const opener of ["#open-tree", "#delete"]) {
    await page.click(opener);
    assert.deepEqual(await sidewaysScroll(page), []);
    await page.keyboard.press("Escape");
  }
  // The list slides over the page, and returns the focus.
  assert.equal(await page.evaluate(() => document.getElementById("side").inert), true);
  await page.click("#open-side");
  await page.waitForTimeout(300);
  assert.equal(await page.getAttribute("#open-side", "aria-expanded"), "true");
  await page.click("#open-settings");
  assert.deepEqual(await sidewaysScroll(page), []);
  await page.keyboard.press("Escape");
  await page.click(name("Close the list"));
  assert.equal(await page.evaluate(() => document.activeElement.id), "open-side");
  // Touch targets must be larger than those for a pointer.
  const small = await page.evaluate(() => [...document.querySelectorAll("main button, main select")]
    .filter((node) => node.checkVisibility() && node.getBoundingClientRect().height < 24).map((node) => node.id || node.className));
  assert.deepEqual(small, []);
});
