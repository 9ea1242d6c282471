// The page with the real server and the default model: the figures below an answer are right, and stopping works.
// Skipped if the program, the model or the browser is missing.
//   IBID_PROGRAM: the program. IBID_SERVE_OPTIONS: more of its options, such as --threads 1.
//   IBID_SCREENSHOTS: a folder that pictures of the page are written to.
import assert from "node:assert/strict";
import {spawn} from "node:child_process";
import {existsSync} from "node:fs";
import {homedir} from "node:os";
import {join} from "node:path";
import test, {after, afterEach, beforeEach} from "node:test";

import {accessibilityProblems, answers, launchBrowser, openPage, questions, say, sidewaysScroll, waitForAnswer}
  from "./browser.mjs";

const PROGRAM = process.env.IBID_PROGRAM ?? "";
const MODELS = process.env.IBID_MODELS || join(process.env.XDG_DATA_HOME || join(homedir(), ".local/share"), "ibid/models");
const MODEL = join(MODELS, "SmolLM2-135M-Instruct.Q4_1.gguf");
for (const [what, path] of [["the program (IBID_PROGRAM)", PROGRAM], ["the default model", MODEL]]) {
  if (path !== "" && existsSync(path)) continue;
  console.log(`SKIPPED: ${what} is missing: ${path}`);
  process.exit(77);
}
const browser = await launchBrowser();

async function startServer() {
  const options = (process.env.IBID_SERVE_OPTIONS ?? "").split(" ").filter((option) => option !== "");
  const process_ = spawn(PROGRAM, ["serve", MODEL, "--port", "0", ...options], {stdio: ["ignore", "ignore", "pipe"]});
  let said = "";
  const url = await new Promise((resolve, reject) => {
    process_.stderr.on("data", (part) => {
      said += part;
      const found = /on (http:\/\/\S+)/.exec(said);
      if (found && /ready/.test(said)) resolve(found[1]);
    });
    process_.on("exit", () => reject(new Error(`the server ended: ${said}`)));
  });
  return {url, end: () => process_.kill("SIGTERM")};
}

const server = await startServer();
let page;

// Always the same texts: tokens are compared, and pictures should not vary.
beforeEach(async () => {
  page = await openPage(browser, server.url, {acceptDownloads: true});
  await useSettings(48);
});

async function useSettings(longestAnswer) {
  const settings = {sampling: {temperature: 0.2, seed: 1, max_completion_tokens: longestAnswer}};
  await page.evaluate((text) => localStorage.setItem("ibid.settings", text), JSON.stringify(settings));
  await page.reload();
  await page.waitForFunction(() => document.getElementById("model").value !== "");
}

afterEach(async () => {
  assert.deepEqual(page.problems, []);
  for (const url of page.asked) assert.ok(url.startsWith(server.url) || url.startsWith("blob:"), url);
  await page.context().close();
});
after(async () => {
  await browser.close();
  server.end();
});

// The figures {cached, new, written ...} of an answer on the page.
async function figures(answer) {
  const found = {};
  for (const [, value, name] of (await answer.locator(".figures").innerText()).matchAll(/([\d,]+)\s+(cached|new|written)/g)) {
    found[name] = Number(value.replaceAll(",", ""));
  }
  return found;
}

async function picture(name, of = page) {
  if (process.env.IBID_SCREENSHOTS) await of.screenshot({path: join(process.env.IBID_SCREENSHOTS, `page_${name}.png`)});
}

const label = (text) => `[aria-label="${text}"]`;
const changedAnswer = async (count) => {
  await page.waitForFunction((n) => [...document.querySelectorAll(".assistant .place")].at(-1)?.textContent === n, count);
  await waitForAnswer(page);
};

test("a second turn prefills only its own message", {timeout: 300000}, async () => {
  await useSettings(150);
  await say(page, "Why is the sky blue? Answer in two sentences.");
  const first = await figures(answers(page).last());
  assert.ok(first.new > 10 && first.written > 5, JSON.stringify(first));
  await say(page, "Say that to a child.");
  const second = await figures(answers(page).last());
  // All of the first turn, perhaps except its last token; and the new message with the template's text around it.
  assert.ok(second.cached >= first.cached + first.new + first.written - 1, JSON.stringify({first, second}));
  assert.ok(second.new <= 24, JSON.stringify(second));
  assert.equal(await page.locator(".lost").count(), 0);
  await picture("chat");
});

