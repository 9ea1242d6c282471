// Answers that run ahead of their listener in a pool too small for the model: a stop cuts them back to what the
// listener received, and a discarded turn to the conversation before. Earlier rows and states may be evicted; the
// conversation is unchanged nevertheless, and the next turn prefills them again.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "runtime/prompt/turn_meter.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/random_conversation_laws.h"

namespace ibid {
namespace {

struct ShortPool : ChatFixture {
  ShortPool(bool recurrent, size_t window, size_t n_pages, size_t n_states)
      : ChatFixture(kChatMl, options(recurrent, window), budget(recurrent, window, n_pages, n_states)) {
    model->before_layer = [this](size_t, size_t layer) {
      n_passes += layer == 0 ? 1 : 0;
      return Status();
    };
    model->script = [](TokenSpan) { return std::optional<TokenId>('a'); };
  }
  static FakeModel::Options options(bool recurrent, size_t window) {
    return {.max_seq_len = 1000, .max_chunk = 48, .recurrent = recurrent, .window = window};
  }
  static size_t budget(bool recurrent, size_t window, size_t n_pages, size_t n_states) {
    const FakeModel like(options(recurrent, window));
    return n_pages * like.kv_layout().page_bytes() + n_states * like.kv_layout().state_bytes();
  }

  // Waits until the answer is n passes further, or makes no more progress.
  void let_run_ahead(size_t n) const {
    const size_t end = n_passes + n;
    for (size_t n_waited = 0, before = n_passes; n_passes < end && n_waited < 10; ++n_waited) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (n_passes != before) n_waited = 0;
      before = n_passes;
    }
  }

