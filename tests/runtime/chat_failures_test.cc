// All or nothing: turns that are cancelled, fail or are rejected at any point.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "cache/store/lru_kv_cache_store.h"
#include "runtime/session/session_file.h"
#include "runtime/session/session_state.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using ::testing::HasSubstr;

constexpr size_t kLayers = 3;

// A conversation of one turn, on a model with three layers and eight rows per pass.
struct Story : ChatFixture {
  explicit Story(const char* chat_template = kChatMl)
      : ChatFixture(chat_template, {.max_chunk = 8, .n_layers = kLayers}), chat(session({.system = "be the best"})) {
    say({tokenizer->sampled({"<think>", "ing", "</think>", "Hello"}),
         tokenizer->sampled({"a", "b", "lo", " wor", "the", "abc"}), tokenizer->sampled({"th"})});
    must(chat.send("x", greedy()));
  }
  static std::string question() { return "Hello there, abc"; }

  ChatSession chat;
};

// Runs body for every pass and layer of the second turn.
template <typename Body>
void at_every_layer(const char* chat_template, Body body) {
  Story probe(chat_template);
  const size_t first_call = probe.model->n_calls();
  must(probe.chat.send(Story::question(), greedy()));
  const size_t n_calls = probe.model->n_calls() - first_call;
  ASSERT_GT(n_calls, 7u);
  for (size_t call = 0; call < n_calls; ++call) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      SCOPED_TRACE("call " + std::to_string(call) + " layer " + std::to_string(layer));
      body(first_call + call, layer);
    }
  }
}

void expect_same_ending(Story& story, const char* chat_template) {
  Story never(chat_template);
  must(never.chat.send(Story::question(), greedy()));
  const Turn turn = must(story.chat.send(Story::question(), greedy()));
  EXPECT_EQ(turn.text, never.chat.state().messages().back()["content"].get<std::string>());
  EXPECT_EQ(SessionSnapshot(story.chat).rows, SessionSnapshot(never.chat).rows);
  EXPECT_EQ(story.chat.ids(), never.chat.ids());
  EXPECT_EQ(story.chat.state().transcript().bytes(), never.chat.state().transcript().bytes());
  EXPECT_EQ(story.chat.state().messages(), never.chat.state().messages());
  expect_replays(story.chat);
}

class ChatFailuresTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Templates, ChatFailuresTest, ::testing::Values(kChatMl, kStripsThinking),
                         [](const auto& param) { return param.index == 0 ? "ChatMl" : "StripsThinking"; });

TEST_P(ChatFailuresTest, DiscardedTurnChangesNothing) {
  at_every_layer(GetParam(), [&](size_t call, size_t layer) {
    Story story(GetParam());
    const SessionSnapshot before(story.chat);
    std::stop_source source;
    story.model->before_layer = [&](size_t c, size_t l) {
      if (c == call && l == layer) source.request_stop();
      return Status();
    };
    TurnOptions options = greedy();
    options.stop = source.get_token();
    options.stop_mode = StopMode::kDiscard;
    EXPECT_EQ(story.chat.send(Story::question(), options).status().code(), ErrorCode::kCancelled);
    EXPECT_EQ(SessionSnapshot(story.chat), before);
    story.model->before_layer = nullptr;
    expect_same_ending(story, GetParam());
  });
}

