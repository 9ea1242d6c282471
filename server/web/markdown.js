// Parses Markdown into a tree of blocks: the parts of CommonMark that models write, with tables, strikethrough and task
// lists. HTML is treated as text. markdown_view.js draws the tree; markdown_inline.js parses the content of paragraphs.
//
// Time is linear in the text for a given depth. Depth and number of blocks are limited, because the text is untrusted.
//
// A block: {type: "paragraph" | "heading" | "code" | "quote" | "list" | "table" | "rule", source, ...}. `source` is the
// text of a top-level block. Equal text gives an equal block, so a page need not redraw such a block.

import {parseInline} from "./markdown_inline.js";

const MAX_DEPTH = 12;
const MAX_BLOCKS = 10000;  // limit for one message; the rest of the message becomes one block of plain text
const MAX_COLUMNS = 50;

function indentOf(line) {
  let n = 0;
  while (line[n] === " ") n += 1;
  return n;
}

function isBlank(line) {
  return line.trim() === "";
}

// True for a horizontal rule: "---", "* * *".
function isRule(line) {
  if (indentOf(line) > 3) return false;
  const signs = line.replaceAll(/[ \t]/g, "");
  return signs.length >= 3 && "-*_".includes(signs[0]) && signs === signs[0].repeat(signs.length);
}

function fenceOf(line) {
  const found = /^( {0,3})(`{3,}|~{3,})[ \t]*(.*)$/s.exec(line);
  if (!found || (found[2][0] === "`" && found[3].includes("`"))) return null;
  return {indent: found[1].length, sign: found[2][0], length: found[2].length,
          language: found[3].trim().split(/\s/)[0].slice(0, 40)};
}

function closesFence(line, fence) {
  const signs = line.trim();
  return indentOf(line) <= 3 && signs.length >= fence.length && signs === fence.sign.repeat(signs.length);
}

function headingOf(line) {
  const found = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/s.exec(line);
  if (!found) return null;
  const text = (found[2] ?? "").trimEnd();
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  const isClosed = end < text.length && /[ \t]/.test(text[end - 1] ?? " ");  // as in "## Heading ##"
  return {level: found[1].length, text: (isClosed ? text.slice(0, end) : text).trim()};
}

function itemOf(line) {
  const found = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( {1,4})(?=\S)| *$|( ))/.exec(line);
  if (!found || isRule(line)) return null;
  const marker = found[2], ordered = marker.length > 1;
  return {
    ordered, kind: marker.at(-1), start: ordered ? Number.parseInt(marker, 10) : 1,
    width: found[1].length + marker.length + (found[3]?.length ?? 1), isEmpty: isBlank(line.slice(found[0].length)),
  };
}

function cellsOf(line) {
  const cells = [];
  let cell = "", code = false;
  for (let i = 0; i < line.length; i += 1) {
    if (line[i] === "\\" && line[i + 1] === "|") {
      cell += "|";
      i += 1;
    } else if (line[i] === "|" && !code) {
      cells.push(cell.trim());
      cell = "";
    } else {
      if (line[i] === "`") code = !code;
      cell += line[i];
    }
  }
  cells.push(cell.trim());
  if (cells[0] === "") cells.shift();
  if (cells.at(-1) === "") cells.pop();
  return cells;
}

