// The client of npm's openai against a running `ibid serve`: node openai_client.mjs URL. Exit status 77: not installed.
const url = process.argv[2];
let OpenAI;
try {
  OpenAI = (await import("openai")).default;
} catch {
  console.error("skipped: the npm package openai is not installed (npm install openai)");
  process.exit(77);
}
const expect = (condition, ...what) => {
  if (!condition) throw new Error(what.map((each) => JSON.stringify(each)).join(" "));
};

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "system", content: "You are brief." }];
let before = 0;
for (let turn = 0; turn < 5; ++turn) {
  messages.push({ role: "user", content: `Question ${turn}: name a number.` });
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 10, seed: 1 });
  const { prompt_tokens: prompt, completion_tokens: said, prompt_tokens_details: details } = answer.usage;
  console.error(`turn ${turn}: prompt ${prompt}, cached ${details.cached_tokens}`);
  expect(details.cached_tokens >= before - 1, "cached", answer.usage);
  before = prompt + said;
  messages.push({ role: "assistant", content: answer.choices[0].message.content });
}
let text = "", chunks = 0, usage = null;
const stream = await client.chat.completions.create({
  model, messages: [{ role: "user", content: "Say hello." }], max_tokens: 10, stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  ++chunks;
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
expect(text.length > 0 && chunks > 2 && usage.completion_tokens > 0, text, usage);
const response = await client.responses.create({ model, input: "Name a colour.", max_output_tokens: 8 });
expect(response.output_text.length > 0, response);
try {
  await client.chat.completions.create({ model, messages, temperature: -1 });
  throw new Error("a temperature below 0 was taken");
} catch (error) {
  expect(error.status === 400 && error.param === "temperature", String(error));
}
console.error("ok");
