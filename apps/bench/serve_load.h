// ServeLoad: several people who talk to a server at once, each in rounds: the same system message for all, a history
// of one's own, questions that wait for the answer before and for a while to think. It measures what they see. The
// shape is that of multi-round-qa of vLLM's production-stack.
//
// Texts are plain words of an English vocabulary that a seed puts in order, so that each run of a load sends the same.
// Lengths are counted in words, since only the server knows its tokens; how many those are, it says. For one thread,
// which starts a thread for each user and joins it.
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
  size_t system_words = 600;    // the same for all
  size_t history_words = 300;   // of each user, in front of the first question
  size_t question_words = 24;
  size_t answer_tokens = 48;
  double think_seconds = 0.5;   // between an answer and the next question
  double stagger_seconds = 0.5; // between the starts of two users
  uint64_t seed = 1;
  std::optional<size_t> end_token;  // the id that ends an answer, for a server that has to be told never to take it
};

// One question of one user as the user saw it. Times are in milliseconds.
struct LoadSample {
  size_t user = 0, round = 0;  // from 0 on
  double start_s = 0;          // since the load began
  double first_ms = 0;         // to the first piece of text
  double total_ms = 0;
  double token_ms = 0;         // from one token to the next, on average; 0: there was one token
  std::optional<size_t> n_prompt, n_cached;  // as the server says
  size_t n_said = 0;           // as the server says; else the pieces that came
  std::string failure;         // empty: it was answered
};

struct LoadResult {
  std::vector<LoadSample> samples;  // by user, then round
  double wall_seconds = 0;          // from the first question to the end of the last answer
  bool counts_are_servers = true;   // else n_said counts pieces
};

// Asks all of it. `tell` hears of each sample as it is there, one at a time. A request that fails, or whose answer has
// no word, is a sample, and its user goes on without the answer.
LoadResult run_load(const ChatServer& server, const ServedModel& model, const LoadShape& shape,
                    const std::function<void(const LoadSample&)>& tell);

// The messages of a user in front of the first question and with it: the system message, and one of the user.
Json first_messages(const LoadShape& shape, size_t user);
// The question of a round from 1 on.
std::string question_of(const LoadShape& shape, size_t user, size_t round);

// The value below which this share of the values lies, interpolated; 0 without values.
double at_share(std::vector<double> values, double share);

}  // namespace ibid
