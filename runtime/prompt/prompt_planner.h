// PromptPlanner: renders and compares the prompts of one conversation. It holds the renderer, remembers which
// messages it rendered last, and how that relates to the transcript. What of a prompt stays is decided in
// prompt_delta.h.
//
// A value; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/marked_text.h"
#include "base/result.h"
#include "runtime/prompt/message_list.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/prompt/reply_space.h"
#include "runtime/prompt/transcript.h"
#include "templates/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class PromptPlanner {
 public:
  PromptPlanner(const Tokenizer& tokenizer, const ChatTemplate& chat_template, TemplateVariables variables,
                Clock& clock);
  // Of a conversation without a template (runtime/prompt/plain_prompt.h).
  PromptPlanner(const Tokenizer& tokenizer, Clock& clock);

  // Other variables, from the next plan on, which compares as always. std::bad_alloc: nothing has changed. Without a
  // template it does nothing.
  void set_variables(const ChatTemplate& chat_template, TemplateVariables variables);

  // Plans the prompt of `messages` with the generation prompt. It may be asked about any messages at any time; those
  // that it was not asked about before cost their rendering.
  // Errors: those of ConversationRenderer::render(); kInvalidArgument when the prompt has no ids. After an error the
  // planner is as before; after std::bad_alloc it knows of no last render.
  Result<PromptDelta> plan(const MessageList& messages, const Transcript& transcript);

  // Adds the reply to a plan: message number `message`, its text as the next render shows it.
  // REQUIRES: delta.end is set; it is moved from.
  void append_reply(PromptDelta& delta, SampledReply reply, size_t message) const;

  // How the template shows the answer to the planned prompt, up to the text that ends it: `messages` has the answer and
  // what may follow it behind the messages of the plan, which is the last that was made. Nothing: the template refuses
  // them, or it does not write the prompt in front of the answer, or not that end behind it. The plan stays the last.
  // std::bad_alloc: the planner knows of no last render.
  std::optional<std::string> shown_answer(const MessageList& messages, const PromptDelta& delta,
                                          const Transcript& transcript, std::string_view end_of_turn);

  // Applies the plan to the transcript that it was made for. After transcript.prepare(delta.patch) it does not throw.
  // REQUIRES: it is the planner's last plan, and the transcript has not changed since.
  void commit(PromptDelta delta, Transcript& transcript);

 private:
  Result<PromptDelta> plan_or_throw(const MessageList& messages, const Transcript& transcript);
  Result<PromptDelta> plan_render(const MessageList& messages, const Transcript& transcript);
  // Renders the messages; the new render is then the transcript's first common_bytes_ bytes, and tail_.
  // REQUIRES: there is a template.
  Result<ConversationRenderer::Delta> render(const MessageList& messages);
  // Forgets the last render, so that the next one is made and compared as a whole.
  void forget() noexcept;

  const Tokenizer* tokenizer_;
  Clock* clock_;
  std::optional<ConversationRenderer> renderer_;  // none: there is no template
  ReplySpace reply_space_ = ReplySpace::kNone;
  // The last render is the transcript's first common_bytes_ bytes and then tail_. It was of the messages `rendered_`.
  size_t common_bytes_ = 0;
  MarkedText tail_;
  MessageStamps rendered_;
  uint64_t n_plans_ = 0;
  bool is_ahead_ = false;  // the last render goes beyond the last plan
};

}  // namespace ibid
