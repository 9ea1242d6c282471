// The heap fails in a call of a session, at every allocation, once or from there on. The call returns kOutOfMemory and
// the session is unchanged; or it succeeds without optional parts (an entry in the store, idle work). Then the session
// continues with the same answers as one without failures.
//
// KV pages are not allocated by operator new: small pools test their exhaustion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "base/json_limits.h"
#include "cache/store/lru_kv_cache_store.h"
#include "ibid/turn_stream.h"
#include "tests/runtime/chat_memory_world.h"
#include "tests/support/failing_new.h"
#include "tests/support/no_threads.h"
#include "tests/support/store_invariants.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

// Each of the first and the last kEveryOne allocations fails in turn; of those between, where decoding repeats itself,
// every kStep-th (a prime).
constexpr size_t kEveryOne = 120;
constexpr size_t kStep = 19;

// Outcome of a call.
struct Outcome {
  ErrorCode code = ErrorCode::kOk;
  std::string text;
  std::vector<TokenLogprobs> logprobs;
  std::vector<Turn> turns;  // of several answers
  bool operator==(const Outcome& other) const {
    const auto same_text = [](const Turn& a, const Turn& b) { return a.text == b.text; };
    return code == other.code && text == other.text && logprobs == other.logprobs &&
           std::equal(turns.begin(), turns.end(), other.turns.begin(), other.turns.end(), same_text);
  }
};

Outcome outcome(Result<Turn> turn) {
  if (!turn.ok()) return {turn.status().code()};
  return {ErrorCode::kOk, std::move(turn->text), std::move(turn->logprobs), {}};
}
Outcome outcome(const Status& status) { return {status.code()}; }

struct Scenario {
  std::function<std::unique_ptr<World>()> prepare;
  std::function<Outcome(World&)> call;
  Json input = {};
  FailingNew::Threads threads = FailingNew::Threads::kAll;  // the compute thread is one of them
};

class ChatMemoryTest : public testing::TestWithParam<bool> {
 protected:
  void fail_everywhere(const Scenario& scenario) {
    const std::unique_ptr<World> never = scenario.prepare();
    never->input = scenario.input;
    FailingNew counting(FailingNew::kNever, false, scenario.threads);
    const Outcome expected = scenario.call(*never);
    counting.stop();
    ASSERT_EQ(expected.code, ErrorCode::kOk);
    const SessionSnapshot after(*never->chat);
    const Outcome next = outcome(never->chat->send("and then", greedy(12)));
    ASSERT_EQ(next.code, ErrorCode::kOk);
    const SessionSnapshot end(*never->chat);
    (void)never->chat->choose(99);  // ends its idle work

    size_t n_failed = 0;
    for (size_t n = 0;; n += n < kEveryOne || n + kStep + kEveryOne > counting.allocations() ? 1 : kStep) {
      SCOPED_TRACE(testing::Message() << "allocation " << n);
      const std::unique_ptr<World> world = scenario.prepare();
      world->input = scenario.input;
      std::optional<SessionSnapshot> before;
      std::vector<size_t> counted;
      if (world->chat) before.emplace(*world->chat), counted = counters(*world->chat);
      FailingNew failing(n, GetParam(), scenario.threads);
      const Outcome got = scenario.call(*world);
      failing.stop();
      if (got.code == ErrorCode::kOk) {
        ASSERT_EQ(got, expected);
      } else {
        ++n_failed;
        ASSERT_TRUE(failing.has_failed());
        ASSERT_EQ(got.code, ErrorCode::kOutOfMemory);
        ASSERT_EQ(world->chat.has_value(), before.has_value());
        if (before) {
          ASSERT_TRUE(SessionSnapshot(*world->chat) == *before);
          ASSERT_EQ(counters(*world->chat), counted);
          ASSERT_NO_FATAL_FAILURE(expect_rows_replay(*world->chat));
        }
        world->input = scenario.input;
        ASSERT_EQ(scenario.call(*world), expected) << "retry";
      }
      ASSERT_TRUE(SessionSnapshot(*world->chat) == after);
      ASSERT_EQ(outcome(world->chat->send("and then", greedy(12))), next);
      ASSERT_TRUE(SessionSnapshot(*world->chat) == end);
      ASSERT_NO_FATAL_FAILURE(expect_replays(*world->chat));
      ASSERT_THAT(validate_store(world->engine->state().store().snapshot()), testing::IsEmpty());
      if (!failing.has_failed()) break;
    }
    EXPECT_GT(n_failed, 0u) << "no allocation failed";
  }

