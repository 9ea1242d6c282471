// The inside of a ChatSession: its state, and how a turn runs on it. Not for users of the library.
// Not thread-safe but for `busy`, which the session's calls take turns by.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "runtime/chat_session.h"
#include "runtime/speculation.h"
#include "runtime/transcript.h"

namespace ibid {

struct ChatSession::State {
  State(std::shared_ptr<Engine> engine, SessionOptions options);
  State(const State& other);  // a fork
  State& operator=(const State&) = delete;

  // Answers `messages`, whose last one is a question. On success the answer is appended and everything is
  // committed; on failure all but `messages` is as before.
  Result<Turn> run_turn(const TurnOptions& options, const TurnCallback& on_event);

  // Keeps the first n messages. REQUIRES: n <= messages.size().
  void cut_messages(size_t n);
  // Starts over with the system message alone.
  void begin();
  size_t n_system_messages() const { return options.system.empty() ? 0 : 1; }

  std::shared_ptr<Engine> engine;
  SessionOptions options;
  Json messages = Json::array();
  Transcript transcript;
  PromptPlanner planner;
  KvCacheEntry kv;             // of the first ids of the transcript: all, or all but the last
  Drafter drafter;
  size_t n_indexed = 0;        // the drafter's first ids, which are the transcript's
  Usage usage;
  Timings timings;
  bool rewound = false;        // what lies behind the messages in the transcript is not expected to stay
  bool search_store = true;    // the store may hold more of the next prompt than `kv`
  mutable std::atomic<bool> busy{false};

 private:
  // What `kv` was before a turn laid hands on it.
  struct KvBefore {
    size_t length = 0;
    std::optional<KvCacheEntry> entry;  // set when rows were dropped
  };

  PromptPlanner make_planner() const;
  // Makes `kv` hold the longest reusable part of the prompt, all but one id at most.
  KvBefore arrange_kv(const PromptDelta& delta, Turn& turn);
  // Makes the drafter hold the ids of the prompt.
  void index_prompt(const PromptDelta& delta, Turn& turn);
  Result<Generation> generate_answer(const PromptDelta& delta, const TurnOptions& turn_options,
                                     const TurnCallback& on_event, GenerateRequest& request, Sampler& sampler,
                                     StopDetector stops, Turn& turn);
  void give_up(const PromptDelta& delta, KvBefore before);
  void commit(const PromptDelta& delta, Generation generation, bool indexed, Turn& turn);
  // Tells the store what `kv` holds.
  void register_kv();
  // The prompt's ids from `begin` on.
  Tokens prompt_ids(const PromptDelta& delta, size_t begin) const;
  void finish_timings(Turn& turn, int64_t start_ns) const;
};

}  // namespace ibid
