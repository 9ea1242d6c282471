// Turns with tool calls: the parsed answer, the message that is kept, and that no part of it is prefilled again when
// the result arrives, however the model spelled the call.
#include <gtest/gtest.h>

#include <string>

#include "runtime/session/session_state.h"
#include "templates/message.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

// Hermes' format, as Qwen's templates write it.
constexpr const char* kHermes =
    "{% if tools %}<tools>{{ tools | tojson }}</tools>\n{% endif %}"
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' }}"
    "{% if message.content %}{{ message.content }}{% endif %}"
    "{% if message.tool_calls %}{% for call in message.tool_calls %}"
    "{% if not loop.first or message.content %}{{ '\n' }}{% endif %}"
    "{{ '<tool_call>\n{\"name\": \"' + call.function.name + '\", \"arguments\": ' + (call.function.arguments | tojson) "
    "+ "
    "'}\n</tool_call>' }}"
    "{% endfor %}{% endif %}"
    "{{ '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

Json tools() {
  return {{"tools",
           Json::array({{{"type", "function"}, {"function", {{"name", "add"}, {"parameters", Json::object()}}}}})}};
}

Tokens spelled(const ChatFixture& f, const std::string& text) {
  Tokens ids = f.tokenizer->encode(text, TextOrigin::kInput, false);
  ids.push_back(f.tokenizer->im_end);
  return ids;
}

TurnOptions parsing() {
  TurnOptions options = greedy(200);
  options.parse_reply = true;
  return options;
}

// The text that is prefilled for a tool result, after the token that ended the answer.
Tokens result_prompt(const ChatFixture& f, const std::string& result) {
  return f.ids("\n<|im_start|>tool\n" + result + "<|im_end|>\n<|im_start|>assistant\n");
}

class ToolTurns : public testing::TestWithParam<const char*> {};

TEST_P(ToolTurns, ToolCallIsNotPrefilledAgain) {
  ChatFixture f(kHermes);
  const std::string call = GetParam();
  f.say({spelled(f, call), f.ids("It is 3.<|im_end|>")});
  ChatSession session = f.session({}, tools());
  const Turn turn = must(session.send("1 + 2?", parsing()));
  EXPECT_EQ(turn.text, call);
  ASSERT_EQ(turn.tool_calls.size(), 1u);
  EXPECT_EQ(turn.tool_calls[0].name, "add");
  EXPECT_EQ(turn.tool_calls[0].id.size(), 9u);
  const Json& message = session.state().messages().back();
  ASSERT_TRUE(message.contains("tool_calls"));
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], *parse_json(turn.tool_calls[0].arguments, "test"));
  const Tokens held = session.ids();

  Json result = make_message(Role::kTool, "3");
  result["tool_call_id"] = turn.tool_calls[0].id;
  ASSERT_TRUE(session.state().append(result).ok());
  const Turn next = must(session.answer(parsing()));
  EXPECT_EQ(next.content, "It is 3.");
  EXPECT_TRUE(next.tool_calls.empty());
  EXPECT_FALSE(next.lost_prefix.has_value());
  // The token that ended the answer is fed with the result.
  EXPECT_EQ(next.usage.n_prefilled, result_prompt(f, "3").size() + 1);
  EXPECT_TRUE(std::equal(held.begin(), held.end(), session.ids().begin()));
  expect_replays(session);
}

TEST_P(ToolTurns, ToolCallSentBackAsTextIsNotPrefilledAgain) {
  ChatFixture f(kHermes);
  f.say({spelled(f, GetParam()), f.ids("It is 3.<|im_end|>")});
  ChatSession session = f.session({}, tools());
  const Turn turn = must(session.send("1 + 2?", parsing()));
  Json call = Json::object();
  call["id"] = turn.tool_calls[0].id;
  call["type"] = "function";
  call["function"]["name"] = turn.tool_calls[0].name;
  call["function"]["arguments"] = turn.tool_calls[0].arguments;
  Json answer = make_message(Role::kAssistant, turn.content);
  answer["tool_calls"] = Json::array({call});
  Json history = Json::array({make_message(Role::kUser, "1 + 2?"), answer, make_message(Role::kTool, "3")});
  ASSERT_TRUE(session.state().set_history(history).ok());
  const Turn next = must(session.answer(parsing()));
  EXPECT_EQ(next.usage.n_prefilled, result_prompt(f, "3").size() + 1);
  expect_replays(session);
}

