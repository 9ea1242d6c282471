// Claims about sessions, each with its goal and its measured value. bench_sessions prints them.
//
// Counts are exact and the same on every machine. Times and rates are meaningful only on an otherwise idle machine.
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
  std::string goal;  // empty: no goal, the value is for information only
  std::string measured;
  std::optional<bool> holds;  // nullopt: there is no goal
  Json values = Json::object();
};
using ClaimSink = std::function<void(const Claim&)>;

// Loads the model file and returns an engine on it. Argument: the cache directory; empty: none.
using LoadEngine = std::function<Result<std::shared_ptr<Engine>>(const std::string& cache_directory)>;

// snprintf() to a string of at most 199 bytes.
template <typename... Values>
std::string text_of(const char* format, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// Options for an answer of n tokens, one per pass: speculation is off, because it is measured elsewhere.
inline TurnOptions greedy_reply(size_t n_tokens) {
  TurnOptions options;
  options.sampler.temperature = 0;
  options.min_tokens = options.max_tokens = n_tokens;
  options.speculate = false;
  return options;
}

// Errors of all functions below: those of Engine::load() and of ChatSession. claims_of_long_chats() measures 100 turns
// of a chat that grows to 8,000 tokens, and the counters of 200 turns.
Status claims_of_long_chats(const LoadEngine& load, const ClaimSink& sink);
// Measures 50 sessions with one system message of 3,000 tokens.
Status claims_of_shared_prompt(const LoadEngine& load, const ClaimSink& sink);
// Measures resuming a conversation of 4,000 tokens after a restart.
Status claims_of_resuming(const LoadEngine& load, size_t rounds, const ClaimSink& sink);
// Measures the lookup of 4,000 tokens in the store, and the memory of these tokens.
Status claims_of_memory(const LoadEngine& load, const ClaimSink& sink);
// Measures concurrent sessions: gaps between tokens, rates, cancellation, eight at once.
Status claims_of_company(const LoadEngine& load, size_t rounds, const ClaimSink& sink);
// Measures the rates of constrained answers relative to unconstrained ones, alone and eight at once.
Status claims_of_constraints(const LoadEngine& load, size_t rounds, const ClaimSink& sink);

}  // namespace ibid
