// Threads: one compute thread and one team for any number of callers; callers receive events on their own threads and
// block no other; a turn cancelled by its callback ends exactly after the text that the callback received.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ibid/turn_stream.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/tiny_chat.h"
#include "tests/support/process_threads.h"

namespace ibid {
namespace {

TEST(CallersTest, SessionCallsStartNoThreads) {
  constexpr int kTeam = 16, kCallers = 64;
  const size_t before = n_threads_here();
  const auto engine = tiny_engine(kEveryKvType[0], {}, kTeam, 48, kShouts);
  const size_t with_engine = n_threads_here();
  EXPECT_EQ(with_engine, before + kTeam) << "the compute thread is the team's first";
  std::vector<std::jthread> callers;
  std::atomic<size_t> most{0};
  std::latch done(kCallers), leave(1);
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      ChatSession chat = *ChatSession::create(engine, {.system = "be " + std::to_string(i % 5)});
      for (int turn = 0; turn < 2; ++turn) {
        EXPECT_TRUE(chat.send("Hello " + std::to_string(i), {.max_tokens = 3}).ok());
        size_t n = n_threads_here();
        for (size_t seen = most; seen < n && !most.compare_exchange_weak(seen, n);) {
        }
      }
      EXPECT_TRUE(chat.send_for_answers("which", 3, {.max_tokens = 3}).ok());
      done.count_down();
      leave.wait();
    });
  }
  done.wait();
  EXPECT_LE(most.load(), with_engine + kCallers);
  EXPECT_EQ(n_threads_here(), with_engine + kCallers) << "the callers' own threads";
  leave.count_down();
  callers.clear();
  EXPECT_EQ(n_threads_here(), with_engine);
}

TEST(CallersTest, EightThreadsPull256ConcurrentAnswers) {
  constexpr size_t kCallers = 8, kEach = 32;
  const WeightsAndKv& kind = kEveryKvType[1];
  const auto options = [](size_t i) {
    return TurnOptions{.sampler = {.temperature = 0.9, .min_p = 0, .seed = i + 1}, .max_tokens = 6 + i % 9};
  };
  const auto question = [](size_t i) { return "Hello " + std::to_string(i % 40) + std::string(i % 3 * 60, 'q'); };
  const SessionOptions about{
      .system = "be the best " + std::string(100, 'z'), .now = "2026-01-31T12:00:00", .repair_when_idle = false};
  // The first pass waits until all streams have begun.
  std::latch begun(kCallers);
  const auto engine = tiny_engine(kind, {}, 2, 48, kShouts, {}, [&](size_t) { begun.wait(); });
  std::vector<ChatSession> chats;
  for (size_t i = 0; i < kCallers * kEach; ++i) chats.push_back(*ChatSession::create(engine, about));
  std::vector<std::string> heard(chats.size());
  std::vector<std::jthread> callers;
  for (size_t c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      const auto waker = std::make_shared<Waker>();
      std::vector<TurnStream> streams;
      for (size_t i = c * kEach; i < (c + 1) * kEach; ++i) {
        streams.emplace_back(chats[i], question(i), options(i), waker);
      }
      begun.count_down();
      for (;;) {
        bool all_over = true;
        for (size_t s = 0; s < kEach; ++s) {
          while (const auto piece = streams[s].poll()) heard[c * kEach + s] += *piece;
          all_over = all_over && streams[s].is_over();
        }
        if (all_over) break;
        waker->wait();
      }
      for (TurnStream& stream : streams) EXPECT_TRUE(stream.finish().ok());
    });
  }
  callers.clear();
  EXPECT_GT(engine->state().scheduler().stats().most_sequences, 8u);
  const auto alone = tiny_engine(kind, {}, 1, 48, kShouts);
  ColdModel cold(kind);
  for (size_t i = 0; i < chats.size(); ++i) {
    ChatSession chat = *ChatSession::create(alone, about);
    ASSERT_EQ(must(chat.send(question(i), options(i))).text, heard[i]) << i;
    ASSERT_EQ(chats[i].ids(), chat.ids()) << i;
    if (i % 16 == 0) expect_cold_bits(chats[i], cold);
  }
}

// Both sessions need the same prefix. The first prefills it, and its callback blocks until the other turn is over.
TEST(CallersTest, BlockedCallbackDoesNotBlockOtherSessions) {
  for (const TurnEvent::Kind kind : {TurnEvent::Kind::kPrefill, TurnEvent::Kind::kText}) {
    ChatFixture f(kChatMl, {.max_chunk = 32});
    f.say({f.tokenizer->sampled({"ab", "abc"})});
    const SessionOptions about{.system = std::string(300, 'z')};
    ChatSession slow = f.session(about), other = f.session(about);
    std::latch is_blocked(1), is_over(1);
    std::jthread caller([&] {
      bool blocks = true;
      must(slow.send("x", greedy(), [&](const TurnEvent& event) {
        if (event.kind != kind || !std::exchange(blocks, false)) return;
        is_blocked.count_down();
        is_over.wait();
      }));
    });
    is_blocked.wait();
    EXPECT_EQ(must(other.send("y", greedy())).text, "ababc");
    is_over.count_down();
    caller.join();
    expect_replays(slow);
    expect_replays(other);
    EXPECT_LT(f.model->take_fed().size(), 300 + 5 * kPagePositions) << "the system message was prefilled once";
  }
}

