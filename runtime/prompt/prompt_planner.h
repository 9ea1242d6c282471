// PromptPlanner: renders and compares the prompts of one conversation. It owns the renderer, and remembers the messages
// of the last render, and how this render relates to the transcript. The rules for what stays are in prompt_delta.h.
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
#include "runtime/prompt/transcript.h"
#include "templates/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// Some templates write a space before an answer ("[/INST] Sure"), although the model has sampled this space itself.
// SentencePiece tokenizers show the first token of a text without its space: the token " Sure" gives the answer "Sure",
// and the template writes " Sure" again. Such a space belongs to the sampled tokens; as text of the template it would
// change the whole answer.
enum class ReplySpace {
  kNone,     // the template or tokenizer adds no such space
  kInPlace,  // the template replaces white space at the beginning of an answer by the space
  kInFront,  // the template adds the space before any answer
};

class PromptPlanner {
 public:
  PromptPlanner(const Tokenizer& tokenizer, const ChatTemplate& chat_template, TemplateVariables variables,
                Clock& clock);
  // For a conversation without a template (runtime/prompt/plain_prompt.h).
  PromptPlanner(const Tokenizer& tokenizer, Clock& clock);

  // Sets the template's variables. The next plans render with them, and compare the text as before. std::bad_alloc:
  // nothing has changed. No effect without a template.
  void set_variables(const ChatTemplate& chat_template, TemplateVariables variables);

  // Plans the prompt of `messages`, with the generation prompt. May be called with any messages; only those that differ
  // from the last render are rendered. Errors: those of ConversationRenderer::render(); kInvalidArgument if the prompt
  // has no tokens. After an error the planner is unchanged; std::bad_alloc drops the last render.
  Result<PromptDelta> plan(const MessageList& messages, const Transcript& transcript);

  // Plans the prompt that ends in the text of the last message, for the model to continue it: what follows that text in
  // the template's rendering is left out. White space at the end of the text stays, even if the template trims it.
  // `tagged`: the messages, with append_continue_tag() applied to the last one, whose content was `content`. Errors: as
  // plan(); kInvalidArgument if the template does not show the text.
  Result<PromptDelta> plan_continuing(const MessageList& tagged, std::string_view content,
                                      const Transcript& transcript);

  // Calls ibid::continue_reply() (prompt_delta.h) for the last plan.
  bool continue_reply(const Transcript& transcript, size_t message, PromptDelta& delta) const {
    return ibid::continue_reply(*tokenizer_, transcript, message, delta);
  }

  // Appends a reply to delta.patch, as message number `message`. reply.text must be the text that the next render will
  // show. REQUIRES: delta.end has a value. The call moves this value into the patch, so do not use it afterwards.
  void append_reply(PromptDelta& delta, SampledReply reply, size_t message) const;

  // Returns how the template renders the answer to the planned prompt, up to the text that ends the answer. `messages`:
  // the messages of the plan, then the answer and any messages that must follow it. nullopt: the template rejects the
  // messages, or does not render the prompt before the answer and `end_of_turn` after it. `delta` is, and remains, the
  // planner's last plan. std::bad_alloc drops the last render.
  std::optional<std::string> shown_answer(const MessageList& messages, const PromptDelta& delta,
                                          const Transcript& transcript, std::string_view end_of_turn);

  // Applies the plan to its transcript. Does not throw after transcript.prepare(delta.patch).
  // REQUIRES: `delta` is the planner's last plan, and the transcript has not changed since.
  void commit(PromptDelta delta, Transcript& transcript);

 private:
  template <typename Body>
  auto or_forget(Body&& body) -> decltype(body());
  Result<PromptDelta> plan_plain(const MessageList& messages, const Transcript& transcript);
  // continued: the text of the tagged last message (plan_continuing()); unset: an answer follows the messages.
  Result<PromptDelta> plan_render(const MessageList& messages, std::optional<std::string_view> continued,
                                  const Transcript& transcript);
  std::optional<std::string> shown_answer(const MessageList& messages, const Transcript& transcript,
                                          std::string_view end_of_turn);
  // Renders the messages; the new render is then the transcript's first common_bytes_ bytes and tail_. REQUIRES: there
  // is a template.
  Result<ConversationRenderer::Delta> render(const MessageList& messages, bool add_generation_prompt = true);
  // Drops the last render, so that the next one is rendered and compared as a whole.
  void forget() noexcept;

  const Tokenizer* tokenizer_;
  Clock* clock_;
  std::optional<ConversationRenderer> renderer_;  // unset: no template
  ReplySpace reply_space_ = ReplySpace::kNone;
  // The last render is the transcript's first common_bytes_ bytes and then tail_. It was the render of the messages
  // `rendered_`.
  size_t common_bytes_ = 0;
  MarkedText tail_;
  MessageStamps rendered_;
  uint64_t n_plans_ = 0;
  bool is_ahead_ = false;  // the last render is longer than the last plan
};

}  // namespace ibid
