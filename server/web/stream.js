// Reads streams of the server: parses server-sent events from bytes that may be split anywhere, and assembles the
// chunks of a chat completion. Independent of the page.

const MAX_EVENT = 8 << 20;  // maximum characters of an event; ibid never sends more

// Yields the data of each event in a body. Skips comments and other fields; drops an incomplete event at the end.
export async function* serverEvents(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "", data = [];
  try {
    for (;;) {
      const {done, value} = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, {stream: true});
      // A "\r" at the end may be the first half of "\r\n".
      const whole = !done && rest.endsWith("\r") ? rest.slice(0, -1) : rest;
      const lines = whole.split(/\r\n|\n|\r/);
      rest = lines.pop() + rest.slice(whole.length);
      if (rest.length > MAX_EVENT) throw new Error("The server sent an event that is too large.");
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function count(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

// Reads usage and timings from the last chunks of a stream: the protocol's usage, llama.cpp's timings, and ibid's own
// data.
function readFigures(figures, chunk) {
  const {usage, timings, ibid} = chunk;
  if (usage) {
    figures.prompt = count(usage.prompt_tokens);
    figures.cached = count(usage.prompt_tokens_details?.cached_tokens);
    figures.written = count(usage.completion_tokens);
    if (figures.prompt !== null && figures.cached !== null) figures.read = figures.prompt - figures.cached;
  }
  if (timings) figures.tps = count(timings.predicted_per_second);
  if (ibid) {
    figures.read = count(ibid.prefilled) ?? figures.read;
    figures.cached = count(ibid.cached) ?? figures.cached;
    figures.fromDisk = count(ibid.from_disk);
    figures.readAgain = count(ibid.read_again);
    const lost = ibid.lost_prefix;
    if (lost) {
      figures.lost = {tokens: count(lost.tokens), message: count(lost.message), byte: count(lost.byte),
                      cause: String(lost.cause ?? "")};
    }
  }
}

function addCalls(calls, deltas) {
  for (const delta of deltas) {
    const i = delta.index ?? 0;
    if (!Number.isInteger(i) || i < 0 || i > calls.length || i > 255) continue;
    calls[i] ??= {id: "", name: "", arguments: ""};
    if (delta.id) calls[i].id = delta.id;
    calls[i].name += delta.function?.name ?? "";
    calls[i].arguments += delta.function?.arguments ?? "";
  }
}

// Assembles chunks into an answer {text, reasoning, calls, end, figures}. add() returns what the chunk contained:
// "text", "reasoning", "call", "progress" or "".
export class AnswerChunks {
  constructor(answer) {
    this.answer = answer;
    this.progress = null;  // {done, total} during prefill
  }

  // Throws an Error with the server's message for an error in the stream.
  add(chunk) {
    if (chunk.error) throw new Error(chunk.error.message ?? "The server failed.");
    const {answer} = this;
    readFigures(answer.figures, chunk);
    if (chunk.prompt_progress) {
      this.progress = {done: chunk.prompt_progress.processed, total: chunk.prompt_progress.total};
      return "progress";
    }
    const choice = chunk.choices?.[0];
    if (!choice) return "";
    // The protocol has only "length" for all truncated answers, so use ibid's own value, which tells the reason.
    if (choice.finish_reason) answer.end = choice.finish_reason;
    const limit = chunk.ibid?.ended_by;
    if (answer.end === "length" && typeof limit === "string") answer.end = limit;
    const delta = choice.delta ?? {};
    if (delta.tool_calls) {
      addCalls(answer.calls, delta.tool_calls);
      return "call";
    }
    if (delta.reasoning_content) {
      answer.reasoning += delta.reasoning_content;
      return "reasoning";
    }
    if (!delta.content) return "";
    answer.text += delta.content;
    return "text";
  }
}
