// The trees of markdown.js: the meaning of Markdown, hostile text that stays text, and linear time for any text.
import assert from "node:assert/strict";
import test from "node:test";

import {colorCode} from "../../../server/web/code_colors.js";
import {parseMarkdown} from "../../../server/web/markdown.js";
import {parseInline, safeAddress} from "../../../server/web/markdown_inline.js";

// A short form of the tree: a paragraph is its content, emphasis *..*, strong **..**, links [..](address).
function brief(nodes) {
  return nodes.map((node) => {
    switch (node.type) {
      case "text": return node.text;
      case "code": return `\`${node.text}\``;
      case "break": return "\n";
      case "emphasis": return `<em>${brief(node.children)}</em>`;
      case "strong": return `<strong>${brief(node.children)}</strong>`;
      case "struck": return `<del>${brief(node.children)}</del>`;
      default: return `<a ${node.href}>${brief(node.children)}</a>`;
    }
  }).join("");
}

const inline = (text) => brief(parseInline(text));
const types = (text) => parseMarkdown(text).map((block) => block.type);

function everyNode(nodes, visit) {
  const waiting = [...nodes];
  while (waiting.length > 0) {
    const node = waiting.pop();
    visit(node);
    waiting.push(...(node.children ?? []));
    for (const item of node.items ?? []) waiting.push(...item.children);
    for (const row of [node.head ?? [], ...(node.rows ?? [])]) for (const cell of row) waiting.push(...cell);
  }
}

test("emphasis nests and ends correctly, and ignores underscores in words", () => {
  assert.equal(inline("a *b* **c *d* e** ~~f~~"), "a <em>b</em> <strong>c <em>d</em> e</strong> <del>f</del>");
  assert.equal(inline("***both***"), "<em><strong>both</strong></em>");
  assert.equal(inline("snake_case_name and 2 * 3 * 4"), "snake_case_name and 2 * 3 * 4");
  assert.equal(inline("**open and *closed*"), "**open and <em>closed</em>");
  assert.equal(inline("~one~ \\*kept\\*"), "~one~ *kept*");
});

test("a code span contains anything, and ends at a run of the same length", () => {
  assert.equal(inline("`` a ` b `` and `c*d*`"), "`a ` b` and `c*d*`");
  assert.equal(inline("`open *x*"), "`open <em>x</em>");
});

test("links are limited to http, https and mailto", () => {
  assert.equal(inline("[a *b*](https://e.org/x_(y) \"title\")"), "<a https://e.org/x_(y)>a <em>b</em></a>");
  assert.equal(inline("see https://e.org/a?b=c, or <mailto:a@e.org>."),
    "see <a https://e.org/a?b=c>https://e.org/a?b=c</a>, or <a mailto:a@e.org>mailto:a@e.org</a>.");
  assert.equal(inline("![alt](https://e.org/i.png)"), "!<a https://e.org/i.png>alt</a>");
  for (const address of ["javascript:alert(1)", "JavaScript:x", "data:text/html,x", "/v1/models", "//e.org", "file:///x",
                         "vbscript:x", "https:e.org", "java\tscript:x", "https://e.org/\u0000", "https://[", "blob:x"]) {
    assert.equal(safeAddress(address), null, address);
    everyNode(parseInline(`[x](${address}) <${address}>`), (node) => assert.notEqual(node.type, "link", address));
  }
});

test("a link contains no link", () => {
  assert.equal(inline("[a [b](https://e.org/1) c](https://e.org/2)"), "[a <a https://e.org/1>b</a> c](" +
    "<a https://e.org/2>https://e.org/2</a>)");
});

test("HTML is text", () => {
  assert.equal(inline("<b onclick=x>&lt;i&gt; &amp;copy;</b>"), "<b onclick=x><i> &copy;</b>");
  assert.deepEqual(types("<script>\nalert(1)\n</script>"), ["paragraph"]);
});

test("blocks are recognised", () => {
  assert.deepEqual(types("# a\n\ntext\ngoes on\n\n---\n> quote\n\n1. one\n2. two\n\n```js\ncode\n```\n"),
    ["heading", "paragraph", "rule", "quote", "list", "code"]);
  assert.deepEqual(types("not|a table\nbecause"), ["paragraph"]);
  assert.equal(parseMarkdown("####### seven")[0].type, "paragraph");
  assert.equal(parseMarkdown("## two ##")[0].children[0].text, "two");
});

