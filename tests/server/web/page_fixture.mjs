// A mock server and a page for each test. After each test, the page must have no errors and no requests to other
// servers.
import assert from "node:assert/strict";
import {after, afterEach, beforeEach} from "node:test";

import {launchBrowser, openPage} from "./browser.mjs";
import {MockServer} from "./mock_server.mjs";

export async function setUp() {
  const browser = await launchBrowser();
  const at = {
    server: null,
    page: null,
    async startServer(options) {
      at.server?.close();
      at.server = new MockServer(options);
      await at.server.listen();
    },
    async open(options) {
      at.page = await openPage(browser, at.server.url, options);
      return at.page;
    },
  };
  beforeEach(() => at.startServer());
  afterEach(async () => {
    const {page, server} = at;
    await page.context().close();
    server.close();
    assert.deepEqual(page.problems, []);
    for (const url of page.asked) assert.ok(url.startsWith(server.url) || url.startsWith("blob:"), url);
  });
  after(() => browser.close());
  return at;
}

export const name = (label) => `[aria-label="${label}"]`;
