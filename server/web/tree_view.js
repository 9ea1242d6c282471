// All branches of a conversation in one drawing: a row for each message, lines from parent to child, and the active
// path in colour. Up and down move between rows, left to the parent and right to the first child; Enter opens the
// branch of a message.

import {element, svgElement} from "./elements.js";
import {number} from "./words.js";

const ROW = 34, COLUMN = 16, LEFT = 12, MAX_ROWS = 2000, MAX_COLUMNS = 12;

const xOf = (column) => LEFT + Math.min(column, MAX_COLUMNS) * COLUMN;
const yOf = (row) => row * ROW + ROW / 2;

function line(parent, child) {
  const x1 = xOf(parent.column), y1 = yOf(parent.row), x2 = xOf(child.column), y2 = yOf(child.row);
  const bend = `C${x1} ${y1 + 0.7 * ROW} ${x2} ${y1 + 0.3 * ROW} ${x2} ${y1 + ROW}`;
  const d = `M${x1} ${y1}${x1 === x2 ? "" : bend}V${y2}`;
  return svgElement("path", {d, class: child.active ? "edge active" : "edge"});
}

function dot({node, row, column, active}) {
  return svgElement("circle", {
    cx: xOf(column), cy: yOf(row), r: node.role === "user" ? 4 : 4.5,
    class: `dot ${node.role}${active ? " active" : ""}`,
  });
}

function label({node, active, level}) {
  const text = (node.text || node.error || node.files[0]?.name || "nothing").replace(/\s+/g, " ").slice(0, 120);
  const who = node.role === "user" ? "You" : "Answer";
  const button = element("button", {
    type: "button", class: `tree-row ${node.role}`, tabindex: "-1", "data-id": node.id, "data-parent": node.parent,
    role: "treeitem", "aria-level": level, "aria-selected": String(active),
    "aria-label": `${who}: ${text}${active ? ", active" : ""}`,
  }, text);
  if (active) button.classList.add("active");
  return button;
}

// Fills `place` with the drawing. choose(id) is called when the user picks a row.
export function showTree(place, tree, choose) {
  const {placed, columns} = tree.drawing();
  const shown = placed.slice(0, MAX_ROWS);
  const byId = new Map();
  for (const each of shown) {
    each.level = (byId.get(each.node.parent)?.level ?? 0) + 1;
    byId.set(each.node.id, each);
  }
  const width = xOf(Math.min(columns - 1, MAX_COLUMNS)) + LEFT, height = shown.length * ROW;
  const children = shown.filter((each) => byId.has(each.node.parent));
  const drawing = svgElement("svg", {width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true"},
    [false, true].map((active) => children.filter((each) => each.active === active)
      .map((each) => line(byId.get(each.node.parent), each))),
    shown.map(dot));
  const rows = shown.map(label);
  const labels = element("div", {class: "tree-rows"}, rows);
  const notes = element("p", {class: "soft tree-note"});
  place.replaceChildren(drawing, element("div", {class: "tree-side"}, labels, notes));
  if (rows.length > 0) {
    labels.setAttribute("role", "tree");
    labels.setAttribute("aria-labelledby", "tree-title");
  } else {
    notes.textContent = "There are no messages yet.";
  }
  if (placed.length > MAX_ROWS) {
    notes.textContent = `${number(placed.length - MAX_ROWS)} more messages are not drawn.`;
  }

  const last = rows.findLastIndex((row) => row.classList.contains("active"));
  const focusRow = (i) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, i))];
    for (const each of rows) each.tabIndex = each === row ? 0 : -1;
    row?.focus();
  };
  if (last >= 0) rows[last].tabIndex = 0;
  labels.addEventListener("keydown", (event) => {
    const at = rows.indexOf(document.activeElement);
    const where = {
      ArrowDown: () => at + 1, ArrowUp: () => at - 1, Home: () => 0, End: () => rows.length - 1,
      ArrowLeft: () => rows.findIndex((row) => row.dataset.id === rows[at]?.dataset.parent),
      ArrowRight: () => rows.findIndex((row) => row.dataset.parent === rows[at]?.dataset.id),
    }[event.key];
    if (!where) return;
    const to = where();
    if (to < 0 && event.key !== "ArrowUp") return;
    event.preventDefault();
    focusRow(to);
  });
  labels.addEventListener("click", (event) => {
    const row = event.target.closest("[data-id]");
    if (row) choose(row.dataset.id);
  });
  return () => focusRow(last);
}