test("lists nest, have a start number and tasks", () => {
  const [list] = parseMarkdown("3. a\n   - [x] b\n   - [ ] c\n4. d\n   goes on");
  assert.equal(list.start, 3);
  assert.equal(list.items.length, 2);
  assert.equal(list.loose, false);
  const inner = list.items[0].children[1];
  assert.deepEqual(inner.items.map((item) => item.checked), [true, false]);
  assert.equal(parseMarkdown("- a\n\n- b")[0].loose, true);
  assert.deepEqual(types("- a\n\ntext"), ["list", "paragraph"]);
});

test("a table has the columns of its head", () => {
  const [table] = parseMarkdown("| a | b |\n|:--|--:|\n| `x|y` | 2 | 3 |\n| 4 |");
  assert.deepEqual(table.alignments, ["left", "right"]);
  assert.deepEqual(table.rows.map((row) => row.map(brief)), [["`x|y`", "2"], ["4", ""]]);
});

test("an unclosed fence is code", () => {
  const [code] = parseMarkdown("```py\nx = 1");
  assert.deepEqual([code.type, code.language, code.text, code.isOpen], ["code", "py", "x = 1", true]);
  assert.equal(parseMarkdown("```py\nx = 1\n```")[0].isOpen, false);
});

test("a growing text keeps its blocks except the last", () => {
  const text = "# a\n\n- b\n- c\n\n```\nd\n```\n\ne *f*\n\n| g | h |\n|---|---|\n| 1 | 2 |\n";
  for (let n = 1; n < text.length; n += 1) {
    const before = parseMarkdown(text.slice(0, n)), after = parseMarkdown(text.slice(0, n + 1));
    for (let i = 0; i + 2 < before.length; i += 1) assert.equal(after[i].source, before[i].source);
  }
});

test("depth is bounded", () => {
  const deep = ["> ".repeat(5000), "- ".repeat(5000), "*_".repeat(5000) + "a" + "_*".repeat(5000), "[".repeat(5000)];
  for (const text of deep) {
    let depth = 0;
    const measure = (nodes, level) => {
      depth = Math.max(depth, level);
      for (const node of nodes) {
        measure(node.children ?? [], level + 1);
        for (const item of node.items ?? []) measure(item.children, level + 1);
      }
    };
    measure(parseMarkdown(text), 1);
    assert.ok(depth < 60, `${text.slice(0, 10)}: ${depth}`);
  }
});

// Without timing: a parser of quadratic time would take minutes here.
test("any text of 300,000 characters is parsed in time", {timeout: 120000}, () => {
  const pieces = ["*", "_", "`", "[", "](", "[](", "![", "*a ", "**a** ", "*a _b ", "_* ", "~~a", "> ", "- ", "1. a\n   ",
                  "|", "|-", "#", " ", "\n", "- a\n\n", "```\n", "&", "<http://", "https://\u0001", "a``", "\\", "\t", "![](x"];
  for (const piece of pieces) {
    const text = piece.repeat(Math.ceil(3e5 / piece.length));
    assert.ok(Array.isArray(parseMarkdown(text)), piece);
    assert.ok(Array.isArray(parseMarkdown(`# ${text}x`)), piece);
  }
  assert.ok(parseMarkdown(`${"|".repeat(1000)}\n${"|-".repeat(1000)}`).length > 0);
});

test("no character of plain text is lost", () => {
  let seed = 7;
  const next = (n) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % n;
  };
  const signs = "ab *_`[]()!~<>&\\#-\n";
  for (let round = 0; round < 3000; round += 1) {
    const text = Array.from({length: 1 + next(30)}, () => signs[next(signs.length)]).join("");
    let letters = "";
    everyNode(parseMarkdown(text), (node) => {
      letters += [...(node.text ?? ""), ...(node.href ?? "")].filter((c) => c === "a" || c === "b").join("");
    });
    // The language of a fence is shown too, so texts with fences are skipped.
    if (/[`~]{3}/.test(text)) continue;
    const all = (from) => [...from].filter((c) => c === "a" || c === "b").length;
    assert.equal(letters.length, all(text), JSON.stringify(text));
  }
});

test("coloured parts together are the text", () => {
  const text = "def f(x):  # why\n    return \"a\\\"b\" + 'c' + str(0x1f)\n";
  const parts = colorCode(text, "python");
  assert.equal(parts.map((part) => part.text).join(""), text);
  assert.deepEqual(parts.filter((part) => part.kind === "comment").map((part) => part.text), ["# why"]);
  assert.deepEqual(parts.filter((part) => part.kind === "word").map((part) => part.text), ["def", "return"]);
  assert.deepEqual(parts.filter((part) => part.kind === "string").map((part) => part.text), ["\"a\\\"b\"", "'c'"]);
  for (const open of ["\"", "/*", "`", "'\\"]) {
    const long = open.repeat(20000);
    assert.equal(colorCode(long, "js").map((part) => part.text).join(""), long);
  }
});
