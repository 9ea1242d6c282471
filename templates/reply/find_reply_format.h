// Finds the ReplyFormat of a chat template: renders conversations with known calls and reasoning, and reads off the
// text around names, arguments and thoughts. So unknown templates are supported as well. For parts that a template does
// not render itself (some templates only describe them to the model), a table of known forms is searched by markers in
// the template's source. A pure function: a dozen renders of short conversations.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/chat_template.h"
#include "templates/reply/reply_format.h"

namespace ibid {

ReplyFormat find_reply_format(const ChatTemplate& chat_template);

// --- Known forms of answers, as rows of a table, for templates that only describe calls to the model, or do not render
// reasoning. A row is used if its marker occurs in the template's source. Pure functions.

struct NamedCalls {
  std::string_view name;  // name of the table's row, shown to users
  CallSyntax syntax;
};
// Returns the form of calls in the first row of the table whose marker occurs in `text` (a template's source, or its
// render with tools).
std::optional<NamedCalls> known_calls(std::string_view text);
// Returns the most common form of calls, for models whose template shows no calls.
NamedCalls usual_calls();

// Returns the known reasoning markers that occur in `text`.
std::optional<ReasoningSyntax> known_reasoning(std::string_view text);

// Returns the known reasoning markers with which `before` ends and `behind` begins.
std::optional<ReasoningSyntax> known_reasoning_around(std::string_view before, std::string_view after);

// Returns the channel syntax whose markers occur in an answer rendered by the template.
std::optional<ChannelSyntax> known_channels(std::string_view answer);
// Returns how a model with these channels calls a tool, for grammars.
CallSyntax calls_in_channels(const ChannelSyntax& channels);

// Returns the known markers in `text` that templates write in other messages, but models may write into answers.
std::vector<std::string> known_foreign_markers(std::string_view text);

// The markers around an answer's content: ("<response>", "</response>"). Empty: no known markers occur in `text`.
struct ContentWords {
  std::string_view begin, end;
};
ContentWords known_content_words(std::string_view text);

// --- Reads off the form of calls from a template's renders of known calls: the text around names, ids and arguments.
// Pure functions, independent of templates.

// The calls that are rendered. Their words occur in no template.
namespace probe {
inline constexpr std::string_view kTool = "kestrel_tool";
inline constexpr std::string_view kOtherTool = "kestrel_other_tool";
inline constexpr std::string_view kId = "kestrel01";  // nine letters and digits, which Mistral's templates require
inline constexpr std::string_view kOtherId = "kestrel02";
// The arguments of both calls. Keys are in alphabetical order, because some templates sort them.
inline constexpr std::string_view kArguments =
    R"({"kcount": 4711, "kflag": true, "klist": ["Kestrelitem"], "kplace": "Kestrelplace", "kzone": "Kestrelzone"})";
}  // namespace probe

// Renders of answers with calls by one template.
struct WrittenCalls {
  std::string one;  // an answer with one call of kTool, up to the end of the render
  // The render of an answer with two calls: the same call, followed by a call of kOtherTool.
  std::optional<std::string> two = {};
  // The text after the content of an answer without calls. In `one` and `two`, the calls end before the first word of
  // this text.
  std::string end_of_answer = {};
};

// Derives how calls are written. Returns nullopt if the text does not show name and arguments in a known form.
std::optional<CallSyntax> infer_call_syntax(const WrittenCalls& written);

}  // namespace ibid