  std::atomic<size_t> n_passes = 0;
};

using Call = std::function<Status(ChatSession&, const TurnOptions&, const TurnCallback&, std::vector<Turn>&)>;

Status keep_turn(Result<Turn> turn, std::vector<Turn>& turns) {
  if (turn.ok()) turns.push_back(*turn);
  return turn.status();
}

const std::vector<Call> kCalls = {
    [](ChatSession& chat, const TurnOptions& o, const TurnCallback& e, std::vector<Turn>& turns) {
      return keep_turn(chat.send("and", o, e), turns);
    },
    [](ChatSession& chat, const TurnOptions& o, const TurnCallback& e, std::vector<Turn>& turns) {
      return keep_turn(chat.regenerate(o, e), turns);
    },
    [](ChatSession& chat, const TurnOptions& o, const TurnCallback& e, std::vector<Turn>& turns) {
      return keep_turn(chat.edit(2, "another", o, e), turns);
    },
    [](ChatSession& chat, const TurnOptions& o, const TurnCallback& e, std::vector<Turn>& turns) {
      EXPECT_TRUE(chat.state().append({{"role", "user"}, {"content", "more"}}).ok());
      return keep_turn(chat.answer(o, e), turns);
    },
    [](ChatSession& chat, const TurnOptions& o, const TurnCallback& e, std::vector<Turn>& turns) {
      Result<std::vector<Turn>> all =
          chat.send_for_answers("many", 2, o, [&](size_t, const TurnEvent& event) { e(event); });
      if (all.ok()) turns = *all;
      return all.status();
    },
};

// Returns true if rows were lost, so that a later turn prefilled them again.
bool stop_far_behind(ShortPool& f, size_t n_first, const Call& call, StopMode mode) {
  ChatSession chat = f.session({.system = "be the best"});
  if (!chat.send(std::string(n_first, 'q'), greedy(6)).ok()) return false;
  if (!chat.send("then", greedy(6)).ok()) return false;
  std::stop_source stop;
  TurnOptions options = greedy(0);
  options.stop = stop.get_token();
  options.stop_mode = mode;
  options.speculate = false;
  size_t n_heard = 0;
  const auto stops = [&](const TurnEvent& event) {
    if (event.kind != TurnEvent::Kind::kText || ++n_heard < 2) return;
    f.let_run_ahead(150);
    stop.request_stop();
  };
  std::vector<Turn> turns;
  const SessionFace before(chat);
  const Status status = call(chat, options, stops, turns);
  if (mode == StopMode::kDiscard) {
    EXPECT_FALSE(status.ok());
    if (&call != &kCalls[3]) {
      EXPECT_EQ(SessionFace(chat), before);
    }
  }
  for (const Turn& turn : turns) {
    expect_usage_laws(turn);
    EXPECT_LE(turn.work.pages_touched, 100u);
  }
  expect_rows_replay(chat);
  const Result<ChatSession> fork = chat.fork();
  EXPECT_TRUE(fork.ok());
  const Result<Turn> next = chat.send("x", greedy(3));
  if (!next.ok()) {
    EXPECT_EQ(next.status().code(), ErrorCode::kOutOfMemory) << next.status().to_string();
    return false;
  }
  expect_usage_laws(*next);
  EXPECT_LE(chat.usage().n_cached, chat.usage().n_prompt);
  expect_rows_replay(chat);
  expect_engine_laws(*f.engine);
  return next->usage.n_reprefilled > 0;
}

TEST(ShortPoolTest, StoppingAnAnswerWithUnreadTokensKeepsTheConversation) {
  struct Shape {
    bool recurrent;
    size_t window;
  };
  for (const Shape shape : {Shape{true, 0}, Shape{false, 16}, Shape{true, 16}}) {
    size_t n_lost = 0;
    for (size_t n_pages = 3; n_pages < 8; ++n_pages) {
      for (size_t n_first : {20u, 70u, 120u}) {
        for (const Call& call : kCalls) {
          for (const StopMode mode : {StopMode::kDiscard, StopMode::kKeepPartial}) {
            ShortPool f(shape.recurrent, shape.window, n_pages, shape.recurrent ? 3 + n_pages % 3 : 0);
            n_lost += stop_far_behind(f, n_first, call, mode) ? 1 : 0;
            ASSERT_FALSE(HasFailure()) << "window " << shape.window << " recurrent " << shape.recurrent << " pages "
                                       << n_pages << " first " << n_first << " call " << &call - kCalls.data()
                                       << " mode " << static_cast<int>(mode);
          }
        }
      }
    }
    EXPECT_GT(n_lost, 0u) << "no pool was too small";
  }
}

// Usage of a prefill for several answers, and of the first answer.
TEST(ShortPoolTest, UsageOfPrefillAndTurnCountsEachPositionOnce) {
  struct Case {
    Usage turn, read;
    size_t n_cached, n_prefilled;
  };
  const Usage read{.n_prompt = 100, .n_cached = 40, .n_prefilled = 60};
  const auto found = [](size_t n) { return Usage{.n_prompt = 100, .n_cached = n, .n_prefilled = 100 - n}; };
  const std::vector<Case> cases = {
      {found(100), read, 40, 60},
      {found(99), read, 40, 60},
      // All prefilled positions were evicted, or some, or even earlier ones.
      {found(40), read, 40, 60},
      {found(64), read, 40, 60},
      {found(32), read, 32, 68},
      {found(0), read, 0, 100},
      {found(90), {}, 90, 10},
  };
  for (Case one : cases) {
    one.read.n_reprefilled = std::min<size_t>(one.read.n_prefilled, 20);
    one.read.n_from_disk = one.read.n_cached;
    add_prefill_usage(one.turn, one.read);
    EXPECT_EQ(one.turn.n_cached, one.n_cached);
    EXPECT_EQ(one.turn.n_prefilled, one.n_prefilled);
    EXPECT_LE(one.turn.n_reprefilled, one.turn.n_prefilled);
    EXPECT_LE(one.turn.n_from_disk, one.turn.n_cached);
  }
}

}  // namespace
}  // namespace ibid
