#include "templates/reply/find_reply_format.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/call_reader.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/template_probe.h"

namespace ibid {
namespace {

bool is_tag_word(std::string_view word) { return word.size() > 2 && (word.front() == '<' || word.front() == '['); }

// Returns the last tag of `text` and the text after it.
std::string last_tag(std::string_view text) {
  const auto words = marker_words(text);
  for (size_t i = words.size(); i-- > 0;) {
    if (is_tag_word(words[i])) return std::string(trim_marker_spaces(text.substr(words[i].data() - text.data())));
  }
  return {};
}

// Returns the first tag of `text` and the text before it.
std::string first_tag(std::string_view text) {
  for (const std::string_view word : marker_words(text)) {
    if (!is_tag_word(word)) continue;
    return std::string(trim_marker_spaces(text.substr(0, word.data() + word.size() - text.data())));
  }
  return {};
}

std::optional<ReasoningSyntax> read_off_reasoning(std::string_view render) {
  const size_t thought = render.rfind(kThought);
  if (thought == render.npos) return std::nullopt;
  const std::string_view before = render.substr(0, thought);
  const std::string_view after = render.substr(thought + std::string_view(kThought).size());
  if (auto known = known_reasoning_around(before, after)) return known;
  const ReasoningSyntax syntax{last_tag(before), first_tag(after)};
  // Maximum length of a marker of reasoning: a tag farther away from the thoughts does not belong to the reasoning.
  constexpr size_t kMaxMarkerBytes = 64;
  if (syntax.begin.empty() || syntax.end.empty() || syntax.begin == syntax.end) return std::nullopt;
  if (syntax.begin.size() > kMaxMarkerBytes || syntax.end.size() > kMaxMarkerBytes) return std::nullopt;
  return syntax;
}

// Adds a call to an answer, because some templates render reasoning only beside calls.
Json calling(Json answer) {
  answer["tool_calls"] = Json::array({probe_call(probe::kTool, probe::kId, false)});
  return answer;
}

std::string find_reasoning_key(const TemplateProbe& probe) {
  for (const std::string_view key : kReasoningKeys) {
    Json answer = answer_with(kReply), call = calling(answer_with(""));
    answer[std::string(key)] = call[std::string(key)] = kThought;
    for (const Json& message : {answer, call}) {
      if (probe.render(message, true).find(kThought) != std::string::npos) return std::string(key);
    }
  }
  return std::string(kReasoningKeys[0]);
}

std::optional<ReasoningSyntax> find_reasoning(const TemplateProbe& probe) {
  for (const bool on : {false, true}) {
    const Json values = on ? Json{{"enable_thinking", true}, {"thinking", true}} : Json::object();
    for (const Json& answer : {thinking_answer(kReply), calling(thinking_answer(""))}) {
      std::optional<ReasoningSyntax> found = read_off_reasoning(probe.render(answer, !on, values));
      if (!found) continue;
      // If the template writes no marker before thoughts, found->begin is the header of the message instead: the text
      // that also precedes the content of an answer without thoughts.
      const std::string plain = probe.render(answer_with(kReply), !on, values);
      const std::string_view before = std::string_view(plain).substr(0, plain.rfind(kReply));
      if (!trim_marker_spaces(before).ends_with(found->begin)) return found;
      // The template writes the header but no marker before thoughts. It may end the prompt with both: the header, then
      // the marker that opens the reasoning.
      const std::string prompt = probe.render(nullptr, !on, values);
      const size_t header = prompt.rfind(found->begin);
      if (header == prompt.npos) continue;
      found->begin = trim_marker_spaces(std::string_view(prompt).substr(header + found->begin.size()));
      if (!found->begin.empty() && plain.find(found->end, before.size()) == plain.npos) return found;
    }
  }
  return known_reasoning(probe.source());
}

std::string_view after_content(std::string_view text, std::string_view content_end);

struct FoundCalls {
  CallSyntax syntax;
  bool as_text = false;
};

std::optional<FoundCalls> calls_in(const TemplateProbe& probe, const std::optional<ReasoningSyntax>& reasoning,
                                   bool with_tools, bool as_text, const Json& content) {
  const std::optional<Frame> frame = frame_of(probe, with_tools);
  if (!frame) return std::nullopt;
  const auto written = [&](Json calls) -> std::optional<std::string> {
    Json answer = answer_with("");
    answer["content"] = content;
    answer["tool_calls"] = std::move(calls);
    const std::string render = probe.render(answer, with_tools);
    if (render.empty()) return std::nullopt;
    std::string text = frame->answer_in(render);
    if (reasoning && text.find(reasoning->end) != text.npos) {
      text.erase(0, text.find(reasoning->end) + reasoning->end.size());
    }
    // The answer in this render has an empty content. Remove the markers around it, which do not belong to the calls.
    const ContentWords words = known_content_words(probe.source() + text);
    const size_t reply_end = words.end.empty() ? text.npos : text.find(words.end);
    if (reply_end < text.find(probe::kTool)) text.erase(0, reply_end + words.end.size());
    return text;
  };
  const Json call = probe_call(probe::kTool, probe::kId, as_text);
  const std::optional<std::string> one = written(Json::array({call}));
  if (!one) return std::nullopt;
  const ContentWords words = known_content_words(probe.source() + frame->before_reply);
  WrittenCalls calls{*one, {}, std::string(after_content(frame->end_of_answer, words.end))};
  calls.two = written(Json::array({call, probe_call(probe::kOtherTool, probe::kOtherId, as_text)}));
  std::optional<CallSyntax> syntax = infer_call_syntax(calls);
  ReplyFormat form;
  form.calls = syntax;
  if (!syntax || has_probe_words(form)) return std::nullopt;
  return FoundCalls{*std::move(syntax), as_text};
}

std::optional<FoundCalls> find_calls(const TemplateProbe& probe, const std::optional<ReasoningSyntax>& reasoning) {
  for (const bool as_text : {false, true}) {
    for (const bool with_tools : {true, false}) {
      // Some templates read the content even if the answer has calls, and fail if it is empty, null or a list.
      const Json parts = Json::array({Json{{"type", "text"}, {"text", ""}}});
      for (const Json& content : {Json(""), Json(nullptr), parts}) {
        std::optional<FoundCalls> found = calls_in(probe, reasoning, with_tools, as_text, content);
        if (found) return found;
      }
    }
  }
  return std::nullopt;
}

// True if calls begin with one ordinary character, as calls in JSON begin with "{".
bool has_no_marker(const CallSyntax& syntax) {
  return std::all_of(syntax.triggers.begin(), syntax.triggers.end(),
                     [](const std::string& trigger) { return trigger.size() == 1; });
}

void set_calls(const TemplateProbe& probe, ReplyFormat& format) {
  const std::string prompt = probe.render(nullptr, true);
  std::optional<FoundCalls> found = find_calls(probe, format.reasoning);
  // The instructions of a template may show calls with a marker, although it renders the calls of earlier answers
  // without the marker.
  const auto described = known_calls(prompt);
  if (found && described && has_no_marker(found->syntax) && !has_no_marker(described->syntax) &&
      described->syntax.optional_begin.empty()) {
    format.arguments_as_text = found->as_text;
    found.reset();
  }
  if (found) {
    format.calls = std::move(found->syntax);
    format.arguments_as_text = found->as_text;
    format.origin = "derived from the template";
    format.shows_tools = true;  // true because the client may list the tools in its messages itself
  } else if (const auto known = known_calls(probe.source() + prompt)) {
    format.calls = known->syntax;
    format.origin = std::string(known->name) + ", which the template names";
  } else {
    const NamedCalls usual = usual_calls();
    format.calls = usual.syntax;
    format.origin = "assumed: the template shows no calls";
  }
  CallSyntax& calls = *format.calls;
  if (calls.envelope) calls.envelope->may_be_doubled = prompt.find("{{\"" + calls.envelope->name_key) != prompt.npos;
  constexpr std::string_view kPythonTag = "<|python_tag|>";
  if (calls.triggers.front() == "{" && probe.source().find(kPythonTag) != std::string::npos) {
    calls.optional_begin = kPythonTag;
    calls.triggers = call_triggers(calls);
  }
}

// Returns `text`, the render after the content of an answer, without the marker at its beginning that ends the content.
std::string_view after_content(std::string_view text, std::string_view content_end) {
  const std::string_view trimmed = trim_marker_spaces(text);
  return !content_end.empty() && trimmed.starts_with(content_end) ? trimmed.substr(content_end.size()) : text;
}

// Returns the special token with which the template ends answers; empty if it is part of another marker of the format.
std::string find_end_of_turn(const TemplateProbe& probe, const ReplyFormat& format) {
  const std::optional<Frame> frame = frame_of(probe, true);
  if (!frame) return {};
  const std::vector<std::string> words = solid_marker_words(after_content(frame->end_of_answer, format.content_end));
  if (words.empty() || !is_tag_word(words.front()) || !is_special_token(words.front())) return {};
  const std::vector<std::string_view> markers = marker_texts(format);
  const bool is_part =
      std::ranges::any_of(markers, [&](std::string_view marker) { return marker.find(words.front()) != marker.npos; });
  return is_part ? std::string() : words.front();
}

ReplyFormat format_by(const TemplateProbe& probe) {
  ReplyFormat format;
  const std::string with_tools = probe.render(nullptr, true);
  format.shows_tools = with_tools.empty() || with_tools != probe.render(nullptr, false);
  format.reasoning_key = find_reasoning_key(probe);
  if (const auto channels = known_channels(probe.render(answer_with(kReply), true))) {
    format.channels = channels;
    format.calls = calls_in_channels(*channels);
    format.origin = "channels";
    return format;
  }
  if (std::optional<ReplyFormat> recipients = find_recipients(probe)) {
    recipients->reasoning_key = format.reasoning_key;
    return *std::move(recipients);
  }
  format.reasoning = find_reasoning(probe);
  const ContentWords words = known_content_words(probe.source() + probe.render(answer_with(kReply), true));
  format.dropped = known_foreign_markers(probe.source() + probe.render(answer_with(kReply), true));
  // Also drop the marker that ends reasoning where no reasoning was begun: if it looks like a special token, it is not
  // a word of the answer.
  if (format.reasoning && is_special_token(format.reasoning->end)) format.dropped.push_back(format.reasoning->end);
  format.content_begin = words.begin;
  format.content_end = words.end;
  set_calls(probe, format);
  format.end_of_turn = find_end_of_turn(probe, format);
  return format;
}

}  // namespace

ReplyFormat find_reply_format(const ChatTemplate& chat_template) {
  const TemplateProbe probe(chat_template, false);
  // If the template fails for content that is a string, or omits it, it may require content that is a list of parts.
  const bool takes_texts = probe.render(answer_with(kReply), false).find(kReply) != std::string::npos;
  const TemplateProbe of_parts(chat_template, true);
  const bool takes_parts = of_parts.render(answer_with(kReply), false).find(kReply) != std::string::npos;
  ReplyFormat format = format_by(!takes_texts && takes_parts ? of_parts : probe);
  if (!has_probe_words(format)) return format;
  // The format contains a word of the probes. This is no error of the program: the template itself may contain the
  // word.
  format = ReplyFormat();
  format.calls = usual_calls().syntax;
  format.origin = "assumed: the template's calls could not be read";
  return format;
}

}  // namespace ibid
