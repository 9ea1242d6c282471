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
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/prompt/message_list.h"
#include "runtime/prompt/reply_space.h"
#include "runtime/prompt/transcript.h"
#include "runtime/turn_cost.h"
#include "templates/chat_template.h"
#include "templates/template_variables.h"
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
};

// Renders and compares the prompts of one conversation. It holds the renderer, remembers which messages it rendered
// last, and how that relates to the transcript. A value; not thread-safe.
class PromptPlanner {
 public:
  PromptPlanner(const Tokenizer& tokenizer, const ChatTemplate& chat_template, TemplateVariables variables,
                Clock& clock);

  // Plans the prompt of `messages` with the generation prompt. It may be asked about any messages at any time; those
  // that it was not asked about before cost their rendering.
  // Errors: those of ConversationRenderer::render(); kInvalidArgument when the prompt has no ids. After an error the
  // planner is as before; after std::bad_alloc it knows of no last render.
  Result<PromptDelta> plan(const MessageList& messages, const Transcript& transcript);

  // Adds the reply to a plan: message number `message`, its text as the next render shows it.
  // REQUIRES: delta.end is set; it is moved from.
  void append_reply(PromptDelta& delta, SampledReply reply, size_t message) const;

  // Applies the plan to the transcript that it was made for. After transcript.prepare(delta.patch) it does not throw.
  // REQUIRES: it is the planner's last plan, and the transcript has not changed since.
  void commit(PromptDelta delta, Transcript& transcript);

 private:
  Result<PromptDelta> plan_or_throw(const MessageList& messages, const Transcript& transcript);
  // Forgets the last render, so that the next one is made and compared as a whole.
  void forget() noexcept;

  const Tokenizer* tokenizer_;
  Clock* clock_;
  ConversationRenderer renderer_;
  ReplySpace reply_space_;
  // The last render is the transcript's first common_bytes_ bytes and then tail_. It was of the messages `rendered_`.
  size_t common_bytes_ = 0;
  MarkedText tail_;
  MessageStamps rendered_;
  uint64_t n_plans_ = 0;
};

}  // namespace ibid