  static Outcome send(World& world) { return outcome(world.chat->send("Hello there, abc", world.options)); }
};

INSTANTIATE_TEST_SUITE_P(OnceAndLasting, ChatMemoryTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Lasting" : "Once"; });

std::unique_ptr<World> begun(const char* chat_template = kChatMl, FakeModel::Options options = {.max_chunk = 16}) {
  auto world = std::make_unique<World>(chat_template, options);
  world->chat.emplace(world->session({.system = "be the best"}));
  return world;
}

// A session with one turn.
std::unique_ptr<World> talking(const char* chat_template = kChatMl, TurnOptions options = greedy(12)) {
  auto world = begun(chat_template);
  must(world->chat->send("x", options));
  return world;
}

std::unique_ptr<World> of_two_turns() {
  auto world = talking();
  must(world->chat->send("second", greedy(12)));
  return world;
}

TEST_P(ChatMemoryTest, FirstSendSurvivesFailedAllocations) {
  fail_everywhere({[] { return begun(); }, send});
}

TEST_P(ChatMemoryTest, LaterSendSurvivesFailedAllocations) {
  fail_everywhere({[] { return talking(); },
                   [](World& world) {
                     return outcome(world.chat->send("Hello there, abc", world.options,
                                                     [&](const TurnEvent&) { ++world.n_events; }));
                   }});
}

TEST_P(ChatMemoryTest, SendThatFindsPrefixOfAnotherSessionSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = begun();
                     ChatSession other = world->session({.system = "be the best"});
                     must(other.send(std::string(90, 'q') + " this", greedy(4)));
                     world->text = std::string(90, 'q') + std::string(70, 'r');
                     return world;
                   },
                   [](World& world) { return outcome(world.chat->send(world.text, world.options)); }});
}

TEST_P(ChatMemoryTest, SendWithoutDraftsSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = talking();
                     world->options.speculate = false;
                     return world;
                   },
                   send});
}

TEST_P(ChatMemoryTest, SendWithAcceptedDraftsSurvivesFailedAllocations) {
  const auto prepare = [] {
    auto world = begun();
    const Tokens again = world->tokenizer->sampled({"the", "abc", "lo", "the", "abc", "lo", "the", "abc", "lo", "the"});
    world->say({again, again, again, again});
    must(world->chat->send("x", greedy(12)));
    return world;
  };
  auto world = prepare();
  ASSERT_GT(must(world->chat->send("Hello there, abc", greedy(12))).usage.n_accepted, 0u);
  fail_everywhere({prepare, send});
}

TEST_P(ChatMemoryTest, SendWithPenaltiesSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = begun();
                     world->model->script = nullptr;
                     world->options = penalised();
                     must(world->chat->send("x", penalised()));
                     return world;
                   },
                   send});
}

TEST_P(ChatMemoryTest, SendWithLogprobsAndAStopStringSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = talking();
                     world->options.n_logprobs = 3;
                     world->options.stop_strings = {"ctheabcl"};
                     return world;
                   },
                   send});
}

TEST_P(ChatMemoryTest, RegenerateSurvivesFailedAllocations) {
  fail_everywhere(
      {[] { return of_two_turns(); }, [](World& world) { return outcome(world.chat->regenerate(world.options)); }});
}

TEST_P(ChatMemoryTest, RegenerateWithAPinSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = talking();
                     EXPECT_TRUE(world->chat->pin(0).ok());
                     return world;
                   },
                   [](World& world) { return outcome(world.chat->regenerate(world.options)); }});
}

TEST_P(ChatMemoryTest, RegenerateWithPenaltiesSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = talking(kChatMl, penalised());
                     world->options = penalised();
                     return world;
                   },
                   [](World& world) { return outcome(world.chat->regenerate(world.options)); }});
}

TEST_P(ChatMemoryTest, EditSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = of_two_turns();
                     EXPECT_TRUE(world->chat->pin(3).ok());
                     return world;
                   },
                   [](World& world) { return outcome(world.chat->edit(1, "something else, longer", world.options)); }});
}

TEST_P(ChatMemoryTest, SendAfterRewindSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = of_two_turns();
                     EXPECT_TRUE(world->chat->rewind_to(3).ok());
                     return world;
                   },
                   send});
}

