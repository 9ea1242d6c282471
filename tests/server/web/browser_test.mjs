// The chat page in a browser, with mock_server.mjs: the actions of a user, step by step.
import assert from "node:assert/strict";
import {readFile} from "node:fs/promises";
import test from "node:test";

import {answers, questions, say, waitForAnswer, watch} from "./browser.mjs";
import {name, setUp} from "./page_fixture.mjs";

const at = await setUp();
const place = (message) => message.locator(".place").innerText();

test("a message is answered, and the whole history goes with the next", async () => {
  const page = await at.open();
  await say(page, "Hello there");
  assert.equal(await answers(page).last().locator(".prose").innerText(), "Answer 1 to: Hello there");
  await say(page, "And again");
  const [first, second] = at.server.requests;
  assert.equal(first.stream, true);
  assert.deepEqual(first.stream_options, {include_usage: true});
  assert.deepEqual(second.messages.map((message) => message.role), ["user", "assistant", "user"]);
  assert.equal(second.messages[1].content, "Answer 1 to: Hello there");
  assert.match(await answers(page).last().locator(".figures").innerText(), /9 cached\s*3 new.*first token.*58 tok\/s/s);
  assert.equal(await page.title(), "Hello there · ibid");
  assert.equal(await page.inputValue("#message"), "");
  assert.match(await page.innerText("#gauge-text"), /^\d+ \/ 8,192$/);
});

test("text appears while it arrives", async () => {
  const page = await at.open();
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => document.querySelector(".prose")?.textContent.length > 20);
  const early = await answers(page).locator(".prose").innerText();
  await page.waitForFunction((n) => document.querySelector(".prose").textContent.length > n + 20, early.length);
  assert.ok((await answers(page).locator(".prose").innerText()).startsWith(early.trimEnd()));
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
});

test("Escape stops the answer and the request; the text stays and can be continued", async () => {
  const page = await at.open();
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => document.querySelector(".prose")?.textContent.length > 20);
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
  assert.equal(await answers(page).locator(".note").innerText(), "Stopped.");
  const kept = await answers(page).locator(".prose").innerText();
  assert.ok(kept.startsWith("This answer comes slowly"));
  await say(page, "Go on");
  assert.equal(at.server.aborted, 1);
  assert.equal(at.server.requests[1].messages[1].content.trimEnd(), kept.trimEnd());
});

test("a stopped answer is continued where it ends", async () => {
  const page = await at.open();
  await say(page, "Question");
  assert.equal(await page.locator(name("Continue this answer")).count(), 0);
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => document.querySelectorAll(".prose")[1]?.textContent.length > 20);
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
  const kept = await answers(page).nth(1).locator(".prose").innerText();
  await page.click(name("Continue this answer"));
  await page.waitForFunction(() => document.querySelectorAll(".prose")[1].textContent.endsWith("and goes on"));
  await waitForAnswer(page);
  const {messages} = at.server.requests.at(-1);
  assert.equal(messages.length, 4);
  assert.equal(messages[3].role, "assistant");
  assert.equal(messages[3].content.trimEnd(), kept.trimEnd());
  assert.equal(await answers(page).count(), 2);
  assert.equal(await answers(page).nth(1).locator(".prose").innerText(), `${kept.trimEnd()} and goes on`);
  assert.equal(await page.locator(name("Continue this answer")).count(), 0);
});

test("the button stops the answer too; without any text nothing is kept", async () => {
  const page = await at.open();
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.click(".send.stop");
  await waitForAnswer(page);
  await say(page, "Something else");
  const {messages} = at.server.requests.at(-1);
  assert.ok(messages.every((message) => message.content !== ""));
  assert.notDeepEqual(messages.slice(-2).map((message) => message.role), ["user", "user"]);
});

test("an edited message is a branch; arrows switch branches", async () => {
  const page = await at.open();
  await say(page, "First");
  await say(page, "Second");
  await questions(page).first().locator(name("Edit this message")).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("Other");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
  await waitForAnswer(page);
  assert.equal(await place(questions(page).first()), "2/2");
  assert.deepEqual(at.server.requests.at(-1).messages.map((message) => message.content), ["Other"]);
  await page.click(name("Previous version of this message"));
  assert.equal(await place(questions(page).first()), "1/2");
  assert.deepEqual(await questions(page).locator(".said").allInnerTexts(), ["First", "Second"]);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Next version of this message");
});

test("a regenerated answer is a sibling of the first", async () => {
  const page = await at.open();
  await say(page, "Question");
  await page.click(name("Another answer"));
  await page.waitForFunction(() => document.querySelector(".assistant .place")?.textContent === "2/2");
  await waitForAnswer(page);
  assert.equal(await answers(page).locator(".prose").innerText(), "Answer 2 to: Question");
  assert.deepEqual(at.server.requests[1].messages, at.server.requests[0].messages);
  await page.click(name("Previous answer"));
  assert.equal(await answers(page).locator(".prose").innerText(), "Answer 1 to: Question");
});

test("the tree shows all branches, and keys select one", async () => {
  const page = await at.open();
  await say(page, "One");
  await say(page, "Two");
  await page.keyboard.press("Alt+KeyR");
  await page.waitForFunction(() => document.querySelectorAll(".assistant .place").length === 1);
  await waitForAnswer(page);
  await page.keyboard.press("Alt+KeyB");
  assert.equal(await page.locator(".tree-row").count(), 5);
  assert.equal(await page.locator(".tree svg circle").count(), 5);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Answer 3 to: Two");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  assert.equal(await answers(page).last().locator(".prose").innerText(), "Answer 2 to: Two");
  assert.equal(await page.locator("dialog[open]").count(), 0);
});

