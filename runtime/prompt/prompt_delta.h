// PromptDelta: the plan of a turn: how many ids stay, and which follow. To make it, the next prompt is rendered and
// compared with the transcript, and what is new is encoded. Planning changes neither, so a plan that comes to nothing
// is simply dropped. A turn that succeeds commits its plan to the transcript.
//
// The rules of what stays:
//  - encoded text is continued at the last mark in front of the first differing byte, and every id that
//    comes out the same stays, so that exactly the ids from the first differing token on are new;
//  - a reply whose text is unchanged keeps its sampled ids, whatever encoding the text would give;
//  - a reply that was cut off by the template (trimmed) keeps the whole tokens before the cut when a
//    special token follows, or when only white space was cut off and the template goes on; any other reply
//    that was rewritten is text, and is encoded as text;
//  - a space that the template puts in front of a reply counts as the one that the reply's first id is written with
//    (reply_space.h);
//  - the sampled id that ended a reply stays when the template writes the same token there;
//  - a reply without text, of special tokens alone, stays when more of the prompt follows it. A prompt that ends
//    where the reply stands asks for another reply.
// Plans are values. Those who make them (PromptPlanner) are for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/marked_text.h"
#include "ibid/token.h"
#include "runtime/prompt/prompt_cuts.h"
#include "runtime/prompt/transcript.h"
#include "runtime/turn_cost.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

struct PromptDelta {
  size_t n_keep = 0;        // ids of the transcript that stay
  size_t n_prompt = 0;      // ids of the whole prompt
  TranscriptPatch patch;
  std::optional<EncoderMark> end;  // the encoder behind the prompt's last byte; set by plan()
  size_t differs_at = 0;    // first byte that differs from the transcript, or where the shorter one ends
  size_t n_bytes = 0;       // of the whole prompt
  size_t tail_begin = 0;    // differs_at, or the beginning of the reply in the middle of which that lies
  MarkedText tail;          // the prompt from tail_begin on
  TurnCost cost;            // of planning
  uint64_t number = 0;      // among the plans of its planner
};

// The ids of a planned prompt: those of the transcript that stay, and those of the plan behind them. A view.
class PromptIds {
 public:
  PromptIds(const PromptDelta& delta, const Transcript& transcript) : delta_(delta), transcript_(transcript) {}

  size_t size() const { return delta_.n_prompt; }
  size_t n_keep() const { return delta_.n_keep; }  // the first ids, which are the transcript's
  // How many ids the prompt and `ids` have in common, of which the first n_known are known to be.
  size_t n_common(TokenSpan ids, size_t n_known) const;
  // The ids from `begin` on, copied.
  Tokens from(size_t begin) const;

 private:
  const PromptDelta& delta_;
  const Transcript& transcript_;
};

// The beginning of the next prompt, as far as it is known before the next message.
struct AheadPrompt {
  Tokens ids;
  size_t n_transcript = 0;  // the first ids, which are the transcript's
  bool is_whole = false;    // the whole prompt: a question waits for its answer
  PromptCuts cuts = {};
};

// Plans the prompt `text`, of n_messages messages, whose first `begin` bytes are the transcript's. They are not part of
// `text`. Sets everything but the number; the cost is that of comparing and encoding.
PromptDelta plan_prompt(const Tokenizer& tokenizer, const Transcript& transcript, size_t begin, const MarkedText& text,
                        size_t n_messages);
// The same for a prompt of given ids, whose text is a reply of the transcript: nothing is encoded.
PromptDelta plan_ids(const Tokenizer& tokenizer, const Transcript& transcript, Tokens ids);

}  // namespace ibid
