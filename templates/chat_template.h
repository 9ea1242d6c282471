// ChatTemplate: a model's Jinja chat template, compiled once, and the incremental rendering of a conversation that
// grows.
//
// Rendered text carries its origin: bytes from the template are TextOrigin::kTemplate, bytes from message contents
// (through concatenation, trim, slices, join, replace ...) are kInput, so that message text can never become a control
// token.
//
// ConversationRenderer renders in O(new messages): at the template's loop over `messages`, the interpreter records
// whether an iteration read anything that a later append could change (loop.last of the last iteration, loop.length,
// messages|length, negative indices, reversed scans, an index past the end). Other iterations are final: their output
// stays valid, and a later render resumes after them. A template that looks ahead is rendered in full, with the same
// result. ChatTemplate is immutable and thread-safe; ConversationRenderer is a value (copy = fork), not thread-safe.
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

// --- The variables of a render, besides the messages.

// The variables of a render other than messages: add_generation_prompt, tools, documents, bos_token, eos_token,
// enable_thinking ... as a JSON object. They override ChatTemplate::default_variables(). By default tools and documents
// are None, date_string and datetime the date of `now`, and functions the text of tools. The caller keeps `now` (ISO
// 8601), which strftime_now reads, constant for a conversation. Text of variables named *_token or *_tokens has the
// origin kTemplate; text of all others is kInput, because it may come from a request.
struct TemplateVariables {
  Json values = Json::object();
  std::string now = "2026-01-31T12:00:00";
};

class ChatTemplate {
 public:
  // Error: kTemplateSyntax with the line.
  static Result<ChatTemplate> compile(std::string_view source, const TemplateBudget& budget = {});
  // `defaults`: a JSON object of variables for renders that do not set them. source_for_tools: the template for
  // conversations with tools; empty: `source` is the template for these too.
  static Result<ChatTemplate> compile(std::string_view source, const TemplateBudget& budget, Json defaults,
                                      std::string_view source_for_tools = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  const std::string& source() const;
  const std::string& source_for_tools() const;
  // Default values of variables from the model's files (bos_token, eos_token ...), a JSON object.
  const Json& default_variables() const;

  // Renders all of `messages`, a JSON array of {"role", "content", ...}. Errors: kTemplateError, kTemplateRaise (the
  // template's own text), kTemplateBudget; kInvalidArgument if messages are not an array or variables not an object.
  Result<MarkedText> render(const Json& messages, const TemplateVariables& variables) const;
  // Renders up to the end of the last message's text, for the model to continue it, as continue_final_message of
  // transformers does: a template that trims texts also trims this one. Further error: kInvalidArgument if the last
  // message has no text, or the template does not show the text.
  Result<std::string> render_continuing(const Json& messages, const TemplateVariables& variables) const;
  // Renders a template in which `messages`, if it occurs, is an ordinary variable; for tools and tests.
  Result<std::string> render_plain(const Json& variables, std::string_view now) const;

 private:
  friend class ConversationRenderer;
  ChatTemplate();
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

// --- Finding the end of the last message's text in a render, for the model to continue it.

// Appends a tag to the text of a message: its content, or the last text among the parts of the content. Returns the
// text without the tag. kInvalidArgument: the message has no text.
Result<std::string> append_continue_tag(Json& message);

// The part of a render before the tag.
struct ContinuedText {
  MarkedText text;  // the render before the tag; it keeps white space before the tag, even if the template trims texts
  size_t n_content = 0;     // number of bytes at the end of `text` that are the message's text
  bool is_trimmed = false;  // true if the template trims texts: it removed the space at the end of the tag
};
// `content`: the text to which the tag was appended. kInvalidArgument: the render does not have the tag.
Result<ContinuedText> cut_at_continue_tag(const MarkedText& render, std::string_view content);

// Returns `message` with the arguments of its tool calls as objects. In OpenAI's protocol arguments are strings of
// JSON, and most templates would print these with a second pair of quotes. The order of keys is kept.
Json with_parsed_tool_arguments(Json message);

// Renders one growing conversation. Keeps checkpoints of the part of the render that later messages cannot change, but
// not its text.
class ConversationRenderer {
 public:
  ConversationRenderer(const ChatTemplate& chat_template, TemplateVariables variables);
  ConversationRenderer(const ConversationRenderer&);
  ConversationRenderer& operator=(const ConversationRenderer&);
  ConversationRenderer(ConversationRenderer&&) noexcept;
  ConversationRenderer& operator=(ConversationRenderer&&) noexcept;
  ~ConversationRenderer();

  struct Delta {
    size_t keep_bytes = 0;         // number of bytes at the beginning of the previous render that did not change
    MarkedText text;               // the new render after its first keep_bytes bytes
    size_t messages_rendered = 0;  // number of iterations of loops over the messages that this render executed
    size_t bytes_rendered = 0;     // bytes of `text`
    uint64_t steps = 0;            // interpreter steps that the render took
    bool resumed = false;          // a checkpoint was used; false: rendered from the beginning
  };

  // Renders `messages` (a JSON array). REQUIRES: the first n_unchanged messages equal those of the previous render().
  // The arguments of the previous call need not exist any more. The first keep_bytes of the previous render, followed
  // by `text`, equal the full render of `messages`. A failed call changes nothing.
  Result<Delta> render(const Json& messages, size_t n_unchanged, bool add_generation_prompt);

  // Drops all checkpoints: the next render() starts at the beginning.
  void forget() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ibid
