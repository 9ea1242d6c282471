// PromptDelta: the plan of a turn: how many ids stay, and which follow. To make it, the next prompt is rendered and
// compared with the transcript, and what is new is encoded. Planning changes nothing, so nothing has to be undone
// when the turn fails. A turn that succeeds applies the plan to the transcript.
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
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/prompt/reply_space.h"
#include "runtime/prompt/transcript.h"
#include "runtime/stats.h"
#include "templates/chat_template.h"
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
};

// Renders and compares the prompts of one conversation. It holds the renderer, and knows how the last render
// relates to the transcript. A value; not thread-safe.
class PromptPlanner {
 public:
  PromptPlanner(const Tokenizer& tokenizer, const ChatTemplate& chat_template, TemplateVariables variables,
                Clock& clock);

  // Plans the prompt of `messages` with the generation prompt.
  // Counts into `work` and `timings`. Errors: those of ConversationRenderer::render(); kInvalidArgument when
  // the prompt has no ids. After an error the planner is as before; after std::bad_alloc it knows of no last render.
  Result<PromptDelta> plan(const Json& messages, const Transcript& transcript, WorkCounters& work,
                           Timings& timings);

  // Adds the reply to a plan: message number `message`, its text as the next render shows it.
  // REQUIRES: delta.end is set; it is moved from.
  void append_reply(PromptDelta& delta, SampledReply reply, size_t message) const;

  // Call one of these after each plan(): applied() when the plan was applied to the transcript, given_up() when it
  // was not.
  void applied(const PromptDelta& delta);
  void given_up(const PromptDelta& delta) noexcept;

  // The history was cut: only its first n messages are what they were at the last plan().
  void messages_changed_from(size_t n);

 private:
  Result<PromptDelta> plan_or_throw(const Json& messages, const Transcript& transcript, WorkCounters& work,
                                    Timings& timings);
  // Forgets the last render, so that the next one is made and compared as a whole.
  void forget() noexcept;
  void encode(const Transcript& transcript, size_t n_messages, PromptDelta& delta, WorkCounters& work) const;

  const Tokenizer* tokenizer_;
  Clock* clock_;
  ConversationRenderer renderer_;
  ReplySpace reply_space_;
  // The last render is the transcript's first common_bytes_ bytes and then tail_.
  size_t common_bytes_ = 0;
  MarkedText tail_;
  size_t n_unchanged_ = 0;  // messages of the last render that still stand
};

}  // namespace ibid
