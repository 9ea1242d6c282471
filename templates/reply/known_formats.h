// Known forms of answers, as rows of data: for templates that tell a model in words how to call tools or do not show
// reasoning themselves. A row is found by a marker that the template's text names. Pure functions.
#pragma once

#include <optional>
#include <string_view>

#include "templates/reply/reply_format.h"

namespace ibid {

struct NamedCalls {
  std::string_view name;  // of the row
  CallSyntax syntax;
};
// The form of the first row whose marker stands in `text`: a template, or what it wrote for tools.
std::optional<NamedCalls> known_calls(std::string_view text);
// What most models write that were taught without a template's help.
NamedCalls usual_calls();

// The markers of reasoning that `text` names.
std::optional<ReasoningSyntax> known_reasoning(std::string_view text);

// Channels whose markers stand in what a template wrote as an answer.
std::optional<ChannelSyntax> known_channels(std::string_view answer);
// How a model with these channels calls a tool, for grammars.
CallSyntax calls_in_channels(const ChannelSyntax& channels);

// Words around the content that `text` names: ("<response>", "</response>"). Empty: none.
struct ContentWords {
  std::string_view begin, end;
};
ContentWords known_content_words(std::string_view text);

}  // namespace ibid