TEST_P(ChatMemoryTest, ForkSurvivesFailedAllocations) {
  fail_everywhere({[] { return of_two_turns(); },
                   [](World& world) {
                     Result<ChatSession> fork = world.chat->fork();
                     if (fork.ok()) world.chat = *std::move(fork);
                     return outcome(fork.status());
                   }});
}

TEST_P(ChatMemoryTest, SetHistorySurvivesFailedAllocations) {
  fail_everywhere({[] { return of_two_turns(); },
                   [](World& world) { return outcome(world.chat->state().set_history(std::move(world.input))); },
                   Json::parse(R"([{"role": "system", "content": "be something that is longer than that"},
                                   {"role": "user", "content": "x"}, {"role": "assistant", "content": "Hello"}])")});
}

TEST_P(ChatMemoryTest, AnswerAfterSetHistorySurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world = of_two_turns();
                     Json history = world->chat->state().messages();
                     history.erase(3);
                     history.erase(3);
                     history.push_back({{"role", "user"}, {"content", "another one"}});
                     EXPECT_TRUE(world->chat->state().set_history(std::move(history)).ok());
                     return world;
                   },
                   [](World& world) { return outcome(world.chat->answer(world.options)); }});
}

TEST_P(ChatMemoryTest, AppendAndPrefillSurviveFailedAllocations) {
  fail_everywhere(
      {[] {
         auto world = talking();
         EXPECT_TRUE(world->chat->state().append({{"role", "tool"}, {"content", std::string(80, 't')}}).ok());
         return world;
       },
       [](World& world) { return outcome(world.chat->prefill().status()); }});
  fail_everywhere(
      {[] { return talking(kStripsThinking); }, [](World& world) { return outcome(world.chat->prefill().status()); }});
}

TEST_P(ChatMemoryTest, AnswerAfterPrefillSurvivesFailedAllocations) {
  fail_everywhere(
      {[] {
         auto world = talking();
         EXPECT_TRUE(world->chat->state().append({{"role", "user"}, {"content", std::string(80, 't')}}).ok());
         EXPECT_TRUE(world->chat->prefill().ok());
         return world;
       },
       [](World& world) { return outcome(world.chat->answer(world.options)); }});
}

TEST_P(ChatMemoryTest, AppendResetSetSystemAndPinSurviveFailedAllocations) {
  fail_everywhere({[] { return begun(); },
                   [](World& world) { return outcome(world.chat->state().append(std::move(world.input))); },
                   {{"role", "user"}, {"content", "a text that a string does not hold without memory of its own"}}});
  fail_everywhere({[] { return talking(); }, [](World& world) { return outcome(world.chat->reset()); }});
  fail_everywhere({[] { return talking(); },
                   [](World& world) {
                     return outcome(world.chat->set_system("a text that a string does not hold without memory"));
                   }});
  fail_everywhere({[] { return talking(); }, [](World& world) { return outcome(world.chat->pin(1)); }});
}

TEST_P(ChatMemoryTest, FailedErrorMessageLeavesTheSessionUnchanged) {
  for (size_t n = 0; n < 12; ++n) {
    SCOPED_TRACE(n);
    auto world = talking();
    ChatSession& chat = *world->chat;
    const SessionSnapshot before(chat);
    const TurnOptions bad{.sampler = {.temperature = -1}};
    FailingNew failing(n, GetParam());
    const ErrorCode codes[] = {chat.send("\xff", world->options).status().code(),
                               chat.send("x", bad).status().code(),
                               chat.rewind_to(9).code(),
                               chat.rewind_to(0).code(),
                               chat.choose(1).code(),
                               chat.edit(7, "x", world->options).status().code(),
                               chat.pin(9).code(),
                               chat.answer(world->options).status().code()};
    failing.stop();
    for (const ErrorCode code : codes) {
      EXPECT_TRUE(code == ErrorCode::kInvalidArgument || code == ErrorCode::kOutOfMemory);
    }
    EXPECT_TRUE(SessionSnapshot(chat) == before);
  }
}

Outcome three_answers(World& world) {
  Result<std::vector<Turn>> turns = world.chat->send_for_answers("which", 3, world.options);
  if (!turns.ok()) return {turns.status().code()};
  return {ErrorCode::kOk, {}, {}, *std::move(turns)};
}

