// What is promised of sessions, each promise with its goal beside what was measured. bench_sessions prints them.
//
// Counts are exact and the same on every machine; times and rates are not, and mean something on a machine with nothing
// else to do only.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "runtime/engine.h"

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
