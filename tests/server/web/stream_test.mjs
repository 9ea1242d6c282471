// Server-sent events split at every byte, and answers assembled from their chunks.
import assert from "node:assert/strict";
import test from "node:test";

import {AnswerChunks, serverEvents} from "../../../server/web/stream.js";
import {duration, endInWords, lostInWords, messageName} from "../../../server/web/words.js";
import {checkedNumber} from "../../../server/web/settings.js";
import {sparklinePoints} from "../../../server/web/sparkline.js";

function bodyOf(parts) {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

async function eventsOf(parts) {
  const events = [];
  for await (const event of serverEvents(bodyOf(parts))) events.push(event);
  return events;
}

test("events are the same for any split of their bytes", async () => {
  const text = ": ping\n\ndata: {\"a\": \"ä€😀\"}\r\n\r\nevent: x\ndata:two\ndata: lines\n\ndata: [DONE]\r\rdata: cut";
  const bytes = new TextEncoder().encode(text);
  const expected = ["{\"a\": \"ä€😀\"}", "two\nlines", "[DONE]"];
  for (let i = 0; i <= bytes.length; i += 1) {
    assert.deepEqual(await eventsOf([bytes.slice(0, i), bytes.slice(i)]), expected, `cut at ${i}`);
  }
  assert.deepEqual(await eventsOf([...bytes].map((byte) => Uint8Array.of(byte))), expected);
});

test("an endless event is refused before memory is exhausted", async () => {
  const part = new TextEncoder().encode(`data: ${"x".repeat(1 << 20)}`);
  await assert.rejects(eventsOf(Array(10).fill(part)), /too large/);
});

const newAnswer = () => ({text: "", reasoning: "", calls: [], end: "", figures: {}});

test("text, reasoning, calls and figures are assembled", () => {
  const answer = newAnswer();
  const chunks = new AnswerChunks(answer);
  const delta = (fields) => chunks.add({choices: [{index: 0, delta: fields, finish_reason: null}]});
  assert.equal(delta({role: "assistant", content: ""}), "");
  assert.equal(delta({reasoning_content: "hm"}), "reasoning");
  assert.equal(delta({content: "a"}), "text");
  delta({content: "b"});
  delta({tool_calls: [{index: 0, id: "c1", function: {name: "f", arguments: "{\"x\""}}]});
  delta({tool_calls: [{index: 0, function: {arguments: ":1}"}}, {index: 7, id: "no"}, {index: -1}]});
  chunks.add({choices: [{index: 0, delta: {}, finish_reason: "tool_calls"}], timings: {predicted_per_second: 50.5},
              ibid: {prefilled: 6, cached: 10, lost_prefix: {tokens: 3, message: 1, byte: 9, cause: "why"}}});
  chunks.add({choices: [], usage: {prompt_tokens: 16, completion_tokens: 4, prompt_tokens_details: {cached_tokens: 10}}});
  assert.equal(answer.text, "ab");
  assert.equal(answer.reasoning, "hm");
  assert.deepEqual(answer.calls, [{id: "c1", name: "f", arguments: "{\"x\":1}"}]);
  assert.equal(answer.end, "tool_calls");
  assert.deepEqual(answer.figures, {tps: 50.5, read: 6, cached: 10, fromDisk: null, readAgain: null, prompt: 16, written: 4,
                                    lost: {tokens: 3, message: 1, byte: 9, cause: "why"}});
});

test("a truncated answer has its reason", () => {
  for (const [own, end] of [["quarter_of_context", "quarter_of_context"], ["repetition", "repetition"], [undefined, "length"]]) {
    const answer = newAnswer();
    new AnswerChunks(answer).add({choices: [{index: 0, delta: {}, finish_reason: "length"}], ibid: {ended_by: own}});
    assert.equal(answer.end, end);
    assert.notEqual(endInWords(answer.end), "");
  }
  assert.equal(endInWords("stop"), "");
});

test("figures are read without ibid's own fields", () => {
  const answer = newAnswer();
  new AnswerChunks(answer).add({choices: [], usage: {prompt_tokens: 20, completion_tokens: 4}});
  assert.equal(answer.figures.prompt, 20);
  assert.equal(answer.figures.cached, null);
});

test("a stream has progress and errors", () => {
  const chunks = new AnswerChunks(newAnswer());
  assert.equal(chunks.add({choices: [], prompt_progress: {total: 100, processed: 40}}), "progress");
  assert.deepEqual(chunks.progress, {done: 40, total: 100});
  assert.throws(() => chunks.add({error: {message: "no memory"}}), /no memory/);
});

test("a lost prefix in words", () => {
  const roles = ["system", "user", "assistant", "user"];
  assert.equal(messageName(roles, 0), "the system prompt");
  assert.equal(messageName(roles, 3), "your 2nd message");
  assert.equal(messageName(roles, 2), "the 1st answer");
  assert.equal(messageName(roles, 9), "a message");
  assert.equal(lostInWords({tokens: 1203, message: 3, byte: 4096, cause: "the message was changed"}, roles),
    "1,203 tokens were read again, from your 2nd message on (byte 4,096 of the prompt): the message was changed.");
  assert.equal(lostInWords(null, roles), null);
  assert.deepEqual([12.4, 1500, 61000, 5122000].map(duration), ["12 ms", "1.5 s", "1 min 1 s", "1 h 25 min"]);
});

test("a setting is a number within its limits, or null", () => {
  const field = {min: 0, max: 2, step: 0.1};
  assert.deepEqual(["", "abc", "-1", "3", "1.5", "NaN", "1e3"].map((text) => checkedNumber(field, text)),
    [null, null, null, null, 1.5, null, null]);
  assert.equal(checkedNumber({min: 0, max: 9, step: 1}, "1.5"), null);
});

test("the newest value of a line is at its right edge", () => {
  const points = sparklinePoints([0, 5, 10], 100);
  assert.equal(points.at(-1).x, 100);
  assert.ok(points[0].y > points[1].y && points[1].y > points[2].y);
  assert.deepEqual(sparklinePoints([], 100), []);
  assert.ok(sparklinePoints([0, 0], 100).every((point) => Number.isFinite(point.y)));
});