TEST(CallersTest, CallbackMayCallAnotherSession) {
  ChatFixture f(kChatMl, {.max_chunk = 32});
  f.say({f.tokenizer->sampled({"ab"})});
  const SessionOptions about{.system = std::string(300, 'z')};
  ChatSession one = f.session(about), other = f.session(about);
  size_t n_asked = 0;
  must(one.send("x", greedy(), [&](const TurnEvent& event) {
    if (event.kind != TurnEvent::Kind::kPrefill || n_asked > 0) return;
    ++n_asked;
    EXPECT_EQ(must(other.send("y", greedy())).text, "ab");
    EXPECT_EQ(one.send("z").status().code(), ErrorCode::kBusy);
  }));
  EXPECT_EQ(n_asked, 1u);
  expect_replays(one);
  expect_replays(other);
}

// --- cancelled by the callback

// Repeats its letters: drafts are right, except at every twentieth token.
struct Reciting : ChatFixture {
  Reciting() {
    model->change_logits = [](TokenSpan prefix, std::span<float> row) {
      row[static_cast<size_t>('a' + (prefix.size() % 20 == 0 ? 13 : prefix.size() % 6))] += 20;
      row['z'] += 18;
    };
  }
};

TurnOptions reciting(bool looks_back) {
  TurnOptions options;
  options.sampler = {.temperature = 0.8, .min_p = 0, .seed = 5};
  if (looks_back) options.sampler.frequency_penalty = 0.05, options.sampler.dry_multiplier = 0.1;
  options.max_tokens = 60;
  options.n_logprobs = 1;
  return options;
}