test("a reload shows the same conversation and branch", async () => {
  const page = await at.open();
  await say(page, "Keep me");
  await page.click(name("Another answer"));
  await page.waitForFunction(() => document.querySelector(".assistant .place")?.textContent === "2/2");
  await waitForAnswer(page);
  await page.click(name("Previous answer"));
  await page.waitForTimeout(200);
  await page.reload();
  await page.waitForSelector(".message.assistant");
  assert.equal(await answers(page).locator(".prose").innerText(), "Answer 1 to: Keep me");
  assert.equal(await place(answers(page)), "1/2");
  assert.match(await answers(page).locator(".figures").innerText(), /cached/);
});

test("a reload during an answer keeps its text", async () => {
  const page = await at.open();
  await page.fill("#message", "slow please");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => document.querySelector(".prose")?.textContent.length > 300);
  await page.reload();
  await page.waitForSelector(".message.assistant .note:not([hidden])");
  assert.match(await answers(page).locator(".note").innerText(), /page was closed/);
  assert.ok((await answers(page).locator(".prose").innerText()).length > 50);
});

test("conversations are listed, found, renamed, exported, deleted and imported", async () => {
  const page = await at.open({acceptDownloads: true});
  await say(page, "About apples");
  await page.click("#new");
  assert.equal(await page.locator(".message").count(), 0);
  await say(page, "About pears");
  assert.deepEqual(await page.locator(".conversation-title").allInnerTexts(), ["About pears", "About apples"]);
  await page.fill("#search", "APPLES answer");
  await page.waitForFunction(() => document.querySelectorAll(".conversation").length === 1);
  await page.click(".conversation");
  await page.waitForFunction(() => document.title.startsWith("About apples"));
  await page.fill("#search", "");
  await page.fill("#title", "Fruit");
  await page.press("#title", "Enter");
  await page.waitForFunction(() => [...document.querySelectorAll(".conversation-title")].some((n) => n.textContent === "Fruit"));

  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
  assert.equal(download.suggestedFilename(), "Fruit.ibid.json");
  const exported = JSON.parse(await readFile(await download.path(), "utf8"));
  assert.equal(exported.conversations[0].nodes.length, 2);

  await page.click("#delete");
  await page.click("#confirm-dialog button[value=no]");
  assert.equal(await page.locator(".message").count(), 2);
  await page.click("#delete");
  await page.click("#confirm-dialog button[value=yes]");
  await page.waitForFunction(() => document.querySelectorAll(".conversation").length === 1);

  await page.click("#open-settings");
  await page.setInputFiles("#import-file", await download.path());
  await page.waitForFunction(() => document.title.startsWith("Fruit"));
  assert.equal(await answers(page).locator(".prose").innerText(), "Answer 1 to: About apples");
  assert.equal(await page.locator(".conversation").count(), 2);
});

test("reasoning can be folded; tool calls and lost prefixes are shown", async () => {
  const page = await at.open();
  await say(page, "think about what was lost");
  assert.equal(await page.isVisible(".thought-text"), false);
  await page.click(".thought summary");
  assert.equal(await page.innerText(".thought-text"), "First I look at the question. Then I answer.");
  assert.equal(await page.innerText(".lost"),
    "17 tokens were read again, from your 1st message on (byte 120 of the prompt): the message was changed.");
  await say(page, "use a tool");
  assert.match(await page.innerText(".call"), /Calls look_up\s*\{"city": "Rome"\}/);
  await say(page, "next");
  assert.equal(at.server.requests[2].messages[3].tool_calls[0].function.arguments, "{\"city\": \"Rome\"}");
  assert.ok(!JSON.stringify(at.server.requests[2]).includes("First I look"));
});

test("requests contain system prompt, sampling, thinking and model", async () => {
  const page = await at.open();
  await page.click("#system-place summary");
  await page.fill("#system", "You are brief.");
  await page.click("#open-settings");
  await page.fill("#sampling-temperature", "0.3");
  await page.fill("#sampling-top_k", "7.5");
  await page.fill("#sampling-seed", "42");
  await page.selectOption("#effort", "low");
  await page.keyboard.press("Escape");
  await page.selectOption("#model", "other-model");
  await say(page, "Hello");
  const [request] = at.server.requests;
  assert.equal(request.model, "other-model");
  assert.deepEqual(request.messages[0], {role: "system", content: "You are brief."});
  assert.deepEqual([request.temperature, request.top_k, request.seed, request.reasoning_effort], [0.3, undefined, 42, "low"]);
  assert.equal(await page.getAttribute("#sampling-top_k", "aria-invalid"), "true");
  await page.reload();
  await page.waitForSelector(".message.assistant");
  assert.equal(await page.inputValue("#model"), "other-model");
  assert.equal(await page.inputValue("#sampling-temperature"), "0.3");
  assert.equal(await page.inputValue("#system"), "You are brief.");
});

test("two tabs of one conversation see each other's messages and lose none", async () => {
  const page = await at.open();
  await say(page, "Shared");
  const other = await page.context().newPage();
  watch(other);
  await other.goto(at.server.url);
  await other.click(".conversation");
  await other.waitForSelector(".message.assistant");
  await say(other, "From the other tab");
  await page.waitForFunction(() => document.querySelectorAll(".message.assistant").length === 2);
  await say(page, "From the first tab");
  await other.waitForFunction(() => document.querySelectorAll(".message.assistant").length === 3);
  assert.deepEqual(other.problems, []);
});