TEST_P(ChatFailuresTest, FailedPassChangesNothing) {
  at_every_layer(GetParam(), [&](size_t call, size_t layer) {
    Story story(GetParam());
    const SessionSnapshot before(story.chat);
    story.model->before_layer = [&](size_t c, size_t l) {
      return c == call && l == layer ? Status(ErrorCode::kOutOfMemory, "injected") : Status();
    };
    EXPECT_EQ(story.chat.send(Story::question(), greedy()).status().code(), ErrorCode::kOutOfMemory);
    EXPECT_EQ(SessionSnapshot(story.chat), before);
    EXPECT_EQ(story.chat.regenerate({.sampler = {.temperature = -1}}).status().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(SessionSnapshot(story.chat), before);
    story.model->before_layer = nullptr;
    expect_same_ending(story, GetParam());
  });
}

TEST_P(ChatFailuresTest, KeptPartialAnswerHasExactlyTheSampledTokens) {
  at_every_layer(GetParam(), [&](size_t call, size_t layer) {
    Story story(GetParam());
    const SessionSnapshot before(story.chat);
    std::stop_source source;
    story.model->before_layer = [&](size_t c, size_t l) {
      if (c == call && l == layer) source.request_stop();
      return Status();
    };
    TurnOptions options = greedy();
    options.stop = source.get_token();
    std::string streamed;
    const Result<Turn> turn =
        story.chat.send(Story::question(), options, [&](const TurnEvent& e) { streamed += e.text; });
    story.model->before_layer = nullptr;
    if (!turn.ok()) {
      EXPECT_EQ(turn.status().code(), ErrorCode::kCancelled);
      EXPECT_EQ(streamed, "");
      EXPECT_EQ(SessionSnapshot(story.chat), before);
      return;
    }
    EXPECT_EQ(turn->finish_reason, FinishReason::kCancelled);
    EXPECT_EQ(turn->text, streamed);
    EXPECT_TRUE(std::string("ablo wortheabc").starts_with(turn->text)) << turn->text;
    EXPECT_FALSE(turn->text.empty());
    EXPECT_EQ(story.chat.state().messages().back()["content"], turn->text);
    expect_replays(story.chat);
    // The conversation continues from there: the template closes the answer.
    story.model->take_fed();
    const size_t held = story.chat.state().kv().length();
    const Turn next = must(story.chat.send("y", greedy()));
    EXPECT_EQ(next.usage.n_cached, held);
    EXPECT_EQ(story.tokenizer->decode(story.chat.ids()), story.chat.state().transcript().bytes());
    expect_replays(story.chat);
  });
}

TEST(ChatFailuresTest, FailedRegenerateKeepsOldAnswer) {
  Story story;
  const SessionSnapshot before(story.chat);
  story.model->before_layer = [](size_t, size_t) { return Status(ErrorCode::kOutOfMemory, "injected"); };
  EXPECT_FALSE(story.chat.regenerate(greedy()).ok());
  EXPECT_EQ(SessionSnapshot(story.chat), before);
  story.model->before_layer = nullptr;
  expect_same_ending(story, kChatMl);
}

// A saved session shows the pins.
TEST(ChatFailuresTest, FailedRegenerateKeepsPins) {
  Story story;
  const size_t answer = story.chat.state().messages().size() - 1;
  ASSERT_TRUE(story.chat.pin(answer).ok());
  story.model->before_layer = [](size_t, size_t) { return Status(ErrorCode::kOutOfMemory, "injected"); };
  EXPECT_FALSE(story.chat.regenerate(greedy()).ok());
  EXPECT_FALSE(story.chat.edit(1, "y", greedy()).ok());
  const TempDir directory;
  const std::string path = directory.file("talk");
  ASSERT_TRUE(story.chat.save(path).ok());
  const Result<LoadedSession> saved =
      read_session_file(story.engine->state().files(), path, story.engine->state().pool(), nullptr);
  ASSERT_TRUE(saved.ok());
  EXPECT_EQ(saved->session.pinned, std::set<size_t>{answer});
}

TEST(ChatFailuresTest, RetryReusesPrefillOfCancelledTurn) {
  Story story;
  const std::string question(200, 'q');
  const size_t first_call = story.model->n_calls();
  std::stop_source source;
  story.model->before_layer = [&](size_t call, size_t) {
    if (call == first_call + 10) source.request_stop();
    return Status();
  };
  TurnOptions options = greedy();
  options.stop = source.get_token();
  const size_t held = story.chat.state().kv().length();
  EXPECT_EQ(story.chat.send(question, options).status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(story.chat.state().kv().length(), held);
  const Turn turn = must(story.chat.send(question, greedy()));
  EXPECT_EQ(turn.usage.n_cached, held + 10 * 8) << "ten passes of eight rows";
  expect_replays(story.chat);
}

TEST(ChatFailuresTest, CallThatIsStoppedBeforeItBeginsComputesNothing) {
  Story story;
  const SessionSnapshot before(story.chat);
  std::stop_source source;
  source.request_stop();
  TurnOptions options = greedy();
  options.stop = source.get_token();
  story.model->take_fed();
  EXPECT_EQ(story.chat.send("x", options).status().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(story.model->take_fed().empty());
  EXPECT_EQ(SessionSnapshot(story.chat), before);
}

TEST(ChatFailuresTest, CallsDuringTurnReturnBusyAndChangeNothing) {
  Story story;
  std::map<std::string, ErrorCode> codes;
  bool asked = false;
  must(story.chat.send("y", greedy(), [&](const TurnEvent& e) {
    if (e.kind != TurnEvent::Kind::kText || asked) return;
    asked = true;
    codes["send"] = story.chat.send("z", greedy()).status().code();
    codes["regenerate"] = story.chat.regenerate(greedy()).status().code();
    codes["rewind_to"] = story.chat.rewind_to(1).code();
    codes["fork"] = story.chat.fork().status().code();
    codes["reset"] = story.chat.reset().code();
    codes["set_system"] = story.chat.set_system("x").code();
    std::thread([&] { codes["thread"] = story.chat.send("z", greedy()).status().code(); }).join();
  }));
  EXPECT_EQ(codes.size(), 7u);
  for (const auto& [call, code] : codes) EXPECT_EQ(code, ErrorCode::kBusy) << call;
  EXPECT_EQ(story.chat.state().messages().size(), 5u);
  expect_replays(story.chat);
  must(story.chat.send("z", greedy()));
}

TEST(ChatFailuresTest, PromptBeyondContextFailsBeforeComputation) {
  ChatFixture f(kChatMl, {.max_seq_len = 100, .max_chunk = 16});
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"Hello"}), f.tokenizer->sampled({"Hello"})});
  must(chat.send("x", greedy()));
  const SessionSnapshot before(chat);
  f.model->take_fed();
  bool any_event = false;
  const size_t n = chat.ids().size() + f.next_prompt(std::string(200, 'q')).size();
  const Result<Turn> turn = chat.send(std::string(200, 'q'), greedy(), [&](const TurnEvent&) { any_event = true; });
  EXPECT_EQ(turn.status().code(), ErrorCode::kContextFull);
  EXPECT_THAT(turn.status().message(), HasSubstr(std::to_string(n)));
  EXPECT_THAT(turn.status().message(), HasSubstr("100"));
  EXPECT_FALSE(any_event);
  EXPECT_TRUE(f.model->take_fed().empty());
  EXPECT_EQ(SessionSnapshot(chat), before);
  must(chat.send("y", greedy()));
  expect_replays(chat);
}