// Waits for n passes, or for the end of the answer.
void wait_for_passes(const ChatFixture& f, size_t n) {
  for (int i = 0; i < 100 && f.engine->state().scheduler().stats().n_passes < n; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void expect_same_rows(const ChatSession& a, const ChatSession& b) {
  ASSERT_EQ(a.ids(), b.ids());
  ASSERT_EQ(a.state().kv().length(), b.state().kv().length());
  const std::vector<float> rows = FakeModel::rows_of(a.state().kv()), wanted = FakeModel::rows_of(b.state().kv());
  ASSERT_EQ(std::memcmp(rows.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
}

// Cancelled at a piece after the answer ran ahead, the turn equals that of a second session with max_tokens at that
// piece, and both conversations continue alike: text, tokens, KV, and drafted and accepted counts.
TEST(CallersTest, TurnCancelledByCallbackEndsAfterReceivedText) {
  size_t n_ran_ahead = 0;
  for (const bool looks_back : {false, true}) {
    for (size_t stops_at = 1; stops_at < 50; stops_at += 3) {
      SCOPED_TRACE(testing::Message() << "piece " << stops_at << (looks_back ? ", with penalties" : ""));
      Reciting f, twin_f;
      ChatSession chat = f.session(), twin = twin_f.session();
      must(chat.send("before", reciting(looks_back)));
      must(twin.send("before", reciting(looks_back)));
      std::stop_source source;
      TurnOptions options = reciting(looks_back);
      options.stop = source.get_token();
      std::string heard;
      size_t n_pieces = 0;
      const size_t n_before = f.engine->state().scheduler().stats().n_passes;
      const Turn turn = must(chat.send("now", options, [&](const TurnEvent& event) {
        if (event.kind != TurnEvent::Kind::kText) return;
        heard += event.text;
        if (++n_pieces != stops_at) return;
        // Lets the answer run ahead: several passes more, or to its end.
        const size_t n = f.engine->state().scheduler().stats().n_passes;
        wait_for_passes(f, n + 4);
        // The prompt is one pass, which also samples the first letter: n letters take at most n passes.
        n_ran_ahead += f.engine->state().scheduler().stats().n_passes > n_before + stops_at ? 1 : 0;
        source.request_stop();
      }));
      EXPECT_EQ(n_pieces, stops_at);
      EXPECT_EQ(turn.finish_reason, FinishReason::kCancelled);
      EXPECT_EQ(turn.text, heard);
      EXPECT_EQ(turn.usage.n_decoded, stops_at) << "every token is a letter";
      TurnOptions cut = reciting(looks_back);
      cut.max_tokens = stops_at;
      const Turn wanted = must(twin.send("now", cut));
      EXPECT_EQ(turn.text, wanted.text);
      EXPECT_EQ(turn.logprobs, wanted.logprobs);
      EXPECT_EQ(turn.work.history_steps, wanted.work.history_steps);
      ASSERT_NO_FATAL_FAILURE(expect_same_rows(chat, twin));
      ASSERT_NO_FATAL_FAILURE(expect_replays(chat));
      const Turn next = must(chat.send("then", reciting(looks_back)));
      const Turn twins_next = must(twin.send("then", reciting(looks_back)));
      EXPECT_EQ(next.text, twins_next.text);
      EXPECT_EQ(next.usage.n_accepted, twins_next.usage.n_accepted);
      ASSERT_NO_FATAL_FAILURE(expect_same_rows(chat, twin));
    }
  }
  EXPECT_GT(n_ran_ahead, 0u) << "the answer never ran ahead";
}

TEST(CallersTest, DiscardedTurnWithUnreadTokensLeavesSessionUnchanged) {
  Reciting f;
  ChatSession chat = f.session();
  must(chat.send("before", reciting(true)));
  const SessionSnapshot before(chat);
  for (const TurnEvent::Kind kind : {TurnEvent::Kind::kPrefill, TurnEvent::Kind::kText}) {
    std::stop_source source;
    TurnOptions options = reciting(true);
    options.stop = source.get_token();
    options.stop_mode = StopMode::kDiscard;
    const Result<Turn> turn = chat.send("now", options, [&](const TurnEvent& event) {
      if (event.kind != kind) return;
      const size_t n = f.engine->state().scheduler().stats().n_passes;
      wait_for_passes(f, n + 4);
      source.request_stop();
    });
    EXPECT_EQ(turn.status().code(), ErrorCode::kCancelled);
    EXPECT_TRUE(SessionSnapshot(chat) == before);
  }
  must(chat.send("now", reciting(true)));
  expect_replays(chat);
}

TEST(CallersTest, TurnCancelledInPrefillEmitsNoTextOfTheComputedAnswer) {
  Reciting f;
  ChatSession chat = f.session();
  std::stop_source source;
  TurnOptions options = reciting(false);
  options.stop = source.get_token();
  const Result<Turn> turn = chat.send("now", options, [&](const TurnEvent& event) {
    ASSERT_EQ(event.kind, TurnEvent::Kind::kPrefill);
    wait_for_passes(f, 5);
    source.request_stop();
  });
  EXPECT_EQ(turn.status().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(chat.state().messages().empty());
  must(chat.send("now", reciting(false)));
  expect_replays(chat);
}

// --- the engine of a session

TEST(CallersTest, CountTokensRunsOnAnyThreadDuringChoose) {
  ChatFixture f;
  ChatSession chat = f.session();
  ASSERT_TRUE(chat.send_for_answers("x", 3, greedy(3)).ok());
  const size_t wanted = chat.count_tokens("Hello world");
  std::atomic<bool> choosing{true};
  std::jthread counts([&] {
    while (choosing) ASSERT_EQ(chat.count_tokens("Hello world"), wanted);
  });
  for (size_t i = 0; i < 20'000; ++i) ASSERT_TRUE(chat.choose(i % 3).ok());
  ASSERT_TRUE(chat.reset().ok());
  choosing = false;
}

// The last session destroys the engine, on its thread.
TEST(CallersTest, LastSessionMayBeDestroyedOnAnyThread) {
  for (int i = 0; i < 20; ++i) {
    auto f = std::make_unique<ChatFixture>(kStripsThinking);
    f->say({f->tokenizer->sampled({"<think>", "ing", "</think>", "Hello"})});
    auto chat = std::make_unique<ChatSession>(*ChatSession::create(f->engine));
    f.reset();
    std::jthread([chat = std::move(chat)]() mutable {
      must(chat->send("x", greedy()));  // idle work begins
      chat.reset();
    }).join();
  }
}

#ifndef __SANITIZE_THREAD__  // it ends the children of processes with threads
TEST(CallersTest, CallsInForkedChildReturnUnsupportedWithoutHanging) {
  auto engine = tiny_engine(kEveryKvType[0], {}, 2, 48, kShouts);
  auto chat = std::make_unique<ChatSession>(*ChatSession::create(engine));
  ASSERT_TRUE(chat->send("Hello", {.max_tokens = 3}).ok());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const ErrorCode codes[] = {chat->send("x").status().code(),
                               chat->regenerate().status().code(),
                               chat->prefill().status().code(),
                               chat->send_for_answers("x", 2).status().code(),
                               chat->fork().status().code(),
                               chat->reset().code(),
                               chat->save("/nowhere/at/all").code(),
                               TurnStream(*chat, "x").finish().status().code(),
                               ChatSession::create(engine).status().code()};
    for (const ErrorCode code : codes) {
      if (code != ErrorCode::kUnsupported) _exit(1);
    }
    if (chat->send("x").status().message().find("fork") == std::string::npos) _exit(2);
    chat.reset();
    engine.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(chat->send("and the parent goes on", {.max_tokens = 3}).ok());
}
#endif

}  // namespace
}  // namespace ibid
