// The request for an answer, in ids, and its result. Plain data; runtime/generate/answer.h computes the one from the
// other.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/store/lru_kv_cache_store.h"
#include "ibid/token.h"
#include "ibid/turn.h"
#include "ibid/usage.h"
#include "runtime/generate/state_borders.h"
#include "runtime/scheduler/pass_plan.h"
#include "runtime/scheduler/pending_prefixes.h"
#include "sampling/constraint.h"
#include "sampling/sampler.h"
#include "sampling/speculation.h"

namespace ibid {

// Logits behind the last id of a prompt: [vocab_size]. With them an answer needs no pass before its first token.
using PromptLogits = std::shared_ptr<const std::vector<float>>;

// A prompt that other sessions may be about to read as well, or may want to find later.
struct SharedPrompt {
  PendingPrefixes* pending = nullptr;
  std::string name_space;
  uint64_t n_changes = 0;                          // of `pending`, before the store was searched last
  // These functions run on the compute thread, and must not throw.
  std::function<PrefixHit(TokenSpan ids)> search;  // the store again
  // What was read can be found from now on: its full pages, or where `whole`, to the last id. Returns whether all of
  // it can.
  std::function<bool(KvCacheEntry& entry, bool whole)> publish;
};

struct GenerateRequest {
  Tokens prompt;            // from position prompt_begin on: what the entry lacks, or for a SharedPrompt the whole
  size_t prompt_begin = 0;  // at most the entry's length
  // The logits behind the prompt's last id, [vocab_size], where they are known and nothing is to be read.
  PromptLogits prompt_logits;
  std::optional<SharedPrompt> shared;
  StateBorders borders;     // of the prompt, for the recurrent states
  size_t max_tokens = 0;              // at least 1
  std::vector<TokenId> stop_ids;      // ids that end the turn
  size_t min_tokens = 0;              // stop ids are not chosen before so many others were
  const TokenConstraint* constraint = nullptr;  // what may be sampled at all; cloned, the prototype stays as it is
  bool stop_repetition = false;       // an answer that repeats itself ends
  bool keep_when_out_of_memory = false;  // as in TurnOptions
  bool keeps(const Status& status) const {  // what was said, when its next token fails so
    return keep_when_out_of_memory && status.code() == ErrorCode::kOutOfMemory;
  }
  TokenSpan shown_tokens;             // special tokens that the text shows; they outlive the answer
  std::optional<size_t> n_logprobs;   // log-probabilities of each id and the n likeliest, at most kMaxTopLogprobs
  Priority priority = Priority::kNormal;
  std::stop_token stop;
  Tokens expected;                    // what the answer is likely to begin with: verified, several ids in a pass
  Drafter* drafter = nullptr;         // holds the ids up to the end of the prompt, takes the sampled ones
  int64_t start_ns = 0;               // when the call began, on the clock: where ttft_ms counts from
  bool tells = false;                 // what happens is queued for the owner
};

// How far an answer has come.
struct AnswerProgress {
  size_t length = 0;      // positions that were fed and are certain; the entry may hold drafts beyond
  size_t n_sampled = 0;   // draws, dropped ones included
  size_t n_drafted = 0;   // ids that were verified before they were sampled
  size_t n_accepted = 0;  // of them, those that were sampled then
  size_t n_text = 0;      // bytes of text that may be heard
  uint64_t n_draws = 0;   // of the sampler's random numbers
  WorkCounters work;      // passes, rows, and steps of the history
  Timings timings;        // of matching, prefill, decoding, sampling, and to the first token
};

struct AnswerEvent {
  enum class Kind { kPrefill, kText };
  Kind kind = Kind::kText;
  size_t n_done = 0;        // kPrefill: positions of the prompt that have keys and values
  std::string text;         // kText: certain, in whole characters, never empty
  // kText, where they were asked for: of the ids whose text is told up to here, and that no event has told before.
  std::vector<TokenLogprobs> logprobs = {};
  AnswerProgress progress;  // what the answer is if it ends behind this
};

// What was sampled. The last id of all (ids, then end_of_turn) has no keys and values yet: they are
// computed when it is fed. After a stop string, ids and text end before it: of a token that reaches into
// it nothing stays, so `text` may be longer than the text of `ids`.
struct Generation {
  PromptLogits prompt_logits;          // behind the prompt's last id, for doing it again
  Tokens ids;
  std::vector<size_t> text_ends;       // length of the text behind each id
  std::vector<TokenLogprobs> logprobs; // of each id, when they were asked for
  std::string text;                    // the whole reply
  std::optional<TokenId> end_of_turn;  // the stop id that was sampled; none behind a stop string
  std::string stop_string;             // the stop string that was found
  FinishReason finish_reason = FinishReason::kStop;
};

}  // namespace ibid
