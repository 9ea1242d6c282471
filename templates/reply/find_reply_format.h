// Finds the ReplyFormat of a chat template by rendering conversations with known calls and reasoning, and reading off
// the text that the template writes around names, arguments and thoughts. So unknown templates are understood as well.
// Parts that a template does not show itself (some describe them to the model in words only) come from a table of known
// shapes, found by the marker that the template's text names.
//
// A pure function: a dozen renders of short conversations.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "templates/chat_template.h"
#include "templates/reply/reply_format.h"

namespace ibid {

ReplyFormat find_reply_format(const ChatTemplate& chat_template);

// --- Known forms of answers, as rows of data: for templates that tell a model in words how to call tools or do not
// show reasoning themselves. A row is found by a marker that the template's text names. Pure functions.

struct NamedCalls {
  std::string_view name;  // of the row
  CallSyntax syntax;
};
// The form of the first row whose marker stands in `text`: a template, or what it wrote for tools.
std::optional<NamedCalls> known_calls(std::string_view text);
// The form of most models that were trained without a template's help.
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

// --- Reads off the form of calls: given the texts that a template wrote for known calls, says what stands around
// names, ids and arguments. Pure functions; they know no template.

// The calls that were rendered. Their words are such as no template holds.
namespace probe {
inline constexpr std::string_view kTool = "kestrel_tool";
inline constexpr std::string_view kOtherTool = "kestrel_other_tool";
inline constexpr std::string_view kId = "kestrel01";  // nine letters and digits: Mistral's templates want that
inline constexpr std::string_view kOtherId = "kestrel02";
// The arguments of both calls. Keys in the order of the alphabet, because some templates sort them.
inline constexpr std::string_view kArguments =
    R"({"kcount": 4711, "kflag": true, "klist": ["Kestrelitem"], "kplace": "Kestrelplace", "kzone": "Kestrelzone"})";
}  // namespace probe

// An answer as a template wrote it.
struct WrittenCalls {
  std::string one;             // an answer with one call, of kTool, up to the end of the text
  std::optional<std::string> two = {};  // an answer with that call, and behind it one of kOtherTool
  // The end of an answer without calls; text that begins with its first word is no part of the calls.
  std::string end_of_answer = {};
};

// Nothing: the text does not show name and arguments in a form that is known.
std::optional<CallSyntax> read_off_calls(const WrittenCalls& written);

}  // namespace ibid
