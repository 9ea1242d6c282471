// ChatTemplate: a model's Jinja chat template, compiled once, and the incremental rendering of a
// conversation that grows.
//
// Rendered text carries its origin: bytes that come from the template are TextOrigin::kTemplate, bytes that
// come from message contents (through concatenation, trim, slices, join, replace ...) are kInput, so
// that message text can never become a control token.
//
// ConversationRenderer renders in O(new messages): the interpreter notes, at the template's loop over
// `messages`, whether an iteration read anything that a later append could change (loop.last of the last
// iteration, loop.length, messages|length, negative indices, reversed scans, an index past the end).
// Iterations that did not are final: their output is kept and rendering resumes after them. A template that
// looks ahead is rendered in full, and the result is the same.
//
// ChatTemplate is immutable and thread-safe; ConversationRenderer is a value (copy = fork), not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/json_limits.h"
#include "base/marked_text.h"
#include "base/result.h"
#include "templates/jinja/template_budget.h"

namespace ibid {

// --- The variables of a render, beside the messages.

// The variables of a render other than messages: add_generation_prompt, tools, documents, bos_token,
// eos_token, enable_thinking ... as a JSON object; tools and documents are None where they are not given.
// They come before ChatTemplate::default_variables(). `now` (ISO 8601) is the clock of strftime_now: frozen
// per conversation by the caller. Text of variables named *_token or *_tokens is the template's; that of all
// others is input, as it may come from a request.
struct TemplateVariables {
  Json values = Json::object();
  std::string now = "2026-01-31T12:00:00";
};

// --- ChatTemplate and its renderer.

class ChatTemplate {
 public:
  // `defaults`: a JSON object of variables that a render has where it is given no others.
  // Error: kTemplateSyntax with the line.
  static Result<ChatTemplate> compile(std::string_view source, const TemplateBudget& budget = {});
  static Result<ChatTemplate> compile(std::string_view source, const TemplateBudget& budget, Json defaults);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  const std::string& source() const;
  // Defaults found beside the template (bos_token, eos_token ...), a JSON object.
  const Json& default_variables() const;

  // The whole render. `messages` is a JSON array of {"role", "content", ...}.
  // Errors: kTemplateError, kTemplateRaise (the template's own text), kTemplateBudget; kInvalidArgument when
  // messages are no array or variables no object.
  Result<MarkedText> render(const Json& messages, const TemplateVariables& variables) const;
  // The render up to the end of the last message's text, for the model to write on: what transformers calls
  // continue_final_message. Further error: kInvalidArgument when that message has no text, or the template
  // does not show it.
  Result<std::string> render_continuing(const Json& messages, const TemplateVariables& variables) const;
  // Any template with any variables (`messages` not special): for tools and tests.
  Result<std::string> render_plain(const Json& variables, std::string_view now) const;

 private:
  friend class ConversationRenderer;
  ChatTemplate();
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

// `message` with the arguments of its tool calls as objects where they are a string of JSON, as the protocol
// of OpenAI has them: most templates print strings with a second set of quotes. Order of keys is kept.
Json with_parsed_tool_arguments(Json message);

// Renders one growing conversation. Holds what is final so far; never the whole text.
class ConversationRenderer {
 public:
  ConversationRenderer(const ChatTemplate& chat_template, TemplateVariables variables);
  ConversationRenderer(const ConversationRenderer&);
  ConversationRenderer& operator=(const ConversationRenderer&);
  ConversationRenderer(ConversationRenderer&&) noexcept;
  ConversationRenderer& operator=(ConversationRenderer&&) noexcept;
  ~ConversationRenderer();

  struct Delta {
    size_t keep_bytes = 0;         // the first bytes of the last render() that are unchanged for certain
    MarkedText text;               // everything after them, up to the end of the new render
    size_t messages_rendered = 0;  // iterations of loops over the messages (all of them in a full render)
    size_t bytes_rendered = 0;     // bytes of `text`
    uint64_t steps = 0;            // of the interpreter: what the call cost
    bool resumed = false;          // false: the template was run from its beginning
  };

  // Renders `messages` (a JSON array). The caller vouches that the first n_unchanged messages are equal to
  // those of the previous render(); nothing else of the previous call needs to be kept by the caller.
  // keep_bytes + text equals the full render of `messages`, always. A failed call changes nothing.
  Result<Delta> render(const Json& messages, size_t n_unchanged, bool add_generation_prompt);

  // As if nothing had been rendered yet: the next render() is a whole one.
  void forget() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ibid
