#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/template_probe.h"

namespace ibid {
namespace {

// The header of a message: the text before the recipient, the recipient, and the text after it.
struct Header {
  std::string before, recipient, after;
};

size_t word_end(std::string_view text) {
  return std::min(text.size(), text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"));
}

// Returns the header of an ordinary answer; nullopt if it differs from the header of a call by more than the recipient.
std::optional<Header> header_of(std::string_view head, std::string_view call) {
  const size_t name = call.find(probe::kTool);
  if (name == call.npos || !head.starts_with(call.substr(0, name))) return std::nullopt;
  Header header{std::string(call.substr(0, name)), {}, {}};
  const std::string_view rest = head.substr(name);
  header.recipient = rest.substr(0, word_end(rest));
  header.after = rest.substr(header.recipient.size());
  if (header.recipient.empty() || header.after.empty()) return std::nullopt;
  if (!call.substr(name + probe::kTool.size()).starts_with(header.after)) return std::nullopt;
  return header;
}

Json calling(bool as_text, bool twice) {
  Json answer = answer_with("");
  answer["tool_calls"] = Json::array({probe_call(probe::kTool, probe::kId, as_text)});
  if (twice) answer["tool_calls"].push_back(probe_call(probe::kOtherTool, probe::kOtherId, as_text));
  return answer;
}

// Splits `between`, the text between two messages, into the end of the first message and the beginning of the second.
// Prompts end with the beginning of a message.
bool read_separator(std::string_view prompt, std::string_view between, ChannelSyntax& syntax) {
  const auto words = marker_words(between);
  size_t n = 0;
  for (size_t i = words.size(); i-- > 0 && prompt.ends_with(between.substr(between.size() - n - words[i].size()));) {
    n += words[i].size();
  }
  syntax.begin = syntax.own_begin = between.substr(between.size() - n);
  if (trim_marker_spaces(syntax.begin).empty()) return false;
  const std::string_view end = trim_marker_spaces(between.substr(0, between.size() - n));
  if (!end.empty()) syntax.ends.emplace_back(end);
  return true;
}

// Returns how a call is written in a message whose header is known. body: the message's text.
std::optional<CallSyntax> call_in_body(std::string_view body, const std::string& end_of_answer, const Header& header,
                                       ChannelSyntax& channels) {
  CallSyntax syntax;
  const std::string_view trimmed = trim_marker_spaces(body);
  if (std::optional<CallSyntax> own = infer_call_syntax({std::string(trimmed), {}, end_of_answer})) {
    syntax = *own;
    channels.body_calls = std::move(own);
  } else if (trimmed.starts_with('{')) {
    syntax.parts = {{CallPart::Kind::kArguments, {}}};
  } else {
    return std::nullopt;
  }
  syntax.parts.insert(syntax.parts.begin(), {{CallPart::Kind::kLiteral, header.before},
                                             {CallPart::Kind::kName, {}},
                                             {CallPart::Kind::kLiteral, header.after + syntax.section_begin}});
  if (header.before.empty()) syntax.parts.erase(syntax.parts.begin());
  syntax.section_begin.clear();
  syntax.section_end.clear();
  syntax.separator.clear();
  syntax.several = false;
  return syntax;
}

}  // namespace

std::optional<ReplyFormat> find_recipients(const TemplateProbe& probe) {
  const std::optional<Frame> frame = frame_of(probe, true);
  if (!frame || !frame->before_reply.starts_with(frame->prompt)) return std::nullopt;
  const std::string_view head = std::string_view(frame->before_reply).substr(frame->prompt.size());
  if (head.empty()) return std::nullopt;
  for (const bool as_text : {false, true}) {
    const std::string one = frame->answer_in(probe.render(calling(as_text, false), true));
    const std::string two = frame->answer_in(probe.render(calling(as_text, true), true));
    const std::optional<Header> header = header_of(head, one);
    const size_t next = header ? two.find(header->before + std::string(probe::kOtherTool)) : std::string::npos;
    if (next == std::string::npos) continue;
    ReplyFormat format;
    ChannelSyntax channels;
    channels.channel = channels.recipient = header->before;
    channels.body_begin = header->after;
    channels.content_channel = header->recipient;
    const size_t body = header->before.size() + probe::kTool.size() + header->after.size();
    const std::string_view after = std::string_view(one).substr(body);
    const std::string ending = std::string(trim_marker_spaces(frame->end_of_answer));
    const std::string_view call = after.substr(0, std::min(after.size(), after.rfind(ending)));
    const std::string_view between = std::string_view(two).substr(0, next).substr(body);
    if (!between.starts_with(call) || !read_separator(frame->prompt, between.substr(call.size()), channels)) continue;
    const std::vector<std::string> ends = solid_marker_words(ending);
    if (!ends.empty()) channels.ends.push_back(ends.front());
    const std::string thinking = frame->answer_in(probe.render(thinking_answer(kReply), true));
    const size_t thought = thinking.find(header->after + kThought);
    if (thinking.starts_with(header->before) && thought != std::string::npos) {
      channels.reasoning_channels = {thinking.substr(header->before.size(), thought - header->before.size())};
    }
    format.calls = call_in_body(after, frame->end_of_answer, *header, channels);
    if (!format.calls) continue;
    format.channels = std::move(channels);
    format.arguments_as_text = as_text;
    format.origin = "derived from the template (recipients)";
    if (!has_probe_words(format)) return format;
  }
  return std::nullopt;
}

}  // namespace ibid