TEST_P(ToolTurns, SavedConversationKeepsTokensOfCalls) {
  TempDir dir;
  const std::string path = dir.path() + "/session";
  ChatFixture f(kHermes);
  f.say({spelled(f, GetParam()), f.ids("It is 3.<|im_end|>")});
  ChatSession session = f.session({}, tools());
  must(session.send("1 + 2?", parsing()));
  ASSERT_TRUE(session.save(path).ok());
  Result<ChatSession> loaded = ChatSession::load(f.engine, path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_FALSE(loaded->load_warnings().any()) << loaded->load_warnings().to_string();
  EXPECT_EQ(loaded->ids(), session.ids());
  EXPECT_EQ(loaded->state().transcript().bytes(), session.state().transcript().bytes());
}

// Special tokens that are markers are part of the text only if the answer was split.
TEST(ToolTurns, SavedConversationKeepsTokensOfMarkers) {
  for (const bool splits : {false, true}) {
    TempDir dir;
    EngineParts parts;
    parts.tokenizer = std::make_unique<FakeTokenizer>(std::vector<std::string>{"<think>", "</think>"});
    ChatFixture f(kHermes, {.vocab_size = 400}, 64u << 20, std::move(parts));
    const TokenId begin = static_cast<TokenId>(f.tokenizer->vocab_size()) - 2;
    const Tokens odd = f.tokenizer->sampled({"l", "o", "a", "b"});
    f.say({joined({{begin}, odd, {begin + 1}, odd, {f.tokenizer->im_start}}), f.ids("on<|im_end|>")});
    ChatSession session = f.session();
    TurnOptions options = greedy(200);
    options.parse_reply = splits;
    EXPECT_EQ(must(session.send("x", options)).text, splits ? "<think>loab</think>loab" : "loabloab");
    const std::string path = dir.path() + "/session";
    ASSERT_TRUE(session.save(path).ok());
    Result<ChatSession> loaded = ChatSession::load(f.engine, path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_FALSE(loaded->load_warnings().any()) << loaded->load_warnings().to_string();
    EXPECT_EQ(loaded->ids(), session.ids()) << splits;
    const size_t n_new = result_prompt(f, "y").size() + 1;
    ASSERT_TRUE(loaded->state().append(make_message(Role::kTool, "y")).ok());
    EXPECT_EQ(must(loaded->answer(options)).usage.n_prefilled, n_new) << splits;
  }
}

// If the prompt opens the reasoning, the message has it apart from the content; the tokens include both.
TEST(ToolTurns, SavedConversationKeepsTokensOfReasoningOpenedByThePrompt) {
  TempDir dir;
  ChatFixture f(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.reasoning_content %}"
      "{{ '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{% endif %}{{ m.content + '<|im_end|>\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}");
  // The script starts after the role line, so its first two tokens are in the prompt.
  f.say({f.tokenizer->sampled({"<think>", "\n", "a", "b", "\n", "</think>", "\n", "\n", "l", "o"})});
  ChatSession session = f.session();
  const Turn turn = must(session.send("x", parsing()));
  EXPECT_EQ(turn.reasoning, "ab");
  EXPECT_EQ(turn.content, "lo");
  const std::string path = dir.path() + "/session";
  ASSERT_TRUE(session.save(path).ok());
  Result<ChatSession> loaded = ChatSession::load(f.engine, path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->ids(), session.ids());
  EXPECT_EQ(loaded->state().transcript().bytes(), session.state().transcript().bytes());
}

INSTANTIATE_TEST_SUITE_P(
    Spellings, ToolTurns,
    testing::Values("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>",
                    "<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":2}}</tool_call>",
                    "Let me see.\n\n<tool_call>\n{\"arguments\": {\"a\": 1.0}, \"name\": \"add\"}\n</tool_call>\n"));

