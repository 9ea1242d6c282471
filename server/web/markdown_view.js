// Draws the tree of markdown.js with elements and text nodes. No HTML is parsed, and no image is fetched. The only
// attribute with text from a model is the address of a link, which is checked.

import {colorCode} from "./code_colors.js";
import {element} from "./elements.js";
import {parseMarkdown} from "./markdown.js";
import {patchChildren} from "./patch.js";

const TAGS = {strong: "strong", emphasis: "em", struck: "del"};

function inlineNodes(items) {
  return items.map((item) => {
    switch (item.type) {
      case "text": return document.createTextNode(item.text);
      case "code": return element("code", {}, item.text);
      case "break": return element("br");
      case "link":
        return element("a", {href: item.href, rel: "noopener noreferrer", target: "_blank", title: item.href},
          inlineNodes(item.children));
      default: return element(TAGS[item.type], {}, inlineNodes(item.children));
    }
  });
}

// Copies the current text of the block, which may have grown since the button was created.
async function copy(button) {
  button.dataset.kept = "";
  try {
    await navigator.clipboard.writeText(button.closest("figure").querySelector("pre code").textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => {
    button.textContent = "Copy";
    delete button.dataset.kept;
  }, 1500);
}

function codeBlock(block) {
  const button = element("button", {type: "button", class: "quiet small", "aria-label": "Copy this code"}, "Copy");
  button.addEventListener("click", () => copy(button));
  // Colour a block only when it is complete, because otherwise its colours would change with every word.
  const parts = block.isOpen ? [{kind: "", text: block.text}] : colorCode(block.text, block.language);
  const code = element("code", {}, parts.map((part) => (
    part.kind === "" ? document.createTextNode(part.text) : element("span", {class: `code-${part.kind}`}, part.text))));
  return element("figure", {class: "code"},
    element("figcaption", {}, element("span", {}, block.language || "text"), button),
    element("pre", {tabindex: "0", role: "group", "aria-label": `Code, ${block.language || "text"}`}, code));
}

function listItem(item, loose) {
  const children = item.children.flatMap((block) => (
    !loose && block.type === "paragraph" ? inlineNodes(block.children) : [blockElement(block)]));
  if (item.checked === null) return element("li", {}, children);
  const box = element("input", {type: "checkbox", disabled: "", "aria-label": item.checked ? "done" : "to do",
                                ...(item.checked ? {checked: ""} : {})});
  return element("li", {class: "task"}, box, " ", children);
}

function cells(tag, row, alignments) {
  return row.map((cell, i) => element(tag, {class: `align-${alignments[i]}`}, inlineNodes(cell)));
}

function blockElement(block) {
  switch (block.type) {
    case "heading":
      // The page has headings down to level 3 ("The answer"), so headings of an answer begin at level 4.
      return element(`h${Math.min(6, block.level + 3)}`, {}, inlineNodes(block.children));
    case "code": return codeBlock(block);
    case "rule": return element("hr");
    case "quote": return element("blockquote", {}, block.children.map(blockElement));
    case "list":
      return element(block.ordered ? "ol" : "ul", block.ordered && block.start !== 1 ? {start: block.start} : {},
        block.items.map((item) => listItem(item, block.loose)));
    case "table":
      return element("div", {class: "table", tabindex: "0", role: "group", "aria-label": "Table"}, element("table", {},
        element("thead", {}, element("tr", {}, cells("th", block.head, block.alignments))),
        element("tbody", {}, block.rows.map((row) => element("tr", {}, cells("td", row, block.alignments))))));
    default: return element("p", {}, inlineNodes(block.children));
  }
}

// Shows a text that may grow. Blocks whose text has not changed keep their elements, and a growing block keeps its
// existing part. So selection and focus are kept.
export class MarkdownView {
  #sources = [];

  constructor(place) {
    this.place = place;
  }

  show(text) {
    const blocks = parseMarkdown(text);
    const firstOther = blocks.findIndex((block, i) => block.source !== this.#sources[i]);
    const same = firstOther < 0 ? blocks.length : firstOther;
    patchChildren(this.place, blocks.slice(same).map(blockElement), same);
    this.#sources = blocks.map((block) => block.source);
  }
}
