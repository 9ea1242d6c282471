// Parses the content of a Markdown paragraph into a tree: text, code, emphasis, links. Creates no HTML, and keeps only
// http, https and mailto links.
//
// Time is linear in any text: unmatched brackets and asterisks are examined only once. Depth and number of nodes are
// bounded, because a page has to draw them.

const MAX_DEPTH = 16;
const MAX_NODES = 20000;  // limit for one paragraph; the rest of the paragraph is text
const MAX_ADDRESS = 2048;

const ENTITIES = new Map([["amp", "&"], ["lt", "<"], ["gt", ">"], ["quot", '"'], ["#39", "'"], ["nbsp", "\u00a0"]]);
const BLANK = /[\s\u00a0]/;
const PUNCTUATION = /[\p{P}\p{S}]/u;

// Returns the address if it is safe in a link, else null. It must not contain control characters or blanks. A relative
// address is not safe, because it would point into this page.
export function safeAddress(address) {
  if (address.length > MAX_ADDRESS || /[\u0000-\u0020\u007f-\u009f]/.test(address)) return null;
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return null;
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

// Returns the starts of the runs of backticks, by the length of the runs: a code span ends at the next run of the same
// length.
function backtickRuns(text) {
  const runs = new Map();
  for (const {0: run, index} of text.matchAll(/`+/g)) {
    if (!runs.has(run.length)) runs.set(run.length, {starts: [], next: 0});
    runs.get(run.length).starts.push(index);
  }
  return runs;
}

class InlineParser {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.items = [];  // nodes, and marks (runs of * _ ~, and "[") that may become nodes or text
    this.plain = "";       // text that is not yet a node
    this.brackets = [];    // indexes in items of "[" that are open
    this.runs = backtickRuns(text);
    this.budget = 4 * text.length + 10000;  // number of characters that may still be examined for addresses
  }

  parse() {
    while (this.at < this.text.length) {
      if (this.items.length > MAX_NODES) {
        this.plain += this.text.slice(this.at);
        break;
      }
      this.step();
    }
    this.endText();
    return joinEmphasis(this.items);
  }

  endText() {
    if (this.plain !== "") this.items.push({type: "text", text: this.plain});
    this.plain = "";
  }

  push(item, length) {
    this.endText();
    this.items.push(item);
    this.at += length;
  }

  take(length) {
    this.plain += this.text.slice(this.at, this.at + length);
    this.at += length;
  }

  step() {
    const {text, at} = this;
    switch (text[at]) {
      case "\\": return this.escape();
      case "`": return this.code();
      case "*": case "_": case "~": return this.emphasis();
      case "\n": return this.lineBreak();
      case "!": return this.take(1);  // shows an image as its text and a link, because nothing is fetched
      case "[":
        this.endText();
        this.brackets.push(this.items.length);
        return this.push({type: "mark", text: "["}, 1);
      case "]": return this.link();
      case "&": return this.entity();
      case "<": return this.angle();
      case "h": return this.bareAddress();
    }
    const next = text.slice(at + 1).search(/[\\`*_~\n![\]&<h]/);
    this.take(next < 0 ? text.length - at : next + 1);
  }

  escape() {
    const next = this.text[this.at + 1] ?? "";
    if (next === "\n") return this.push({type: "break"}, 2);
    if (!/[!-/:-@[-`{-~]/.test(next)) return this.take(1);
    this.at += 1;
    this.take(1);
  }

  lineBreak() {
    this.plain = this.plain.trimEnd();
    this.push({type: "break"}, 1);
  }

  code() {
    let length = 1;
    while (this.text[this.at + length] === "`") length += 1;
    const runs = this.runs.get(length);
    while (runs.next < runs.starts.length && runs.starts[runs.next] <= this.at) runs.next += 1;
    if (runs.next === runs.starts.length) return this.take(length);
    const end = runs.starts[runs.next];
    let inside = this.text.slice(this.at + length, end).replaceAll("\n", " ");
    if (inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "") inside = inside.slice(1, -1);
    this.push({type: "code", text: inside}, end + length - this.at);
  }

  emphasis() {
    const {text, at} = this;
    const sign = text[at];
    let count = 1;
    while (text[at + count] === sign) count += 1;
    const before = text[at - 1] ?? " ", after = text[at + count] ?? " ";
    const left = !BLANK.test(after) && (!PUNCTUATION.test(after) || BLANK.test(before) || PUNCTUATION.test(before));
    const right = !BLANK.test(before) && (!PUNCTUATION.test(before) || BLANK.test(after) || PUNCTUATION.test(after));
    const inWord = sign === "_" && left && right;  // an underscore inside a word is text, as in snake_case
    const counts = sign !== "~" || count === 2;
    this.push({
      type: "mark", text: sign, count,
      opens: counts && left && (!inWord || PUNCTUATION.test(before)),
      closes: counts && right && (!inWord || PUNCTUATION.test(after)),
    }, count);
  }

  entity() {
    const found = /^&([a-z]{2,4}|#39);/.exec(this.text.slice(this.at, this.at + 8));
    const sign = found && ENTITIES.get(found[1]);
    if (!sign) return this.take(1);
    this.plain += sign;
    this.at += found[0].length;
  }

  angle() {
    const found = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(this.text.slice(this.at, this.at + MAX_ADDRESS));
    const href = found && safeAddress(found[1]);
    if (!href) return this.take(1);
    this.push({type: "link", href, children: [{type: "text", text: found[1]}]}, found[0].length);
  }

  bareAddress() {
    const {text, at} = this;
    const begins = /^https?:\/\//.test(text.slice(at, at + 8)) && !/[\p{L}\p{N}]/u.test(text[at - 1] ?? " ");
    if (!begins || this.budget < 0) return this.take(1);
    let address = /^[^\s<>"`]+/.exec(text.slice(at, at + MAX_ADDRESS))[0];
    this.budget -= address.length;
    address = address.replace(/[.,;:!?'"*_~\]]{1,16}$/, "");
    if (address.endsWith(")") && !address.includes("(")) address = address.slice(0, -1);
    const href = safeAddress(address);
    if (!href) return this.take(1);
    this.push({type: "link", href, children: [{type: "text", text: address}]}, address.length);
  }

  link() {
    const open = this.brackets.pop();
    const target = open === undefined ? null : this.target();
    if (!target) return this.take(1);
    this.endText();
    const children = joinEmphasis(this.items.splice(open).slice(1));
    const href = safeAddress(target.address);
    // Show an unsafe address as text.
    if (href) this.items.push({type: "link", href, children, depth: depthOf(children) + 1});
    else this.items.push(...children, {type: "text", text: ` (${target.address})`});
    this.brackets = [];  // a link cannot contain a link
    this.at = target.end;
  }

  // Parses "(address)" or "(address "title")" after the "]" at `at`.
  target() {
    const {text} = this;
    if (text[this.at + 1] !== "(" || this.budget < 0) return null;
    let end = this.at + 2, depth = 0;
    const most = Math.min(text.length, end + MAX_ADDRESS);
    while (end < most && !BLANK.test(text[end]) && (depth > 0 || text[end] !== ")")) {
      if (text[end] === "(") depth += 1;
      if (text[end] === ")") depth -= 1;
      end += 1;
    }
    this.budget -= end - this.at;
    const address = text.slice(this.at + 2, end).replace(/^<(.*)>$/, "$1");
    const rest = /^[ \t]{0,9}(?:"[^"]{0,300}"|'[^']{0,300}')?[ \t]{0,9}\)/.exec(text.slice(end, end + 330));
    return rest && address !== "" ? {address, end: end + rest[0].length} : null;
  }
}

function depthOf(nodes) {
  return nodes.reduce((most, node) => Math.max(most, node.depth ?? 0), 0);
}

function asText(item) {
  return item.type === "mark" ? {type: "text", text: item.text.repeat(item.count ?? 1)} : item;
}

// Turns matching marks into nodes and other marks into text. A closing mark matches the last opening mark with the same
// sign. Counts open marks by sign, and searches for one only if there is one.
function joinEmphasis(items) {
  const out = [], openers = [], nOpen = {"*": 0, "_": 0, "~": 0};
  const close = (mark) => {
    while (mark.count > 0 && nOpen[mark.text] > 0) {
      let at = openers.pop();
      while (out[at].text !== mark.text) {
        nOpen[out[at].text] -= 1;
        at = openers.pop();
      }
      const opener = out[at];
      const used = Math.min(2, mark.count, opener.count);
      const children = out.splice(at + 1).map(asText);
      const depth = depthOf(children) + 1;
      if (depth > MAX_DEPTH || children.length === 0) {
        // The node would have no children, or more than MAX_DEPTH levels. Marks that opened earlier enclose the same
        // children, so their nodes would have too many levels as well: all open marks become text.
        out.push(...children);
        openers.length = 0;
        for (const sign in nOpen) nOpen[sign] = 0;
        return;
      }
      const type = mark.text === "~" ? "struck" : used === 2 ? "strong" : "emphasis";
      opener.count -= used;
      mark.count -= used;
      if (opener.count > 0) {
        openers.push(at);
      } else {
        out.pop();
        nOpen[mark.text] -= 1;
      }
      out.push({type, children, depth});
    }
  };
  for (const item of items) {
    if (item.type === "mark" && item.closes) close(item);
    if (item.type !== "mark") {
      out.push(item);
    } else if (item.opens && item.count > 0) {
      openers.push(out.length);
      nOpen[item.text] += 1;
      out.push(item);
    } else if (item.count !== 0) {
      out.push(asText(item));
    }
  }
  return out.map(asText);
}

export function parseInline(text) {
  return new InlineParser(text).parse();
}
