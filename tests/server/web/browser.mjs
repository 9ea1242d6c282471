// A headless Chromium for the tests of the page, driven by playwright-core. If one of them is missing, exits with 77,
// which ctest counts as skipped, and prints what to install.

import {existsSync} from "node:fs";
import {createRequire} from "node:module";

const CHROMIUM = process.env.IBID_CHROMIUM ?? "/usr/bin/chromium";

function skip(why) {
  console.log(`SKIPPED: ${why}`);
  process.exit(77);
}

function loadPlaywright() {
  try {
    return createRequire(import.meta.url)("playwright-core");  // looks in NODE_PATH as well
  } catch {
    return skip("playwright-core is missing: npm install --prefix build/page_tools playwright-core");
  }
}

export async function launchBrowser() {
  const {chromium} = loadPlaywright();
  if (!existsSync(CHROMIUM)) skip(`${CHROMIUM} is missing: apt-get install chromium`);
  // The pages come only from this machine; as root, Chromium has no sandbox.
  const args = ["--host-resolver-rules=MAP other.machine 127.0.0.1"];
  if (process.getuid() === 0) args.push("--no-sandbox");
  return chromium.launch({executablePath: CHROMIUM, args});
}

// A page in a context of its own, which records errors and requests.
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({viewport: {width: 1180, height: 760}, ...options});
  const page = await context.newPage();
  watch(page);
  await page.goto(url);
  return page;
}

export function watch(page) {
  page.problems = [];
  page.asked = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => {
    // The browser itself reports 4xx responses, which some tests expect.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      page.problems.push(message.text());
    }
  });
  page.on("request", (request) => page.asked.push(request.url()));
}

export const answers = (page) => page.locator(".message.assistant");
export const questions = (page) => page.locator(".message.user");

// Waits until the last answer has ended.
export async function waitForAnswer(page) {
  await page.waitForFunction(() => {
    const all = document.querySelectorAll(".message.assistant");
    return all.length > 0 && all[all.length - 1].getAttribute("aria-busy") === "false" &&
      !document.querySelector(".send").classList.contains("stop");
  }, null, {timeout: 120000});
}

export async function say(page, text) {
  await page.fill("#message", text);
  await page.press("#message", "Enter");
  await page.waitForSelector(".send.stop, .message.assistant:last-child[aria-busy=false]");
  await waitForAnswer(page);
}

// Every interactive element as a screen reader gets it: [{role, name}].
export async function accessibleNames(page) {
  const session = await page.context().newCDPSession(page);
  const {nodes} = await session.send("Accessibility.getFullAXTree");
  const roles = new Set(["button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "spinbutton", "dialog",
                         "alertdialog", "navigation", "region", "meter", "main", "heading", "image", "img", "DisclosureTriangle"]);
  return nodes.filter((node) => !node.ignored && roles.has(node.role?.value))
    .map((node) => ({role: node.role.value, name: (node.name?.value ?? "").trim()}));
}

// The accessibility problems of the page, as sentences.
export async function accessibilityProblems(page) {
  const named = (await accessibleNames(page)).filter(({role, name}) => name === "" && role !== "main")
    .map(({role}) => `a ${role} without a name`);
  const structure = await page.evaluate(() => {
    const problems = [];
    const visible = (node) => node.checkVisibility({visibilityProperty: true, opacityProperty: false});
    const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
    for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) problems.push(`two elements #${id}`);
    for (const node of document.querySelectorAll("[aria-controls], [aria-labelledby], [aria-describedby]")) {
      for (const name of ["aria-controls", "aria-labelledby", "aria-describedby"]) {
        const id = node.getAttribute(name);
        if (id && !document.getElementById(id)) problems.push(`${name}=${id} leads nowhere`);
      }
    }
    if (document.documentElement.lang === "") problems.push("no language");
    if (document.querySelectorAll("main").length !== 1) problems.push("not one main");
    if ([...document.querySelectorAll("h1")].length !== 1) problems.push("not one h1");
    for (const node of document.querySelectorAll("button button, a button, button a")) problems.push(`nested ${node.tagName}`);
    for (const node of document.querySelectorAll("svg")) {
      if (node.getAttribute("aria-hidden") !== "true") problems.push("an svg that is not hidden");
    }

    if ([...document.querySelectorAll(".message h1, .message h2, .prose h3")].length > 0) {
      problems.push("a heading in a message that is not below the message's own");
    }

    // Contrast of text against its background: WCAG 2.2, 1.4.3.
    const channels = (color) => {
      const canvas = new OffscreenCanvas(1, 1).getContext("2d");
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (node) => {
      for (let each = node; each; each = each.parentElement) {
        const color = channels(getComputedStyle(each).backgroundColor);
        if (color[3] === 255) return color;
      }
      return [255, 255, 255];
    };
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    // Contrast of the border of a field: 1.4.11. A field without a border is visible by its text.
    for (const node of document.querySelectorAll("input, select, textarea, .composer")) {
      const {borderTopColor, borderTopWidth} = getComputedStyle(node);
      const edge = channels(borderTopColor);
      if (!visible(node) || node.disabled || borderTopWidth === "0px" || edge[3] < 255) continue;
      if (["checkbox", "radio"].includes(node.type)) continue;  // the browser draws them
      const ratio = contrast(luminance(edge), luminance(behind(node.parentElement)));
      if (ratio < 3) problems.push(`${node.tagName.toLowerCase()}#${node.id}: contrast of its edge ${ratio.toFixed(2)}`);
    }
    const seen = new Set();
    for (const node of document.querySelectorAll("body *")) {
      const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim() !== "");
      if (!hasText || !visible(node) || node.closest("[disabled], .hidden, noscript, option")) continue;
      const {color} = getComputedStyle(node);
      const a = luminance(channels(color)), b = luminance(behind(node));
      const ratio = contrast(a, b);
      const what = `${node.tagName.toLowerCase()}.${node.className}: contrast ${ratio.toFixed(2)}`;
      if (ratio < 4.5 && !seen.has(what)) {
        seen.add(what);
        problems.push(what);
      }
    }
    return problems;
  });
  return [...named, ...structure];
}

// The elements that are wider than the window, if the page scrolls sideways.
export function sidewaysScroll(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width && document.body.scrollWidth <= width) return [];
    return [...document.querySelectorAll("body *")].filter((node) => node.getBoundingClientRect().right > width + 1)
      .map((node) => `${node.tagName}.${node.className}`).slice(0, 10);
  });
}
