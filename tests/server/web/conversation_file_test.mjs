// Import of untrusted files.
import assert from "node:assert/strict";
import {webcrypto} from "node:crypto";
import test from "node:test";

globalThis.crypto ??= webcrypto;
const {LIMITS, inParts, readConversations, writeConversations} = await import("../../../server/web/conversation_file.js");
const {ConversationTree, ROOT} = await import("../../../server/web/conversation_tree.js");

function sample() {
  const tree = ConversationTree.create({title: "T", system: "S", model: "m"});
  const a = tree.add(ROOT, "user", {text: "a", files: [{name: "f.txt", text: "F"}]});
  tree.add(a.id, "assistant", {
    text: "A", reasoning: "R", calls: [{id: "1", name: "f", arguments: "{}"}], end: "stop", model: "m",
    figures: {firstMs: 12.5, tps: 50, totalMs: 100, prompt: 9, cached: 4, read: 5, written: 3, fromDisk: null,
              readAgain: null, lost: {tokens: 2, message: 0, byte: 7, cause: "why"}}});
  tree.add(ROOT, "user", {text: "b"});
  return tree.record();
}

const file = (change) => {
  const record = sample();
  change(record);
  return writeConversations([record]);
};

test("an export can be imported, as a new conversation", () => {
  const record = sample();
  const [read] = readConversations(writeConversations([record]));
  assert.notEqual(read.id, record.id);
  assert.deepEqual({...read, id: record.id}, record);
  assert.deepEqual(new ConversationTree(read).path().map((node) => node.text), ["b"]);
});

test("many conversations are exported as several files, and none is lost", () => {
  const records = Array.from({length: 25}, sample);
  records[7].nodes[0].text = "long ".repeat(2000);
  const parts = inParts(records, {partBytes: 5000, conversations: 10});
  assert.ok(parts.length > 3);
  assert.ok(parts.every((part) => part.length > 0 && part.length <= 10));
  const read = parts.flatMap((part) => readConversations(writeConversations(part)));
  assert.deepEqual(read.map((each, i) => ({...each, id: records[i].id})), records);
  assert.deepEqual(inParts([]), [[]]);
  const many = Array.from({length: LIMITS.conversations + 1}, sample);
  assert.deepEqual(inParts(many).map((part) => part.length), [LIMITS.conversations, 1]);
});

test("unknown fields are dropped", () => {
  const [read] = readConversations(file((record) => {
    record.evil = 1;
    record.nodes[0].innerHTML = "<b>";
    record.nodes[0].files[0].path = "/etc/passwd";
    record.nodes[1].figures.toString = "x";
  }));
  assert.equal("evil" in read, false);
  assert.equal("innerHTML" in read.nodes[0], false);
  assert.deepEqual(Object.keys(read.nodes[0].files[0]), ["name", "text"]);
  assert.equal(Object.hasOwn(read.nodes[1].figures, "toString"), false);
});

test("prototypes cannot be changed", () => {
  const source = writeConversations([sample()]).replace("\"title\"", "\"__proto__\": {\"polluted\": true}, \"title\"");
  const [read] = readConversations(source);
  assert.equal(read.polluted, undefined);
  assert.equal({}.polluted, undefined);
});

test("every error is named, and nothing is imported", () => {
  const cases = [
    ["{", /not JSON/],
    ["[]", /not an object/],
    ["{}", /no conversations/],
    [writeConversations([sample()]).replace("\"version\": 1", "\"version\": 2"), /version 2/],
    [writeConversations([sample()]).replace("\"conversations\": [", "\"conversations\": 7, \"x\": ["), /not a list/],
    [file((r) => { r.nodes = {}; }), /conversations\[0\]\.nodes: is not a list/],
    [file((r) => { r.nodes[0].role = "system"; }), /nodes\[0\]\.role/],
    [file((r) => { r.nodes[1].role = "user"; }), /nodes\[1\]\.role: is that of its parent/],
    [file((r) => { r.nodes[0].role = "assistant"; }), /nodes\[0\]\.role: is that of its parent/],
    [file((r) => { r.nodes[0].text = {}; }), /nodes\[0\]\.text: is not a string/],
    [file((r) => { r.nodes[0].id = "__proto__"; }), /not an identifier/],
    [file((r) => { r.nodes[0].id = "a b"; }), /not an identifier/],
    [file((r) => { r.nodes[1].id = r.nodes[0].id; }), /duplicate/],
    [file((r) => { r.nodes[0].parent = r.nodes[0].id; }), /not an earlier node/],
    [file((r) => { r.nodes[0].parent = r.nodes[1].id; }), /not an earlier node/],
    [file((r) => { r.nodes[0].files = Array(LIMITS.files + 1).fill({name: "a", text: "b"}); }), /files/],
    [file((r) => { r.nodes[0].files = [null]; }), /files\[0\]: is not an object/],
    [file((r) => { r.nodes[1].calls = [7]; }), /calls\[0\]: is not an object/],
    [file((r) => { r.nodes = Array(LIMITS.nodes + 1).fill(r.nodes[0]); }), /at most 200000/],
    [file((r) => { r.title = "x".repeat(LIMITS.short + 1); }), /title/],
  ];
  for (const [source, expected] of cases) assert.throws(() => readConversations(source), expected);
});

test("invalid figures and times are dropped", () => {
  const [read] = readConversations(file((record) => {
    record.nodes[0].made = "yesterday";
    record.created = -1;
    record.changed = 1e300;
    record.nodes[1].figures = {prompt: "7", cached: -1, read: null, lost: "x"};
    record.chosen = [["a", 1], "x", [ROOT, record.nodes[0].id]];
  }));
  assert.ok(Number.isSafeInteger(read.nodes[0].made) && read.created > 0 && Number.isSafeInteger(read.changed));
  assert.equal(read.nodes[1].figures.prompt, null);
  assert.equal(read.nodes[1].figures.cached, null);
  assert.equal(read.nodes[1].figures.lost, null);
  assert.deepEqual(new ConversationTree(read).path().map((node) => node.text), ["a", "A"]);
});

test("any JSON file gives conversations or an error message", () => {
  let seed = 3;
  const next = (n) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % n;
  };
  const values = [null, 0, -1, "", "x", [], {}, true, 1e308, [[]], {id: "x"}];
  for (let round = 0; round < 2000; round += 1) {
    const record = sample();
    const target = [record, record.nodes[0], record.nodes[1], record.nodes[1].figures, record.nodes[0].files[0]][next(5)];
    const names = Object.keys(target);
    target[names[next(names.length)]] = values[next(values.length)];
    try {
      new ConversationTree(readConversations(writeConversations([record]))[0]).drawing();
    } catch (error) {
      assert.match(error.message, /^(conversations\[0\]|The file)/);
    }
  }
});