test("regenerating prefills nothing, and an edit only the change", {timeout: 300000}, async () => {
  await say(page, "Name three rivers of Europe.");
  const first = await figures(answers(page).last());
  await page.click(label("Another answer"));
  await changedAnswer("2/2");
  const again = await figures(answers(page).last());
  assert.equal(again.cached + again.new, first.cached + first.new);
  assert.ok(again.new <= 1, JSON.stringify(again));

  await say(page, "And three of Asia.");
  await questions(page).last().locator(label("Edit this message")).click();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("And three of Africa.");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => [...document.querySelectorAll(".user .place")].at(-1)?.textContent === "2/2");
  await waitForAnswer(page);
  const edited = await figures(answers(page).last());
  assert.ok(edited.cached >= again.cached + again.new, JSON.stringify({again, edited}));
  assert.ok(edited.new <= 24, JSON.stringify(edited));
  await page.click("#open-tree");
  assert.equal(await page.locator(".tree-row").count(), 7);
  await page.evaluate(() => document.activeElement.blur());
  await picture("branches");
});

test("stopping stops the server, and the conversation can be continued", {timeout: 300000}, async () => {
  await page.click("#open-settings");
  await page.fill("#sampling-max_completion_tokens", "4000");
  await page.keyboard.press("Escape");
  await page.fill("#message", "Write a very long story about a lighthouse, with many chapters.");
  await page.press("#message", "Enter");
  await page.waitForFunction(() => document.querySelector(".prose")?.textContent.length > 40);
  await page.keyboard.press("Escape");
  await waitForAnswer(page);
  assert.equal(await page.innerText(".assistant .note"), "Stopped.");
  await page.waitForFunction(async () => (await (await fetch("/monitor.json")).json()).answers.running === 0, null, {timeout: 10000});
  await page.click("#open-settings");
  await page.fill("#sampling-max_completion_tokens", "40");
  await page.keyboard.press("Escape");
  await say(page, "Thank you. Stop there.");
  assert.equal(await answers(page).count(), 2);
});

test("a reload and an import give a conversation that can be continued", {timeout: 300000}, async () => {
  await say(page, "Hello, my name is Ada.");
  const first = await figures(answers(page).last());
  await page.reload();
  await page.waitForSelector(".message.assistant");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
  await page.setInputFiles("#import-file", await download.path());
  await page.waitForFunction(() => document.querySelectorAll(".conversation").length === 2);
  await say(page, "What is my name?");
  const second = await figures(answers(page).last());
  assert.ok(second.cached >= first.cached + first.new + first.written - 1, JSON.stringify({first, second}));
});

test("errors of the server are shown with its message", {timeout: 300000}, async () => {
  await page.fill("#message", "word ".repeat(12000));
  await page.press("#message", "Enter");
  await page.waitForSelector(".note.error");
  assert.match(await page.innerText(".note.error"), /\d/);
});

test("the monitor shows the figures, and the page fits a phone", {timeout: 300000}, async () => {
  const monitor = await page.context().newPage();
  await monitor.setViewportSize({width: 1180, height: 900});
  await monitor.goto(`${server.url}/monitor`);
  await useSettings(100);
  await say(page, "Write a short function in Python that adds two numbers, and explain it.");
  await page.setViewportSize({width: 360, height: 700});
  assert.deepEqual(await sidewaysScroll(page), []);
  assert.deepEqual(await accessibilityProblems(page), []);
  await page.emulateMedia({colorScheme: "dark"});
  await picture("narrow_dark");
  await monitor.waitForTimeout(4000);
  const figure = async (name) => Number((await monitor.locator(".card", {has: monitor.locator(`h2:text-is("${name}")`)})
    .locator(".value").innerText()).replace(/[^\d.]/g, ""));
  assert.ok(await figure("Tokens reused") > 0);
  assert.ok(await figure("Tokens written") > 0);
  assert.ok(await figure("Passes") > 0);
  assert.deepEqual(await accessibilityProblems(monitor), []);
  await picture("monitor", monitor);
});