TEST(ChatFailuresTest, AnswerEndsAtFullContext) {
  ChatFixture f(kChatMl, {.max_seq_len = 40, .max_chunk = 16});
  ChatSession chat = f.session();
  f.say({Tokens(100, TokenId{'a'})});
  const Turn turn = must(chat.send("x", greedy(0)));
  EXPECT_EQ(turn.finish_reason, FinishReason::kLength);
  EXPECT_EQ(chat.state().kv().length(), 40u);
  EXPECT_EQ(turn.text.size(), 40 - turn.usage.n_prompt + 1) << "the last token needs no position until it is fed";
  expect_replays(chat);
  const SessionSnapshot before(chat);
  EXPECT_EQ(chat.send("y", greedy()).status().code(), ErrorCode::kContextFull);
  EXPECT_EQ(SessionSnapshot(chat), before);

  // A prompt that fills the whole context still gets one token.
  ChatFixture exact(kChatMl, {.max_seq_len = f.prompt("x").size(), .max_chunk = 16});
  exact.say({Tokens(100, TokenId{'a'})});
  ChatSession full = exact.session();
  EXPECT_EQ(must(full.send("x", greedy(0))).text, "a");
}

TEST(ChatFailuresTest, NonFiniteLogitsFailTheTurn) {
  Story story;
  const SessionSnapshot before(story.chat);
  story.model->change_logits = [](TokenSpan, std::span<float> row) { row[3] = std::nanf(""); };
  EXPECT_EQ(story.chat.send("y", greedy()).status().code(), ErrorCode::kNonFinite);
  EXPECT_EQ(SessionSnapshot(story.chat), before);
  story.model->change_logits = nullptr;
  expect_same_ending(story, kChatMl);
}

