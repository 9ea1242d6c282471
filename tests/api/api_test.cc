// The public classes forward to the runtime, whose behaviour tests/runtime checks. Checks only that every call is
// forwarded.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ibid/turn_stream.h"
#include "runtime/session/session_state.h"
#include "tests/api/api_fixture.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

struct ApiTest : testing::Test {
  ApiTest() : engine(fixture.engine), chat(session_of(engine)) {
    fixture.say(std::vector<Tokens>(40, fixture.tokenizer->sampled({"the", "ing"})));
  }

  ChatFixture fixture;
  std::shared_ptr<Engine> engine;
  ChatSession chat;
};

TEST_F(ApiTest, EngineLoadErrorsAreReported) {
  const auto missing = Engine::load("no-such-model.gguf");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().message().find("no-such-model.gguf: "), 0u);
  const auto wrong = Engine::load("no-such-model.gguf", {.max_chunk = 0});
  EXPECT_EQ(wrong.status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(ApiTest, EngineAccessorsReturnPropertiesOfTheModel) {
  EXPECT_EQ(engine->name(), "model");
  EXPECT_EQ(engine->max_seq_len(), engine->state().model().max_seq_len());
  EXPECT_TRUE(engine->has_chat_template());
  EXPECT_EQ(engine->vocab_size(), fixture.tokenizer->vocab_size());
  const Result<Tokens> ids = engine->encode("the abc");
  ASSERT_TRUE(ids.ok());
  std::string text;
  for (const TokenId id : *ids) text += engine->token_bytes(id);
  EXPECT_EQ(text, "the abc");
  EXPECT_EQ(engine->token_bytes(-1), "");
  EXPECT_FALSE(engine->has_cache_directory());
  EXPECT_TRUE(engine->cache_directory_status().ok() && engine->flush_cache_directory().ok());
}

TEST_F(ApiTest, SessionCallsUpdateMessages) {
  EXPECT_TRUE(chat.set_system("be").ok());
  EXPECT_EQ(must(chat.send("first", greedy())).text, "theing");
  EXPECT_EQ(chat.messages(), (std::vector<Message>{{"system", "be"}, {"user", "first"}, {"assistant", "theing"}}));
  EXPECT_EQ(chat.message(1), (Message{"user", "first"}));
  EXPECT_EQ(chat.messages_json(), R"([{"role":"system","content":"be"},{"role":"user","content":"first"},)"
                                  R"({"role":"assistant","content":"theing"}])");
  EXPECT_EQ(must(chat.regenerate(greedy())).usage.n_prefilled, 0u);
  EXPECT_EQ(must(chat.edit(1, "second", greedy())).text, "theing");
  EXPECT_EQ(chat.message(1).content, "second");
  EXPECT_TRUE(chat.pin(1).ok());
  EXPECT_EQ(chat.pin(9).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(chat.set_when_full(WhenFull::kCutNewestMessage).ok());
  EXPECT_TRUE(chat.set_variables(R"({"mood": "good"})").ok());
  EXPECT_TRUE(chat.set_variables("").ok());
  EXPECT_EQ(chat.set_variables("[]").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(chat.when_full(), WhenFull::kCutNewestMessage);
  EXPECT_GT(chat.usage().n_decoded, 0u);
  EXPECT_EQ(chat.n_in_memory() + 1, chat.ids().size());
  EXPECT_GT(chat.timings().total_ms, 0);
  EXPECT_EQ(chat.count_tokens("abc"), 1u);
  EXPECT_EQ(chat.engine(), engine);
  EXPECT_TRUE(chat.rewind_to(1).ok() && chat.reset().ok());
  EXPECT_EQ(chat.n_messages(), 1u);
}

TEST_F(ApiTest, CallFromTheTurnsOwnCallbackReturnsBusy) {
  Status inside;
  must(chat.send("first", greedy(), [&](const TurnEvent&) { inside = chat.append({"user", "second"}); }));
  EXPECT_EQ(inside.code(), ErrorCode::kBusy);
}

TEST_F(ApiTest, InvalidMessageChangesNothing) {
  EXPECT_EQ(chat.append({.role = "user", .fields = "{"}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(chat.append({"user", "\xff"}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(chat.set_history({{"user", "a"}, {.role = "tool", .fields = "1"}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(chat.n_messages(), 0u);
  EXPECT_EQ(ChatSession::create(engine, {.variables = "[]"}).status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(ApiTest, VariablesReachTheTemplate) {
  ChatFixture shouting("{{ greeting }}{% for m in messages %}{{ m.content }}{% endfor %}");
  auto session = ChatSession::create(shouting.engine, {.variables = R"({"greeting": "the"})"});
  ASSERT_TRUE(session.ok());
  must(session->send("abc", greedy(1)));
  EXPECT_EQ(session->state().transcript().bytes().substr(0, 6), "theabc");
}

TEST_F(ApiTest, ForkDoesNotChangeTheOriginalSession) {
  must(chat.send("first", greedy()));
  Result<ChatSession> other = chat.fork();
  ASSERT_TRUE(other.ok());
  const auto answers = other->send_for_answers("second", 2, greedy());
  ASSERT_TRUE(answers.ok() && answers->size() == 2 && other->choose(1).ok());
  EXPECT_EQ(other->n_messages(), 4u);
  EXPECT_EQ(chat.n_messages(), 2u);
  chat = *std::move(other);
  EXPECT_EQ(chat.n_messages(), 4u);
}

TEST_F(ApiTest, LoadRestoresSavedMessages) {
  const TempDir directory;
  const std::string path = directory.file("talk.ibid");
  must(chat.send("first", greedy()));
  SaveReport report;
  ASSERT_TRUE(chat.save(path, {}, &report).ok());
  EXPECT_EQ(report.n_with_kv, 0u);
  const Result<ChatSession> loaded = ChatSession::load(engine, path);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->messages(), chat.messages());
  EXPECT_FALSE(loaded->load_warnings().any());
  EXPECT_EQ(ChatSession::load(engine, directory.file("none")).status().code(), ErrorCode::kNotFound);
}

TEST_F(ApiTest, SharedWakerWakesForEveryStream) {
  ChatSession second = session_of(engine);
  const auto waker = std::make_shared<Waker>();
  TurnStream one(chat, "first", greedy(), waker);
  TurnStream two(second, "second", greedy(), waker);
  std::string text_one, text_two;
  while (!one.is_over() || !two.is_over()) {
    while (const auto piece = one.poll()) text_one += *piece;
    while (const auto piece = two.poll()) text_two += *piece;
    if (!one.is_over() || !two.is_over()) waker->wait();
  }
  EXPECT_EQ(must(one.finish()).text, text_one);
  EXPECT_EQ(must(two.finish()).text, text_two);
  TurnStream again = TurnStream(chat, TurnStart::regenerate(), greedy());
  EXPECT_EQ(must(again.finish()).text, "theing");
  TurnStream edited = TurnStream(chat, TurnStart::edit(0, "third"), greedy());
  edited.cancel();
  (void)edited.finish();
  EXPECT_EQ(TurnStream(second, TurnStart::answer(), greedy()).finish().status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(ApiTest, ForgottenNamespaceIsPrefilledAgain) {
  must(session_of(engine).send("first", greedy()));
  EXPECT_EQ(must(session_of(engine).send("first", greedy())).usage.n_prefilled, 0u);
  ASSERT_TRUE(engine->forget_namespace("").ok());
  EXPECT_EQ(must(session_of(engine).send("first", greedy())).usage.n_cached, 0u);
  EXPECT_GT(engine->scheduler_stats().n_passes, 0u);
}

}  // namespace
}  // namespace ibid
