// The request for an answer, in tokens, and its result; runtime/generate/answer.h computes the result. Plain data.
#pragma once

#include <algorithm>
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
#include "runtime/generate/checkpoint_positions.h"
#include "runtime/scheduler/pass_plan.h"
#include "runtime/scheduler/pending_prefixes.h"
#include "sampling/constraint.h"
#include "sampling/sampler.h"
#include "sampling/speculation.h"

namespace ibid {

// The guard of answers without a chosen length, for chat, ask and the server; the library's default is no guard. It
// ends answers that repeat themselves, and limits answers to a quarter of the context, so that no single answer fills
// it. Small models often find no end by themselves.
inline void guard_answer(TurnOptions& options, size_t max_seq_len) {
  options.max_tokens = std::max<size_t>(1, max_seq_len / 4);
  options.stop_repetition = true;
}

// Logits after the last token of a prompt: [vocab_size]. With them an answer needs no pass before its first token.
using PromptLogits = std::shared_ptr<const std::vector<float>>;

// A prompt that other sessions may prefill at the same time, or may look up later.
struct SharedPrompt {
  PendingPrefixes* pending = nullptr;
  std::string name_space;
  uint64_t n_changes = 0;  // PendingPrefixes::n_changes() before the last search of the store
  // These functions run on the compute thread, and must not throw.
  std::function<PrefixHit(TokenSpan ids)> search;    // searches the store again
  std::function<void(KvCacheEntry longer)> replace;  // replaces the answer's entry by a longer one that search() found
  // Publishes the computed KV: full pages, or if `whole`, up to the last token. Returns true if all of it was
  // published.
  std::function<bool(KvCacheEntry& entry, bool with_last_page)> publish;
};

// Which events the owner of an answer takes, and what a stop does to an answer that is beyond these events.
enum class Delivery {
  kNone,       // no events are queued
  kAll,        // all events; a stopped answer ends at its current token
  kUntilStop,  // the events before the stop; a stopped answer ends after the last event that was taken
};

struct GenerateRequest {
  Tokens prompt;            // prompt tokens from prompt_begin on: those that the entry lacks, or for a SharedPrompt all
  size_t prompt_begin = 0;  // position of prompt[0]; at most the entry's length
  // Logits after the prompt's last token, [vocab_size], if they are cached and nothing is to be prefilled.
  PromptLogits prompt_logits;
  std::optional<SharedPrompt> shared;
  CheckpointPositions checkpoints;              // positions at which recurrent states are checkpointed
  size_t max_tokens = 0;                        // at least 1
  std::vector<TokenId> stop_ids;                // tokens that end the turn
  size_t min_tokens = 0;                        // minimum number of tokens before a stop token
  const TokenConstraint* constraint = nullptr;  // constraint of the sampled tokens; the answer uses a clone
  bool stop_repetition = false;                 // end an answer that repeats itself
  bool keep_when_out_of_memory = false;         // as TurnOptions::keep_when_out_of_memory
  bool keeps(const Status& status) const {      // true if the answer so far is kept after this error
    return keep_when_out_of_memory && status.code() == ErrorCode::kOutOfMemory;
  }
  bool continues = false;            // the prompt ends in text that the answer continues
  TokenSpan shown_tokens;            // special tokens that the text shows; must outlive the answer
  std::optional<size_t> n_logprobs;  // log-probabilities of each token and the n most likely, at most kMaxTopLogprobs
  std::vector<TokenId> logprob_token_ids;  // as TurnOptions::logprob_token_ids
  bool logprobs_after_sampling = false;    // as TurnOptions::logprobs_after_sampling
  Priority priority = Priority::kNormal;
  std::stop_token stop;
  Tokens expected;             // likely first tokens of the answer: verified as drafts
  Drafter* drafter = nullptr;  // has the prompt's tokens; the answer adds the sampled tokens
  int64_t start_ns = 0;        // start time of the call; ttft_ms is measured from this time
  Delivery delivery = Delivery::kNone;
};

// Progress of an answer.
struct AnswerProgress {
  size_t length = 0;      // computed and final positions; the entry may also have draft tokens after these
  size_t n_sampled = 0;   // number of sampled tokens, including dropped ones
  size_t n_drafts = 0;    // number of passes that verified a draft
  size_t n_drafted = 0;   // number of draft tokens that were verified
  size_t n_accepted = 0;  // number of draft tokens that were accepted
  size_t n_text = 0;      // bytes of text that may be emitted
  uint64_t n_draws = 0;   // number of random numbers that the sampler has drawn
  WorkCounters work;      // passes, rows, and steps of the history
  Timings timings;        // times of match, prefill, decode and sample, and time to the first token
};

// kPrefill, or kText with the log-probabilities (TurnOptions::n_logprobs) of the tokens whose text has been emitted,
// except those in earlier events.
struct AnswerEvent {
  TurnEvent event;
  AnswerProgress progress;  // the answer's progress up to this event
};

// The sampled tokens. The last sampled token (of ids, then end_of_turn) has no KV yet; the KV is computed when the
// token is fed. Tokens and text end before a stop string, and a token that overlaps the stop string is dropped, so
// `text` may be longer than the text of `ids`.
struct Generation {
  PromptLogits prompt_logits;  // logits after the prompt's last token, to answer the same prompt again
  Tokens ids;
  std::vector<size_t> text_ends;        // bytes of the text up to the end of each token
  std::vector<TokenLogprobs> logprobs;  // log-probabilities of each token, if requested
  std::string text;                     // the whole reply
  std::optional<TokenId> end_of_turn;   // the stop token that was sampled; unset after a stop string
  std::string stop_string;              // the stop string that was found
  FinishReason finish_reason = FinishReason::kStop;
  size_t n_text_taken = 0;  // bytes of the text in events that the owner took: all bytes, unless the answer was stopped
};

}  // namespace ibid
