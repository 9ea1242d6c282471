// The client of npm's openai against a running `ibid serve`: node openai_client.mjs URL. Exit status 77: not installed.
import { createRequire } from "node:module";

const url = process.argv[2];
let OpenAI;
try {
  OpenAI = createRequire(import.meta.url)("openai").OpenAI;  // looks in NODE_PATH as well, which import does not
} catch {
  console.error("skipped: the npm package openai is not installed (npm install --prefix build/client_tools openai)");
  process.exit(77);
}
const expect = (condition, ...what) => {
  if (!condition) throw new Error(what.map((each) => JSON.stringify(each)).join(" "));
};
const user = (content) => ({ role: "user", content });
const collect = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};
// The error of a call.
const failure = async (call) => {
  try {
    await call;
  } catch (error) {
    return error;
  }
  throw new Error("the call was answered");
};

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 300_000 });
const model = (await client.models.list()).data[0].id;
const chat = (fields) => client.chat.completions.create({ model, max_tokens: 10, seed: 1, ...fields });

const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string", maxLength: 10 } },
      required: ["city"],
      additionalProperties: false,
    },
  },
};

// Each turn sends the whole history, and prefills only what is new.
async function turns() {
  const messages = [{ role: "system", content: "You are brief." }];
  let before = 0;
  for (let turn = 0; turn < 5; ++turn) {
    messages.push(user(`Question ${turn}: name a number.`));
    const answer = await chat({ messages });
    const { prompt_tokens: prompt, completion_tokens: said, prompt_tokens_details: details } = answer.usage;
    console.error(`turn ${turn}: prompt ${prompt}, cached ${details.cached_tokens}`);
    expect(details.cached_tokens >= before - 1, "cached", answer.usage);
    before = prompt + said;
    messages.push({ role: "assistant", content: answer.choices[0].message.content });
  }
}

async function streams() {
  const fields = { messages: [user("Say hello.")], temperature: 0 };
  const whole = await chat(fields);
  const chunks = await collect(await chat({ ...fields, stream: true, stream_options: { include_usage: true } }));
  const text = chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? "").join("");
  expect(text === whole.choices[0].message.content, text, whole.choices[0].message);
  expect(chunks.length > 2 && chunks.at(-1).usage.completion_tokens === whole.usage.completion_tokens, chunks.at(-1));
  // The helper that assembles chunks and checks their order.
  const helper = client.chat.completions.stream({ model, max_tokens: 10, ...fields });
  expect((await helper.finalContent()) === text, text);
  // A client that stops reading: the server answers the next request.
  const stream = await chat({ messages: [user("Count to a thousand.")], max_tokens: 1000, stream: true });
  for await (const chunk of stream) {
    if (chunk.choices[0].delta.content) break;
  }
  expect((await chat({ messages: [user("Still there?")] })).choices.length === 1, "an answer behind a break");
}

async function tools() {
  const messages = [user("The weather in Paris?")];
  const choice = { tool_choice: "required", parallel_tool_calls: false };
  const fields = { tools: [weather], ...choice, max_tokens: 60, temperature: 0 };
  const { message, finish_reason: reason } = (await chat({ messages, ...fields })).choices[0];
  expect(message.tool_calls?.length >= 1 && reason === "tool_calls", message, reason);
  const call = message.tool_calls[0];
  expect(call.type === "function" && call.id && call.function.name === "weather", call);
  expect(typeof JSON.parse(call.function.arguments).city === "string", call);
  // The same, streamed.
  const helper = client.chat.completions.stream({ model, messages, ...fields });
  const streamed = await helper.finalMessage();
  expect(streamed.tool_calls[0].function.arguments === call.function.arguments, streamed, call);
  // The tool's result, and the answer to it.
  messages.push(message, { role: "tool", tool_call_id: call.id, content: "Rain." });
  const answer = await chat({ messages, tools: [weather], tool_choice: "none" });
  expect(answer.choices[0].finish_reason !== "tool_calls", answer.choices[0]);
  const named = { type: "function", function: { name: "weather" } };
  const again = await chat({ messages: [user("And Rome?")], ...fields, tool_choice: named });
  expect(again.choices[0].message.tool_calls[0].function.name === "weather", again.choices[0]);
}

async function forms() {
  const answer = await chat({
    messages: [user("A city?")], max_tokens: 60, temperature: 0,
    response_format: { type: "json_schema",
                       json_schema: { name: "city", strict: true, schema: weather.function.parameters } },
  });
  expect(typeof JSON.parse(answer.choices[0].message.content).city === "string", answer.choices[0].message);
}

async function responses() {
  const first = await client.responses.create({ model, input: "Name a colour.", max_output_tokens: 8 });
  expect(first.output_text.length > 0, first);
  const second = { model, input: "Another.", previous_response_id: first.id, max_output_tokens: 8 };
  const events = await collect(await client.responses.create({ ...second, stream: true }));
  expect(events[0].type === "response.created", events[0]);
  const last = events.at(-1);
  expect(["response.completed", "response.incomplete"].includes(last.type), last);
  const deltas = events.filter((event) => event.type === "response.output_text.delta");
  const text = deltas.map((event) => event.delta).join("");
  expect(last.response.output[0].content[0].text === text && text.length > 0, last, text);
  const stored = await client.responses.retrieve(last.response.id);
  expect(stored.previous_response_id === first.id && stored.output_text === text, stored);
  await client.responses.delete(first.id);
  const gone = await failure(client.responses.retrieve(first.id));
  expect(gone instanceof OpenAI.NotFoundError, String(gone));
  const { name, parameters } = weather.function;
  const called = await client.responses.create({
    model, input: "The weather in Paris?", max_output_tokens: 60, temperature: 0, tool_choice: "required",
    parallel_tool_calls: false,
    tools: [{ type: "function", name, parameters, strict: true }],
  });
  const call = called.output.find((item) => item.type === "function_call");
  expect(call?.name === "weather" && typeof JSON.parse(call.arguments).city === "string", called.output);
  const input = [{ type: "function_call_output", call_id: call.call_id, output: "Rain." }];
  const answer = await client.responses.create({ model, input, previous_response_id: called.id, max_output_tokens: 8 });
  expect(answer.output_text.length > 0, answer);
}

async function errors() {
  const messages = [user("x")];
  const wrong = { temperature: -1, n: 99, mirostat: 2, tool_choice: "required" };
  for (const [param, value] of Object.entries(wrong)) {
    const error = await failure(chat({ messages, [param]: value }));
    expect(error instanceof OpenAI.BadRequestError && error.param === param, param, String(error));
    expect(error.type === "invalid_request_error", error.type);
  }
  const unknown = await chat({ messages, model: "no-such-model", max_tokens: 1 });
  expect(unknown.ibid.ignored[0].field === "model", "the one model answers", JSON.stringify(unknown.ibid));
  const long = await failure(chat({ messages: [user("word ".repeat(9000))] }));
  expect(long instanceof OpenAI.BadRequestError && long.code === "context_length_exceeded", String(long));
  const streamed = await failure(chat({ messages: [], stream: true }));
  expect(streamed instanceof OpenAI.BadRequestError && streamed.param === "messages", String(streamed));
}

for (const test of [turns, streams, tools, forms, responses, errors]) {
  await test();
  console.error(test.name, "ok");
}
