// ServeLoad: several concurrent users of a server. In each round a user sends a question, waits for the answer, and
// then for a think time. All users share one system message; each has a history of its own. The load measures the times
// that users see. It has the shape of multi-round-qa in vLLM's production-stack.
//
// Texts are English words in an order set by the seed, so each run sends the same texts. Lengths are in words, because
// only the server can count tokens. Not thread-safe; starts and joins one thread per user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/chat_client/chat_server.h"
#include "base/result.h"

namespace ibid {

struct LoadShape {
  size_t users = 4;
  size_t rounds = 4;
  size_t system_words = 600;   // words of the system message, which all users share
  size_t history_words = 300;  // words of a user's own history before the first question
  size_t question_words = 24;
  size_t answer_tokens = 48;
  double think_seconds = 0.5;    // seconds between an answer and the user's next question
  double stagger_seconds = 0.5;  // seconds between the starts of two users
  uint64_t seed = 1;
  std::optional<size_t> end_token;  // id of the model's end token, for servers without ignore_eos
};

// One question of one user, with the times that the user sees. Times are in milliseconds unless noted.
struct LoadSample {
  size_t user = 0, round = 0;  // both are counted from 0
  double start_s = 0;          // seconds from the start of the load to the question
  double first_ms = 0;         // time to the first piece of text
  double total_ms = 0;
  double token_ms = 0;                       // mean time between two tokens of the answer; 0: it had only one token
  std::optional<size_t> n_prompt, n_cached;  // counts that the server reports
  size_t n_completion_tokens = 0;            // generated tokens that the server reports, else received pieces
  std::string failure;                       // reason of the failure; empty: the question was answered
};

struct LoadResult {
  std::vector<LoadSample> samples;  // sorted by user, then round
  double wall_seconds = 0;          // seconds from the first question to the end of the last answer
  // true: n_completion_tokens was reported by the server; false: it is the number of received pieces.
  bool server_reports_counts = true;
};

// Runs the load. Calls `on_sample` for each finished sample, one at a time. A failed request or an empty answer is also
// a sample; the user then continues without that answer.
LoadResult run_load(const ChatServer& server, const ServedModel& model, const LoadShape& shape,
                    const std::function<void(const LoadSample&)>& on_sample);

// Returns the first request of a user: the system message, and the history with the first question.
Json first_messages(const LoadShape& shape, size_t user);
// Returns the question of a round, counted from 0.
std::string question_of(const LoadShape& shape, size_t user, size_t round);

// Returns the quantile `share` (0 to 1) of the values, interpolated; 0 if `values` is empty.
double at_share(std::vector<double> values, double share);

}  // namespace ibid
