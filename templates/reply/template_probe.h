// TemplateProbe: renders short conversations, whose words occur in no template, with a template. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "templates/chat_template.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/reply_format.h"

namespace ibid {

inline constexpr const char* kQuestion = "Kestrelquestion";
inline constexpr const char* kReply = "Kestrelreply";
inline constexpr const char* kThought = "Kestrelthought";

Json probe_call(std::string_view tool, std::string_view id, bool as_text);
Json answer_with(std::string text);
Json thinking_answer(std::string text);
// True if the format contains words of the probe conversations, which were then mistaken for words of the template.
bool has_probe_words(const ReplyFormat& format);

class TemplateProbe {
 public:
  // in_parts: the content of messages is a list of parts, which some templates require. `chat_template` must outlive
  // the object.
  TemplateProbe(const ChatTemplate& chat_template, bool in_parts)
      : template_(chat_template), source_(chat_template.source()), in_parts_(in_parts) {
    if (chat_template.source_for_tools() != source_) source_ += chat_template.source_for_tools();
  }

  // Renders a question and `answer`, or, if that is null, a question and the generation prompt. with_tools: two tools
  // are offered. Returns an empty text if the template fails.
  std::string render(const Json& answer, bool with_tools, Json values = Json::object()) const;

  // The sources of all templates of the model, one after the other.
  const std::string& source() const { return source_; }

 private:
  const ChatTemplate& template_;
  std::string source_;
  const bool in_parts_;
};

// The text around an answer: `prompt` is the render of a question and the generation prompt; the other members are
// parts of the render of an ordinary answer.
struct Frame {
  std::string prompt;
  std::string before_reply;   // the render of the ordinary answer, up to the beginning of the answer's text
  std::string end_of_answer;  // the rest of that render

  // Returns the part of a render that is the answer.
  std::string answer_in(const std::string& render) const;
};

// Returns nullopt if the template does not render an ordinary answer, without calls or reasoning.
std::optional<Frame> frame_of(const TemplateProbe& probe, bool with_tools);

// Reads off a format in which each message has a header with its recipient (ChannelSyntax). Returns nullopt if messages
// of this template have no recipient.
std::optional<ReplyFormat> find_recipients(const TemplateProbe& probe);

}  // namespace ibid
