// What is promised of sessions, each promise with its goal beside what was measured. bench_sessions prints them.
//
// Counts are exact and the same on every machine; times and rates are not, and mean something on a machine with nothing
// else to do only.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "ibid/turn.h"
#include "runtime/engine/engine_state.h"

namespace ibid {

struct Claim {
  std::string what;
  std::string goal;      // empty: none, the number is for information
  std::string measured;
  std::optional<bool> holds;  // nothing: there is no goal
  Json values = Json::object();
};
using ClaimSink = std::function<void(const Claim&)>;

// An engine on one model file; each call loads it anew. With a cache directory unless it is empty.
using LoadEngine = std::function<Result<std::shared_ptr<Engine>>(const std::string& cache_directory)>;

// Up to 199 bytes.
template <typename... Values>
std::string text_of(const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// An answer of n tokens, one a pass: what drafts save is another measurement.
inline TurnOptions greedy_reply(size_t n_tokens) {
  TurnOptions options;
  options.sampler.temperature = 0;
  options.min_tokens = options.max_tokens = n_tokens;
  options.speculate = false;
  return options;
}

// Errors of all: those of Engine::load() and of ChatSession.
// 100 turns up to 8,000 tokens, and the counters of 200 turns.
Status claims_of_long_chats(const LoadEngine& load, const ClaimSink& sink);
// 50 sessions with one system message of 3,000 tokens.
Status claims_of_shared_prompt(const LoadEngine& load, const ClaimSink& sink);
// A conversation of 4,000 tokens goes on after a restart.
Status claims_of_resuming(const LoadEngine& load, size_t rounds, const ClaimSink& sink);
// Finding 4,000 tokens in memory, and what they cost there.
Status claims_of_memory(const LoadEngine& load, const ClaimSink& sink);
// Sessions beside each other: gaps, rates, cancelling, eight at once.
Status claims_of_company(const LoadEngine& load, size_t rounds, const ClaimSink& sink);

}  // namespace ibid
