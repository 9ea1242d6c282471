// PromptDelta: the plan of a turn. The next prompt is rendered, held against the transcript, and what is new
// is encoded: how many ids stay, and which follow. Nothing is changed by planning, so nothing has to be
// undone when the turn fails; a turn that succeeds applies the plan to the transcript.
//
// The rules of what stays:
//  - encoded text is continued at the last mark in front of the first differing byte, and every id that
//    comes out the same stays, so that exactly the ids from the first differing token on are new;
//  - a reply whose text is unchanged keeps its sampled ids, whatever encoding the text would give;
//  - a reply that was cut off by the template (trimmed) keeps the whole tokens before the cut when a
//    special token follows; any other reply that was rewritten is text, and is encoded as text;
//  - the sampled id that ended a reply stays when the template writes the same token there;
//  - a reply without text, of special tokens alone, stays when more of the prompt follows it: a prompt that ends where
//    it stands asks for another.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/stats.h"
#include "runtime/transcript.h"
#include "tokenizer/chat_template.h"
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

// Renders and compares the prompts of one conversation. Holds the renderer and what is known of its last
// render relative to the transcript. A value; not thread-safe.
class PromptPlanner {
 public:
  PromptPlanner(const Tokenizer& tokenizer, const ChatTemplate& chat_template, TemplateVariables variables,
                Clock& clock);

  // Plans the prompt of `messages` with the generation prompt.
  // Counts into `work` and `timings`. Errors: those of ConversationRenderer::render(); kInvalidArgument when
  // the prompt has no ids. After an error the planner is as before; after std::bad_alloc it knows of no last render.
  Result<PromptDelta> plan(const Json& messages, const Transcript& transcript, WorkCounters& work,
                           Timings& timings);

  // The plan was applied to the transcript / was given up; exactly one of them follows each plan().
  void applied(const PromptDelta& delta);
  void given_up(const PromptDelta& delta) noexcept;

  // The history was cut: only its first n messages are what they were at the last plan().
  void messages_changed_from(size_t n);

 private:
  Result<PromptDelta> plan_or_throw(const Json& messages, const Transcript& transcript, WorkCounters& work,
                                    Timings& timings);
  // Nothing is known of the last render: the next one is made and compared as a whole.
  void forget() noexcept;
  void encode(const Transcript& transcript, size_t n_messages, PromptDelta& delta, WorkCounters& work) const;

  const Tokenizer* tokenizer_;
  Clock* clock_;
  ConversationRenderer renderer_;
  // The last render is the transcript's first common_bytes_ bytes and then tail_.
  size_t common_bytes_ = 0;
  MarkedText tail_;
  size_t n_unchanged_ = 0;  // messages of the last render that still stand
};

}  // namespace ibid
