// PromptDelta: the plan of a turn: how many tokens stay, and which ones follow. To make it, the next prompt is rendered
// and compared with the transcript, and the new part is encoded. Planning does not change the transcript, so a plan can
// simply be dropped; a successful turn commits its plan.
//
// Rules for the tokens that stay:
// - encoded text is encoded again from the last mark before the first differing byte, and every token that comes out
//   the same stays, so that exactly the tokens from the first differing one on are new;
// - a reply with unchanged text keeps its sampled tokens, even if encoding the text gives others;
// - a reply that the template cut off (trimmed) keeps the whole tokens before the cut if a special token follows, or if
//   only white space was cut off and the template continues; any other changed reply is encoded as text;
// - a space that the template writes before a reply is taken as the one with which the reply's first token begins
//   (ReplySpace);
// - the sampled token that ended a reply stays if the template writes the same token there;
// - a reply without text, of special tokens only, stays if more of the prompt follows it. A prompt that ends where the
//   reply begins asks for another reply.
// Plans are values. PromptPlanner, which makes them, is for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/marked_text.h"
#include "ibid/token.h"
#include "runtime/prompt/transcript.h"
#include "runtime/prompt/turn_meter.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// Positions at which later prompts may diverge from a prompt.
struct BranchPoints {
  size_t first_turn_boundary = 0;  // position before the first user message; 0: unknown
  std::vector<size_t> answers;     // positions before and after each answer, ascending
};

struct PromptDelta {
  size_t n_keep = 0;    // number of leading tokens of the transcript that stay
  size_t n_prompt = 0;  // number of tokens of the whole prompt
  TranscriptPatch patch;
  std::optional<EncoderMark> end;  // encoder state after the prompt's last byte; set by plan()
  size_t differs_at = 0;           // first byte at which prompt and transcript differ, or the shorter one's length
  size_t n_bytes = 0;              // bytes of the whole prompt
  size_t tail_begin = 0;           // differs_at or, if this byte is in a reply, the beginning of the reply
  MarkedText tail;                 // the prompt from tail_begin on
  // Set if the prompt ends with the beginning of the answer: the number of bytes of this beginning.
  std::optional<size_t> n_continued = {};
  bool keeps_reply = false;  // the n_continued bytes are sampled tokens of the transcript (continue_reply())
  TurnCost cost;             // cost of planning
  uint64_t number = 0;       // serial number of the plan; a planner commits only its last plan
};

// The tokens of a planned prompt: those of the transcript that stay, then those of the plan. A view.
class PromptIds {
 public:
  PromptIds(const PromptDelta& delta, const Transcript& transcript) : delta_(delta), transcript_(transcript) {}

  size_t size() const { return delta_.n_prompt; }
  size_t n_keep() const { return delta_.n_keep; }  // number of leading tokens that are taken from the transcript
  // Length of the common prefix of the prompt and `ids`; the first n_known are known to be equal.
  size_t n_common(TokenSpan ids, size_t n_known) const;
  // Returns a copy of the tokens from `begin` on.
  Tokens from(size_t begin) const;

 private:
  const PromptDelta& delta_;
  const Transcript& transcript_;
};

// The beginning of the next prompt, up to where it depends on the next message.
struct AheadPrompt {
  Tokens ids;
  size_t n_transcript = 0;  // number of leading tokens that are taken from the transcript
  bool is_whole = false;    // true: this is the whole prompt, because the last message awaits an answer
  BranchPoints branch_points = {};
};

// Plans the prompt of n_messages messages. Its first `begin` bytes are the transcript's; `text` is the rest. Sets all
// members except `number`; `cost` is the cost of comparing and encoding.
PromptDelta plan_prompt(const Tokenizer& tokenizer, const Transcript& transcript, size_t begin, const MarkedText& text,
                        size_t n_messages);
// Changes a plan so that the model continues an answer of the transcript. delta: the plan of the prompt that this
// answer, message number `message`, has answered. All tokens of the answer stay, except the last ones if they end
// within a character. Returns false, changing nothing, if the transcript does not have the answer, or if a token of the
// prompt before it does not stay.
bool continue_reply(const Tokenizer& tokenizer, const Transcript& transcript, size_t message, PromptDelta& delta);
// Plans a prompt of given tokens. Nothing is encoded: in the transcript the tokens and their text are a reply.
PromptDelta plan_ids(const Tokenizer& tokenizer, const Transcript& transcript, Tokens ids);

}  // namespace ibid
