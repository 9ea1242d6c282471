// Branches of a conversation, the messages that are sent, and merging the trees of two tabs.
import assert from "node:assert/strict";
import {webcrypto} from "node:crypto";
import test from "node:test";

globalThis.crypto ??= webcrypto;  // node 18
const {ConversationTree, ROOT, canContinue, contentOf} = await import("../../../server/web/conversation_tree.js");

// user a, answer A, user b, answer B.
function two() {
  const tree = ConversationTree.create({system: "S"});
  const a = tree.add(ROOT, "user", {text: "a"});
  const A = tree.add(a.id, "assistant", {text: "A", end: "stop"});
  const b = tree.add(A.id, "user", {text: "b"});
  const B = tree.add(b.id, "assistant", {text: "B", end: "stop"});
  return {tree, a, A, b, B};
}

test("an answer with text that was cut can be continued", () => {
  const {a, A} = two();
  assert.equal(canContinue(a), false);
  for (const [end, can] of [["", false], ["stop", false], ["tool_calls", false], ["length", true], ["stopped", true],
                            ["quarter_of_context", true], ["repetition", true], ["error", true]]) {
    assert.equal(canContinue({...A, end}), can, end);
  }
  assert.equal(canContinue({...A, end: "length", text: ""}), false);
  assert.equal(canContinue({...A, end: "length", calls: [{}]}), false);
});

const texts = (tree) => tree.path().map((node) => node.text).join("");

test("an edit is a branch, and the old one is still there", () => {
  const {tree, A, b} = two();
  const c = tree.add(A.id, "user", {text: "c"});
  assert.equal(texts(tree), "aAc");
  assert.deepEqual(tree.place(c.id), {index: 2, count: 2});
  assert.equal(tree.step(c.id, -1), b);
  assert.equal(texts(tree), "aAbB");
  assert.equal(tree.step(b.id, -1), undefined);
  assert.equal(texts(tree), "aAbB");
});

test("a branch remembers what was active in it", () => {
  const {tree, a, A, b, B} = two();
  const other = tree.add(b.id, "assistant", {text: "C", end: "stop"});
  const changed = tree.add(ROOT, "user", {text: "x"});
  assert.equal(texts(tree), "x");
  tree.step(changed.id, -1);
  assert.equal(texts(tree), "aAbC");
  tree.choose(B.id);
  assert.equal(texts(tree), "aAbB");
  tree.choose(A.id);
  assert.equal(texts(tree), "aAbB");
  assert.equal(tree.leaf(), B);
  assert.deepEqual(tree.pathTo(other.id).map((node) => node.text), ["a", "A", "b", "C"]);
  assert.equal(tree.children(a.id).length, 1);
});

test("messages() is the system prompt and the branch up to the question", () => {
  const {tree, b, B} = two();
  assert.deepEqual(tree.messages(b.id), [
    {role: "system", content: "S"}, {role: "user", content: "a"}, {role: "assistant", content: "A"},
    {role: "user", content: "b"}]);
  B.calls = [{id: "1", name: "f", arguments: "{ \"x\":1}"}];
  B.reasoning = "not sent";
  assert.deepEqual(tree.messages(B.id).at(-1), {role: "assistant", content: "B", tool_calls: [
    {id: "1", type: "function", function: {name: "f", arguments: "{ \"x\":1}"}}]});
});

test("files precede the text, in a fence that they cannot close", () => {
  const tree = ConversationTree.create();
  const node = tree.add(ROOT, "user", {text: "What is it?", files: [{name: "a.md", text: "````\nx\n````\n"}]});
  assert.equal(contentOf(node), "File a.md:\n`````\n````\nx\n````\n`````\n\nWhat is it?");
  assert.equal(contentOf(node), contentOf(new ConversationTree(tree.record()).path()[0]));
});

test("a record gives the same tree again", () => {
  const {tree, A} = two();
  tree.add(A.id, "user", {text: "c"});
  const copy = new ConversationTree(JSON.parse(JSON.stringify(tree.record())));
  assert.deepEqual(copy.record(), tree.record());
  assert.equal(texts(copy), texts(tree));
});

test("a choice that is not a child of its parent is ignored", () => {
  const {tree, a, B} = two();
  const record = tree.record();
  record.chosen = [[a.id, B.id], ["nowhere", a.id], [a.id, "nowhere"], [B.id, a.id]];
  assert.equal(texts(new ConversationTree(record)), "aAbB");
});

test("merging two tabs gives both branches, in either order", () => {
  const {tree, A} = two();
  const left = new ConversationTree(tree.record()), right = new ConversationTree(tree.record());
  left.add(A.id, "user", {text: "left"});
  const deep = right.add(A.id, "user", {text: "right"});
  right.add(deep.id, "assistant", {text: "R", end: "stop"});
  assert.equal(left.merge(right.record()), true);
  assert.equal(right.merge(left.record()), true);
  const known = (each) => each.record().nodes.map((node) => node.text).sort();
  assert.deepEqual(known(left), known(right));
  assert.equal(left.merge(right.record()), false);
});

test("merging prefers a finished answer, else the longer one", () => {
  const {tree, B} = two();
  B.end = "";
  const other = new ConversationTree(tree.record());
  Object.assign(other.node(B.id), {text: "B and more", end: "stop"});
  tree.merge(other.record());
  assert.equal(tree.node(B.id).text, "B and more");
  Object.assign(other.node(B.id), {text: "B", end: ""});
  tree.merge(other.record());
  assert.equal(tree.node(B.id).text, "B and more");
});

test("the drawing has each message once, below its parent", () => {
  const {tree, A, b} = two();
  tree.add(A.id, "user", {text: "c"});
  tree.add(b.id, "assistant", {text: "D"});
  const {placed, columns} = tree.drawing();
  assert.equal(placed.length, tree.size);
  assert.equal(columns, 3);
  const rows = new Map(placed.map((each) => [each.node.id, each]));
  for (const each of placed) {
    if (each.node.parent !== ROOT) assert.ok(rows.get(each.node.parent).row < each.row);
  }
  assert.deepEqual(placed.filter((each) => each.active).map((each) => each.node.text), tree.path().map((n) => n.text));
});

test("ten thousand messages in a row do not overflow the stack", () => {
  const tree = ConversationTree.create();
  let parent = ROOT;
  for (let i = 0; i < 10000; i += 1) parent = tree.add(parent, i % 2 === 0 ? "user" : "assistant", {text: "x"}).id;
  assert.equal(tree.path().length, 10000);
  assert.equal(tree.drawing().placed.length, 10000);
});