// Sessions that exceed the budget: a rejected turn changes nothing, and others succeed.
TEST(ChatFailuresTest, TurnBeyondTheBudgetFailsAndLaterTurnsSucceed) {
  const size_t page = KvLayout::make(2, 1, 4, KvDType::kF32).page_bytes();
  ChatFixture f(kChatMl, {}, 6 * page);
  f.say({Tokens(10, TokenId{'a'}), Tokens(300, TokenId{'a'})});
  ChatSession chat = f.session();
  must(chat.send("x", greedy()));
  const SessionSnapshot before(chat);
  const Result<Turn> turn = chat.send(std::string(150, 'q'), greedy(0));
  EXPECT_EQ(turn.status().code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(SessionSnapshot(chat), before);
  must(chat.send("y", greedy(5)));
  expect_replays(chat);
  // Entries that only the store holds are evicted.
  ASSERT_TRUE(chat.reset().ok());
  for (int i = 0; i < 5; ++i) {
    ChatSession other = f.session();
    must(other.send(std::string(150, static_cast<char>('b' + i)), greedy()));
    expect_replays(other);
  }
}

TEST(ChatFailuresTest, ConcurrentSessionsGiveTheAnswersOfSingleSessions) {
  ChatFixture f(kChatMl, {.max_chunk = 16});
  const auto converse = [](ChatFixture& fixture, int who) {
    ChatSession chat = fixture.session({.system = "be the best"});
    TurnOptions options{.sampler = {.temperature = 1.0, .min_p = 0, .seed = 7}, .max_tokens = 12};
    for (int turn = 0; turn < 4; ++turn) must(chat.send("question " + std::to_string(who * 10 + turn), options));
    expect_replays(chat);
    return json_to_string(chat.state().messages());
  };
  constexpr int kThreads = 4;
  std::vector<std::string> together(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int who = 0; who < kThreads; ++who) {
      threads.emplace_back([&, who] { together[static_cast<size_t>(who)] = converse(f, who); });
    }
  }
  for (int who = 0; who < kThreads; ++who) {
    ChatFixture alone(kChatMl, {.max_chunk = 5});
    EXPECT_EQ(together[static_cast<size_t>(who)], converse(alone, who)) << who;
  }
}

// The answer ends in an incomplete character, the model ends its turn, and the replacement character completes a stop
// string: neither the character's token nor the end of the turn is part of the conversation.
TEST(ChatFailuresTest, StopStringCompletedByTheEndOfTurnIsNotPartOfTheConversation) {
  for (const bool looks_back : {false, true}) {
    ChatFixture f;
    f.say({Tokens{'a', 0xE2}, Tokens{'b', 'c'}});
    ChatSession chat = f.session();
    TurnOptions options = greedy();
    options.stop_strings = {"\uFFFD"};
    if (looks_back) options.sampler.presence_penalty = 0.1;
    const Turn turn = must(chat.send("x", options));
    EXPECT_EQ(turn.text, "a");
    EXPECT_EQ(turn.finish_reason, FinishReason::kStopString);
    EXPECT_EQ(chat.ids(), joined({f.prompt("x"), Tokens{'a'}}));
    expect_replays(chat);
    EXPECT_EQ(must(chat.send("y", options)).text, "bc");
    expect_replays(chat);
  }
}

}  // namespace
}  // namespace ibid
