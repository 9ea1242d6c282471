// The generation loop: prefill, then token by token, over one entry, in passes that the scheduler shares among
// sessions. It knows ids, text and stops, and nothing of messages or templates.
//
// With a drafter, a pass verifies the ids that are likely to follow along with the one that was sampled.
// Each position's id is drawn from its logits in the same way and order as without, so ids, text, events,
// draws and the entry are the same; only passes are fewer. Drafts stay within the page of the id in front of
// them: they take no memory that this id would not.
//
// Cancellation is looked at before every chunk, in every layer of a pass and before every token. Whatever
// happens, the entry holds exactly the ids that were fed and committed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "cache/kv_cache_entry.h"
#include "runtime/constraint.h"
#include "runtime/logprobs.h"
#include "runtime/sampler.h"
#include "runtime/scheduler.h"
#include "runtime/speculation.h"
#include "runtime/stats.h"
#include "runtime/stop_detector.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

enum class FinishReason {
  kStop,        // the model ended its turn
  kLength,      // max_tokens, or the context is full
  kStopString,  // a stop string of the options
  kCancelled,   // the stop token
  kRepetition,  // the answer has begun to repeat itself (runtime/repetition.h)
};
// "stop", "length", "stop_string", "cancelled", "repetition".
std::string_view finish_reason_name(FinishReason reason);

struct GenerateRequest {
  TokenSpan prefill;                  // stands at entry.length(); empty only with prompt_logits
  // The logits behind the entry's last id, [vocab_size], where they are known and nothing is to be read.
  std::shared_ptr<const std::vector<float>> prompt_logits;
  size_t max_tokens = 0;              // at least 1
  std::vector<TokenId> stop_ids;      // ids that end the turn
  size_t min_tokens = 0;              // stop ids are not chosen before so many others were
  const TokenConstraint* constraint = nullptr;  // what may be sampled at all; cloned, the prototype stays as it is
  bool stop_repetition = false;       // an answer that repeats itself ends
  std::optional<size_t> n_logprobs;   // log-probabilities of each id and the n likeliest, at most kMaxTopLogprobs
  std::stop_token stop;
  Drafter* drafter = nullptr;         // holds the ids up to the end of `prefill`, takes the sampled ones
  int64_t start_ns = 0;               // when the call began, on the clock: where ttft_ms counts from
  // Positions done of the prefill, after each chunk. May be empty.
  std::function<void(size_t n_done, size_t n_total)> on_prefill;
  // Text that is certain, in whole characters, never empty. May be empty.
  std::function<void(std::string_view text)> on_text;
};

// What was sampled. The last id of all (ids, then end_of_turn) has no keys and values yet: they are
// computed when it is fed. After a stop string, ids and text end before it: of a token that reaches into
// it nothing stays, so `text` may be longer than the text of `ids`.
struct Generation {
  std::shared_ptr<const std::vector<float>> prompt_logits;  // behind the prompt's last id, for doing it again
  Tokens ids;
  std::vector<size_t> text_ends;       // length of the text behind each id
  std::vector<TokenLogprobs> logprobs; // of each id, when they were asked for
  std::string text;                    // the whole reply
  std::optional<TokenId> end_of_turn;  // the stop id that was sampled
  std::string stop_string;             // the stop string that was found
  FinishReason finish_reason = FinishReason::kStop;
  size_t n_sampled = 0;                // draws, the dropped ones included
  size_t n_drafted = 0;                // ids that were verified before they were sampled
  size_t n_accepted = 0;               // of them, those that were sampled then
};

// Runs `prefill` and samples until a stop. `entry` must hold everything in front of it, and the sampler's history the
// whole prompt if it reads one.
// Errors: kContextFull when entry.length() + prefill.size() exceeds the model's context (both numbers, before
// anything is computed); kCancelled before the first token was sampled; kInvalidArgument when the constraint allows
// no token; those of forward() and sample().
// After an error the entry may hold more positions than before, all of them committed and exact.
Result<Generation> generate(Scheduler::Stream& stream, const Tokenizer& tokenizer, KvCacheEntry& entry,
                            const GenerateRequest& request, Sampler& sampler, StopDetector stops, Clock& clock,
                            Timings& timings, WorkCounters& work);

}  // namespace ibid