std::unique_ptr<World> with_choice(size_t n_answers) {
  auto world = begun();
  world->model->script = nullptr;
  world->options = {.sampler = {.temperature = 1, .min_p = 0, .seed = 3}, .max_tokens = 5};
  must(world->chat->send("x", world->options));
  if (n_answers > 0) {
    EXPECT_TRUE(world->chat->send_for_answers("which", n_answers, world->options).ok());
  }
  return world;
}

TEST_P(ChatMemoryTest, SeveralAnswersSurviveFailedAllocationsOnCallingThread) {
  fail_everywhere({[] { return with_choice(0); }, three_answers, {}, FailingNew::Threads::kThisOne});
}

TEST_P(ChatMemoryTest, SeveralAnswersSurviveFailedAllocationsOnAnyThread) {
  fail_everywhere({[] { return with_choice(0); }, three_answers});
}

TEST_P(ChatMemoryTest, ChooseDoesNotAllocate) {
  auto world = with_choice(3);
  FailingNew failing(0, GetParam());
  const ErrorCode code = world->chat->choose(2).code();
  failing.stop();
  EXPECT_EQ(code, ErrorCode::kOk);
  EXPECT_EQ(failing.allocations(), 0u);
  must(world->chat->send("and then", greedy(12)));
  expect_replays(*world->chat);
}

TEST_P(ChatMemoryTest, TurnStreamSurvivesFailedAllocations) {
  fail_everywhere({[] { return talking(); },
                   [](World& world) -> Outcome {
                     std::optional<TurnOptions> options;
                     try {
                       options = world.options;
                     } catch (const std::bad_alloc&) {  // before the call
                       return {ErrorCode::kOutOfMemory};
                     }
                     TurnStream stream(*world.chat, "a short one", *std::move(options));
                     return outcome(stream.finish());
                   },
                   {},
                   FailingNew::Threads::kAll});
}

// After the next call fails, the alternatives are still there.
TEST_P(ChatMemoryTest, SendWithAlternativesSurvivesFailedAllocations) {
  fail_everywhere({[] { return with_choice(2); },
                   [](World& world) {
                     Outcome got = send(world);
                     if (got.code != ErrorCode::kOk) {
                       EXPECT_TRUE(world.chat->choose(1).ok());
                       EXPECT_TRUE(world.chat->choose(0).ok());
                     }
                     return got;
                   }});
}

TEST_P(ChatMemoryTest, SaveSurvivesFailedAllocations) {
  const TempDir dir;
  const std::string path = dir.path() + "/talk.ibid";
  for (const bool with_kv : {false, true}) {
    fail_everywhere({[] { return of_two_turns(); },
                     [&](World& world) {
                       const Outcome got = outcome(world.chat->save(path, {.with_kv = with_kv}));
                       EXPECT_NE(got.code, ErrorCode::kIo);
                       return got;
                     }});
    World fresh;
    EXPECT_TRUE(ChatSession::load(fresh.engine, path).ok());
    EXPECT_EQ(fresh.engine->state().files().list(dir.path())->size(), 1u) << "no temporary file is left";
  }
}

TEST_P(ChatMemoryTest, FailedSaveKeepsExistingFile) {
  const TempDir dir;
  const std::string path = dir.path() + "/talk.ibid";
  auto world = talking();
  ASSERT_TRUE(world->chat->save(path).ok());
  const Json saved = world->chat->state().messages();
  must(world->chat->send("second", greedy(12)));
  for (size_t n = 0; n < 200; n += 3) {
    FailingNew failing(n, GetParam());
    const Status status = world->chat->save(path);
    failing.stop();
    if (status.ok()) break;
    ASSERT_EQ(world->engine->state().files().list(dir.path())->size(), 1u);
    World fresh;
    Result<ChatSession> loaded = ChatSession::load(fresh.engine, path);
    ASSERT_TRUE(loaded.ok());
    ASSERT_EQ(loaded->state().messages(), saved);
  }
}

