#include "templates/reply/reply_markers.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

namespace ibid {
namespace {

std::vector<std::string_view> markers_of(const ReplyFormat& format, const ReasoningSyntax& reasoning) {
  std::vector<std::string_view> texts = {reasoning.begin, reasoning.end, format.content_begin, format.content_end};
  const auto add = [&texts](std::initializer_list<std::string_view> more) {
    texts.insert(texts.end(), more.begin(), more.end());
  };
  if (format.calls) {
    const CallSyntax& calls = *format.calls;
    add({calls.section_begin, calls.separator, calls.section_end, calls.quote, calls.optional_begin});
    add({calls.parameter.before_key, calls.parameter.before_value, calls.parameter.before_other_value,
         calls.parameter.after_value});
    for (const CallPart& part : calls.parts) add({part.text});
    if (calls.envelope) add({calls.envelope->before, calls.envelope->after});
    for (const std::string& trigger : calls.triggers) add({trigger});
  }
  if (format.channels) {
    add({format.channels->begin, format.channels->channel, format.channels->body_begin, format.channels->recipient});
    for (const std::string& end : format.channels->ends) add({end});
  }
  return texts;
}

}  // namespace

ReasoningSyntax reasoning_of(const ReplyFormat& format) {
  const std::optional<ReasoningSyntax>& known = format.reasoning;
  if (known && !known->begin.empty() && !known->end.empty()) return *known;
  return {"<think>", "</think>"};
}

ReplyFormat without_calls(ReplyFormat format) {
  format.calls.reset();
  return format;
}

bool is_marker(const ReplyFormat& format, std::string_view token) {
  const ReasoningSyntax reasoning = reasoning_of(format);
  return !token.empty() && std::ranges::any_of(markers_of(format, reasoning), [token](std::string_view text) {
    return text.find(token) != text.npos;
  });
}

}  // namespace ibid