TEST(ToolTurns, AnswerIsPlainTextUnlessParseReplyIsSet) {
  ChatFixture f(kHermes);
  const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>";
  f.say({spelled(f, call)});
  ChatSession session = f.session({}, tools());
  const Turn turn = must(session.send("1 + 2?", greedy(200)));
  EXPECT_EQ(turn.text, call);
  EXPECT_TRUE(turn.tool_calls.empty());
  EXPECT_EQ(session.state().messages().back(), make_message(Role::kAssistant, call));
}

TEST(ToolTurns, ReasoningAndContentAreParsed) {
  ChatFixture f(kHermes);
  f.say({spelled(f, "<think>\nHm.\n</think>\n\nYes.")});
  ChatSession session = f.session({}, tools());
  const Turn turn = must(session.send("Really?", parsing()));
  EXPECT_EQ(turn.reasoning, "Hm.");
  EXPECT_EQ(turn.content, "Yes.");
  EXPECT_EQ(turn.text, "<think>\nHm.\n</think>\n\nYes.");
}

TEST(ToolTurns, ParsedAnswerShowsOnlyMarkersOfSpecialTokens) {
  EngineParts parts;
  parts.tokenizer = std::make_unique<FakeTokenizer>(std::vector<std::string>{"<tool_call>", "</tool_call>"});
  ChatFixture f(kHermes, {.vocab_size = 400}, 64u << 20, std::move(parts));
  const std::string call = "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>";
  const Tokens answer = joined({f.ids("a"), {f.tokenizer->im_start}, f.ids("b" + call + "<|im_end|>")});
  f.say({answer, answer});
  ChatSession session = f.session({}, tools());
  EXPECT_EQ(must(session.send("1", greedy(200))).text, "ab{\"name\": \"add\", \"arguments\": {}}");
  const Turn turn = must(session.send("2", parsing()));
  EXPECT_EQ(turn.text, "ab" + call);
  EXPECT_EQ(turn.content, "ab");
  EXPECT_EQ(turn.tool_calls.size(), 1u);
  const Tokens ids = session.ids();
  EXPECT_EQ(
      std::count(ids.begin() + static_cast<ptrdiff_t>(ids.size() - answer.size()), ids.end(), f.tokenizer->im_start),
      1);
  expect_replays(session);
}

// Without tools calls are not parsed: their markers are like any other special token.
TEST(ToolTurns, CallMarkersAreShownOnlyIfCallsAreParsed) {
  for (const bool with_tools : {false, true}) {
    for (const bool parses : {false, true}) {
      TempDir dir;
      EngineParts parts;
      parts.tokenizer = std::make_unique<FakeTokenizer>(
          std::vector<std::string>{"<tool_call>", "</tool_call>", "<think>", "</think>"});
      ChatFixture f(kHermes, {.vocab_size = 400}, 64u << 20, std::move(parts));
      const Tokens answer = f.ids("<think>so</think><tool_call>x</tool_call><|im_end|>");
      f.say({answer});
      ChatSession session = f.session({}, with_tools ? tools() : Json::object());
      TurnOptions options = parsing();
      options.parse_calls = parses;
      const Turn turn = must(session.send("1", options));
      EXPECT_EQ(turn.reasoning, "so");
      EXPECT_EQ(turn.content, with_tools && parses ? "<tool_call>x</tool_call>" : "x");
      const std::string path = dir.path() + "/session";
      ASSERT_TRUE(session.save(path).ok());
      Result<ChatSession> loaded = ChatSession::load(f.engine, path);
      ASSERT_TRUE(loaded.ok()) << loaded.status().message();
      EXPECT_FALSE(loaded->load_warnings().any()) << loaded->load_warnings().to_string();
      EXPECT_EQ(loaded->ids(), session.ids());
    }
  }
}

}  // namespace
}  // namespace ibid