TEST_P(ChatMemoryTest, LoadSurvivesFailedAllocations) {
  const TempDir dir;
  const std::string path = dir.path() + "/talk.ibid";
  for (const bool with_kv : {false, true}) {
    ASSERT_TRUE(of_two_turns()->chat->save(path, {.with_kv = with_kv}).ok());
    // Some keys and values may be missing: the next turn prefills them again.
    for (size_t n = 0;; n += n < kEveryOne ? 1 : kStep) {
      SCOPED_TRACE(n);
      World world;
      FailingNew failing(n, GetParam());
      Result<ChatSession> loaded = ChatSession::load(world.engine, path);
      failing.stop();
      if (!loaded.ok()) {
        ASSERT_EQ(loaded.status().code(), ErrorCode::kOutOfMemory);
        loaded = ChatSession::load(world.engine, path);
      }
      ASSERT_TRUE(loaded.ok());
      auto never = of_two_turns();
      ASSERT_EQ(loaded->ids(), never->chat->ids());
      ASSERT_EQ(loaded->state().messages(), never->chat->state().messages());
      EXPECT_EQ(must(loaded->send("and then", greedy(12))).text, must(never->chat->send("and then", greedy(12))).text);
      ASSERT_TRUE(SessionSnapshot(*loaded) == SessionSnapshot(*never->chat));
      expect_replays(*loaded);
      if (!failing.has_failed()) break;
    }
  }
}

TEST_P(ChatMemoryTest, SendThatDropsTurnsSurvivesFailedAllocations) {
  fail_everywhere({[] {
                     auto world =
                         std::make_unique<World>(kChatMl, FakeModel::Options{.max_seq_len = 150, .max_chunk = 16});
                     world->model->script = nullptr;
                     world->chat.emplace(world->session({.system = "be", .when_full = WhenFull::kDropOldestTurns}));
                     for (const char letter : {'o', 'p', 'q'}) {
                       must(world->chat->send(std::string(20, letter), greedy(5)));
                     }
                     EXPECT_TRUE(world->chat->pin(3).ok());
                     world->options.max_tokens = 5;
                     return world;
                   },
                   [](World& world) {
                     Result<Turn> turn = world.chat->send("a fourth question, which is long", world.options);
                     EXPECT_TRUE(!turn.ok() || turn->left_out.n_messages > 0);
                     return outcome(std::move(turn));
                   }});
}

TEST_P(ChatMemoryTest, CreateSurvivesFailedAllocations) {
  fail_everywhere({[] { return std::make_unique<World>(); },
                   [](World& world) -> Outcome {
                     std::optional<SessionOptions> options;
                     try {
                       options.emplace();
                       options->system = "a system message that is too long to need no memory";
                       options->variables = R"({"x": 1})";
                       options->repair_when_idle = false;
                     } catch (const std::bad_alloc&) {  // before the call
                       return {ErrorCode::kOutOfMemory};
                     }
                     Result<ChatSession> chat = ChatSession::create(world.engine, *std::move(options));
                     if (chat.ok()) world.chat = *std::move(chat);
                     return outcome(chat.status());
                   }});
}

TEST_P(ChatMemoryTest, SendThatRewritesTheHistorySurvivesFailedAllocations) {
  fail_everywhere({[] { return talking(kStripsThinking); }, send});
}

// Idle work is either done or not.
TEST_P(ChatMemoryTest, IdleWorkSurvivesFailedAllocations) {
  const auto prepare = [] {
    auto world = std::make_unique<World>(kStripsThinking);
    world->chat = *ChatSession::create(world->engine, {.system = "be"});
    return world;
  };
  fail_everywhere({prepare,
                   [](World& world) {
                     Outcome got = send(world);
                     (void)world.chat->choose(99);  // ends it
                     return got;
                   },
                   {},
                   FailingNew::Threads::kAll});
}

// No call needs a new thread.
TEST(ChatWithoutThreadsTest, OnlyEngineCreationNeedsThreads) {
  auto world = with_choice(0);
  World thinking(kStripsThinking);
  ChatSession chat = *ChatSession::create(thinking.engine, {.system = "be"});
  {
    const NoThreads none;
    EXPECT_EQ(three_answers(*world).code, ErrorCode::kOk);
    TurnStream stream(*world->chat, "a short one", world->options);
    EXPECT_TRUE(stream.finish().ok());
    EXPECT_EQ(must(chat.send("x", greedy(12))).text, "<think>ing</think>Hello");
    EngineParts parts;
    parts.model = std::make_unique<FakeModel>();
    parts.tokenizer = std::make_unique<FakeTokenizer>();
    EXPECT_EQ(make_engine(std::move(parts)).status().code(), ErrorCode::kOutOfMemory);
  }
  must(chat.send("y", greedy(12)));
  expect_replays(chat);
}

}  // namespace
}  // namespace ibid