// Returns the alignments in a delimiter row of a table, "|---|:-:|"; null for any other line.
function alignmentsOf(line) {
  if (!line.includes("-") || !line.includes("|") || !/^[ \t|:-]+$/.test(line)) return null;
  const cells = cellsOf(line.trim());
  if (cells.length > MAX_COLUMNS || !cells.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return cells.map((cell) => {
    const left = cell.startsWith(":"), right = cell.endsWith(":");
    return left && right ? "center" : right ? "right" : "left";
  });
}

class BlockParser {
  constructor(lines, depth, room) {
    this.lines = lines;
    this.depth = depth;
    this.room = room;  // {blocks: number of blocks that may still be added}
    this.at = 0;
  }

  parse() {
    const blocks = [];
    while (this.at < this.lines.length) {
      if (isBlank(this.lines[this.at])) {
        this.at += 1;
        continue;
      }
      const begin = this.at;
      this.room.blocks -= 1;
      const block = this.room.blocks < 0 ? this.rest() : this.block();
      block.source = this.depth === 0 ? this.lines.slice(begin, this.at).join("\n") : "";
      blocks.push(block);
    }
    return blocks;
  }

  // Returns all remaining text, unparsed.
  rest() {
    const text = this.lines.slice(this.at).join("\n");
    this.at = this.lines.length;
    return {type: "code", language: "", text, isOpen: false};
  }

  block() {
    const line = this.lines[this.at];
    const fence = fenceOf(line);
    if (fence) return this.fenced(fence);
    if (indentOf(line) >= 4) return this.indented();
    const heading = headingOf(line);
    if (heading) {
      this.at += 1;
      return {type: "heading", level: heading.level, children: parseInline(heading.text)};
    }
    if (isRule(line)) {
      this.at += 1;
      return {type: "rule"};
    }
    if (this.depth < MAX_DEPTH) {
      if (/^ {0,3}>/.test(line)) return this.quote();
      if (itemOf(line)) return this.list();
    }
    return this.table() ?? this.paragraph();
  }

  fenced(fence) {
    const body = [];
    let isOpen = true;
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      if (closesFence(this.lines[this.at], fence)) {
        this.at += 1;
        isOpen = false;
        break;
      }
      const line = this.lines[this.at];
      body.push(line.slice(Math.min(fence.indent, indentOf(line))));
    }
    return {type: "code", language: fence.language, text: body.join("\n"), isOpen};
  }

  indented() {
    const body = [];
    while (this.at < this.lines.length && (indentOf(this.lines[this.at]) >= 4 || isBlank(this.lines[this.at]))) {
      body.push(this.lines[this.at].slice(4));
      this.at += 1;
    }
    while (body.length > 0 && isBlank(body.at(-1))) body.pop();
    return {type: "code", language: "", text: body.join("\n"), isOpen: false};
  }

  inside(lines) {
    return new BlockParser(lines, this.depth + 1, this.room).parse();
  }

  quote() {
    const body = [];
    while (this.at < this.lines.length && /^ {0,3}>/.test(this.lines[this.at])) {
      body.push(this.lines[this.at].replace(/^ {0,3}> ?/, ""));
      this.at += 1;
    }
    return {type: "quote", children: this.inside(body)};
  }

  list() {
    const first = itemOf(this.lines[this.at]);
    const items = [];
    let loose = false;
    for (;;) {
      const item = this.at < this.lines.length ? itemOf(this.lines[this.at]) : null;
      if (!item || item.ordered !== first.ordered || item.kind !== first.kind) break;
      const {body, blankInside, blankBehind} = this.itemLines(item);
      items.push(body);
      const next = this.at < this.lines.length ? itemOf(this.lines[this.at]) : null;
      const goesOn = next && next.ordered === first.ordered && next.kind === first.kind;
      loose ||= blankInside || (blankBehind && Boolean(goesOn));
    }
    const {ordered, start} = first;
    return {type: "list", ordered, start, loose, items: items.map((body) => this.item(body))};
  }

  // Returns the lines of one list item without its indentation: the lines that are indented like its text, and lazy
  // continuation lines of its paragraph.
  itemLines(item) {
    const body = [this.lines[this.at].slice(item.width)];
    let blanks = 0, blankInside = false;
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const line = this.lines[this.at];
      if (isBlank(line)) {
        blanks += 1;
        continue;
      }
      const indent = indentOf(line);
      const belongs = indent >= item.width || (blanks === 0 && !this.begins(line));
      if (!belongs) break;
      if (blanks > 0) blankInside = true;
      for (; blanks > 0; blanks -= 1) body.push("");
      body.push(line.slice(Math.min(indent, item.width)));
    }
    return {body, blankInside, blankBehind: blanks > 0};
  }

  item(body) {
    const task = /^\[([ xX])\] /.exec(body[0]);
    if (task) body[0] = body[0].slice(4);
    return {checked: task ? task[1] !== " " : null, children: this.inside(body)};
  }

  // True if a line starts a block even directly after a paragraph.
  begins(line) {
    const item = itemOf(line);
    return fenceOf(line) !== null || headingOf(line) !== null || isRule(line) || /^ {0,3}>/.test(line) ||
      (item !== null && !item.isEmpty);
  }

  table() {
    const line = this.lines[this.at];
    const next = this.lines[this.at + 1];
    const alignments = line.includes("|") && next !== undefined ? alignmentsOf(next) : null;
    if (!alignments) return null;
    const head = cellsOf(line.trim());
    if (head.length !== alignments.length) return null;
    const rows = [];
    for (this.at += 2; this.at < this.lines.length; this.at += 1) {
      const row = this.lines[this.at];
      if (isBlank(row) || this.begins(row)) break;
      const cells = cellsOf(row.trim());
      this.room.blocks -= 1;
      rows.push(alignments.map((_, i) => parseInline(cells[i] ?? "")));
      if (this.room.blocks < 0) {
        this.at += 1;
        break;
      }
    }
    return {type: "table", alignments, head: head.map(parseInline), rows};
  }

  paragraph() {
    const begin = this.at;
    for (this.at += 1; this.at < this.lines.length; this.at += 1) {
      const line = this.lines[this.at];
      if (isBlank(line) || (this.depth < MAX_DEPTH && this.begins(line))) break;
    }
    const lines = this.lines.slice(begin, this.at).map((line) => line.trimStart());
    return {type: "paragraph", children: parseInline(lines.join("\n").trimEnd())};
  }
}

export function parseMarkdown(text) {
  const lines = text.replace(/\r\n?/g, "\n").replaceAll("\u0000", "\ufffd").split("\n")
    .map((line) => line.replace(/^[ \t]+/, (blanks) => blanks.replaceAll("\t", "    ")));
  return new BlockParser(lines, 0, {blocks: MAX_BLOCKS}).parse();
}
