// Concurrent sessions on real forward passes: with shared passes and cancellations at any time each session has the KV
// of a cold pass over its tokens, and the same answers as alone.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/tiny_chat.h"

namespace ibid {
namespace {

constexpr int kTurns = 3;

// The calls of one user, determined by a number.
struct Person {
  explicit Person(uint64_t n) : number(n) {}

  SessionOptions session() const {
    return {.system = "be the best " + std::string(150, 'z'),
            .now = "2026-01-31T12:00:00",
            .repair_when_idle = number % 2 == 0};
  }
  std::string question(int turn) const {
    const std::string text = "Hello " + std::to_string(number % 4) + " the " + std::to_string(turn);
    return number % 4 == 1 ? text + std::string(250, 'q') : text;
  }
  TurnOptions options(int turn) const {
    return {.sampler = {.temperature = 0.7, .seed = number * 100 + static_cast<uint64_t>(turn)},
            .max_tokens = 6 + number,
            .speculate = number % 3 != 0,
            .priority = number % 5 == 4 ? Priority::kLow : Priority::kNormal};
  }
  // Cancels at that piece of text, keeping the partial answer; 0: never.
  size_t stops_at(int turn) const { return number % 8 == 3 && turn == 2 ? 4 : 0; }

  const uint64_t number;
};

// Runs one turn; keeps a partial answer if the person cancels.
std::string answer_of(ChatSession& chat, const Person& person, int turn) {
  TurnOptions options = person.options(turn);
  std::stop_source source;
  options.stop = source.get_token();
  size_t n_pieces = 0;
  const Result<Turn> done = chat.send(person.question(turn), options, [&](const TurnEvent& event) {
    if (event.kind == TurnEvent::Kind::kText && ++n_pieces == person.stops_at(turn)) source.request_stop();
  });
  EXPECT_TRUE(done.ok()) << done.status().to_string();
  return done.ok() ? done->text : std::string();
}

// Begins the same turn, possibly cancelled at any time by another thread.
void begin_and_cancel(ChatSession& chat, const Person& person, int turn, StopMode mode, std::mt19937_64& rng) {
  TurnOptions options = person.options(turn);
  std::stop_source source;
  options.stop = source.get_token();
  options.stop_mode = mode;
  const std::chrono::microseconds delay(rng() % 3000);
  std::jthread canceller([&] {
    std::this_thread::sleep_for(delay);
    source.request_stop();
  });
  const size_t n_messages = chat.state().messages().size();
  const Result<Turn> done = chat.send(person.question(turn), options);
  if (!done.ok()) {
    EXPECT_EQ(done.status().code(), ErrorCode::kCancelled) << done.status().to_string();
    EXPECT_EQ(chat.state().messages().size(), n_messages);
  } else if (mode == StopMode::kDiscard) {
    EXPECT_TRUE(chat.rewind_to(n_messages).ok());
  }
}

std::vector<std::string> answers_alone(const WeightsAndKv& kind, const Person& person) {
  const auto engine = tiny_engine(kind, {}, 1, 48, kShouts);
  ChatSession chat = *ChatSession::create(engine, person.session());
  std::vector<std::string> answers;
  for (int turn = 0; turn < kTurns; ++turn) answers.push_back(answer_of(chat, person, turn));
  return answers;
}

class SessionThreads : public testing::TestWithParam<WeightsAndKv> {
 protected:
  void run(Isa isa, int n_threads, size_t n_sessions, uint64_t seed) {
    const auto engine = tiny_engine(GetParam(), isa, n_threads, 48, kShouts);
    std::vector<ChatSession> chats;
    for (size_t i = 0; i < n_sessions; ++i) chats.push_back(*ChatSession::create(engine, Person(i).session()));
    std::vector<std::vector<std::string>> answers(n_sessions);
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < n_sessions; ++i) {
      threads.emplace_back([&, i] {
        std::mt19937_64 rng(seed * 1000 + i);
        const Person person(i);
        for (int turn = 0; turn < kTurns; ++turn) {
          if (rng() % 2 == 0) begin_and_cancel(chats[i], person, turn, StopMode::kDiscard, rng);
          answers[i].push_back(answer_of(chats[i], person, turn));
        }
        begin_and_cancel(chats[i], person, kTurns, StopMode::kKeepPartial, rng);
      });
    }
    threads.clear();
    EXPECT_GT(engine->state().scheduler().stats().n_shared_passes, 0u);
    ColdModel cold(GetParam());
    for (size_t i = 0; i < n_sessions; ++i) {
      SCOPED_TRACE("session " + std::to_string(i));
      if (alone_.size() <= i) alone_.push_back(answers_alone(GetParam(), Person(i)));
      EXPECT_EQ(answers[i], alone_[i]);
      expect_cold_bits(chats[i], cold);
    }
  }

  std::vector<std::vector<std::string>> alone_;
};

TEST_P(SessionThreads, EightConcurrentSessionsGiveTheAnswersOfSingleSessions) {
  uint64_t seed = 0;
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    SCOPED_TRACE(isa_name(isa));
    ++seed;
    run(isa, seed % 2 == 0 ? 2 : 1, 8, seed);
    if (HasFailure()) return;
  }
}

TEST_P(SessionThreads, SixteenConcurrentSessionsGiveTheAnswersOfSingleSessions) { run(*active_isa(), 1, 16, 77); }

INSTANTIATE_TEST_SUITE_P(All, SessionThreads, testing::ValuesIn(kEveryKvType),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ibid
