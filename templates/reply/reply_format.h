// ReplyFormat: how a model writes an answer that is more than text: its reasoning, and its calls of tools. Plain data.
//
// It is found once per model, from what the chat template writes (templates/reply/find_reply_format.h), and read by
// the parser of answers (templates/reply/reply_parser.h) and by the grammars for them (CallSyntax::parts).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

// One piece of a call, in the order in which the model writes them.
struct CallPart {
  enum class Kind {
    kLiteral,    // `text`, as the template writes it
    kName,       // of the tool
    kId,         // of the call: any word, no spaces
    kIndex,      // of the call among those of the answer: 0, 1, ...
    kArguments,  // an object, in the form of CallSyntax::arguments
  };
  Kind kind = Kind::kLiteral;
  std::string text = {};
  bool operator==(const CallPart&) const = default;
};

enum class ArgumentsForm {
  kJson,        // a JSON object
  kParameters,  // key and value of each between markers: ParameterSyntax. Strings are written as they are
  kBareObject,  // {key:value,...}: keys without quotes, strings between CallSyntax::quote
  kKeywords,    // (key=value, ...): the arguments of a call in Python, values as Python writes them
};

// ArgumentsForm::kParameters: before_key KEY before_value VALUE after_value, for each argument, with nothing between
// two. A value that is a string is written as it is, any other one as JSON.
struct ParameterSyntax {
  std::string before_key = {};
  std::string before_value = {};        // of a string
  std::string before_other_value = {};  // of anything else; the same where the form does not tell
  std::string after_value = {};
  bool operator==(const ParameterSyntax&) const = default;
};

// A JSON object around a call: {"name": NAME, "arguments": ARGUMENTS}. `before` and `after` are the
// texts around it. The parts have all of it as literals, too; this is for reading calls that models space otherwise.
struct CallEnvelope {
  std::string name_key = {};
  std::string arguments_key = {};
  std::string id_key = {};  // empty: it has none
  std::string before = {};
  std::string after = {};
  bool operator==(const CallEnvelope&) const = default;
};

// Calls in an answer: section_begin CALL separator CALL ... section_end, where a call is its parts, one after the
// other. All texts are as the template writes them; models may space them otherwise.
struct CallSyntax {
  std::string section_begin = {};
  std::string separator = {};
  std::string section_end = {};
  std::vector<CallPart> parts;
  std::optional<CallEnvelope> envelope = {};
  ArgumentsForm arguments = ArgumentsForm::kJson;
  ParameterSyntax parameter = {};  // kParameters
  std::string quote = {};          // kBareObject
  // A text that a model may write before a call, though the template does not ("<|python_tag|>").
  std::string optional_begin = {};
  // The words with which calls begin; they hold no spaces. A trigger that is an ordinary character ("{")
  // begins a call at the beginning of an answer alone.
  std::vector<std::string> triggers = {};
  bool several = true;  // the template shows more than one call in an answer
  // Other parts that a call may have in their place. Each holds the trigger in its first literal.
  std::vector<std::vector<CallPart>> other_parts = {};
  bool operator==(const CallSyntax&) const = default;
};

// Reasoning is what stands between the two at the beginning of an answer. The prompt may have opened it already
// (opens_reasoning()).
struct ReasoningSyntax {
  std::string begin = {};
  std::string end = {};
  bool operator==(const ReasoningSyntax&) const = default;
};

// An answer of several messages with headers (Harmony): begin HEADER body_begin BODY end, where the prompt has written
// the first `begin` already. The header says what the body is: to a tool ("to=functions.NAME") its arguments, in a
// channel of reasoning that, else content.
struct ChannelSyntax {
  std::string begin = {};                         // "<|start|>"
  std::string channel = {};                       // "<|channel|>", in front of the channel's name
  std::string body_begin = {};                    // "<|message|>"
  std::vector<std::string> ends = {};             // "<|end|>", "<|call|>", "<|return|>"
  std::vector<std::string> reasoning_channels = {};  // "analysis"
  std::string recipient = {};                     // "to=functions.", in front of a tool's name
  bool operator==(const ChannelSyntax&) const = default;
};

struct ReplyFormat {
  std::optional<CallSyntax> calls = {};          // none: the template knows of no calls
  std::optional<ReasoningSyntax> reasoning = {};
  std::optional<ChannelSyntax> channels = {};    // then the others say what they say about bodies of channels
  // Words around the content, which are no part of it ("<response>"). Empty: no such words.
  std::string content_begin = {}, content_end = {};
  // Demands of the template on messages: the arguments of tool_calls as a JSON object, or as the text of one; and the
  // key by which it reads the reasoning of an answer.
  bool arguments_as_text = false;
  std::string reasoning_key = "reasoning_content";
  bool shows_tools = true;  // lists them in a prompt, or shows their calls
  // Where it comes from, for people: "read off the template", or the name of a known shape.
  std::string origin = {};
  bool operator==(const ReplyFormat&) const = default;
};

// For people, in one line: "<tool_call>{"name": NAME, "arguments": {...}}</tool_call>". Empty: no calls.
std::string describe_calls(const ReplyFormat& format);
// "<think> ... </think>"; empty: none.
std::string describe_reasoning(const ReplyFormat& format);

// --- The markers of a format: texts that a model writes around the parts of an answer. Pure functions.

// The format's markers of reasoning. A model that was taught to reason may do so whatever its template says, so
// without any they are <think> and </think>.
ReasoningSyntax reasoning_of(const ReplyFormat& format);

// The same format where an answer is not looked through for calls: it has no markers of them.
ReplyFormat without_calls(ReplyFormat format);

// Whether a special token of this text is a marker, or a part of one. An answer that is split into its parts shows
// such tokens, and no other special ones: those mean nothing to a reader.
bool is_marker(const ReplyFormat& format, std::string_view token);

// --- Markers as words: what templates write around names and arguments ("</parameter>\n<parameter="),
// cut where models may space it otherwise. Pure functions.

bool is_marker_space(char c);

// The words of a text, in order; together they are the text. A word is a run of spaces, a tag (<...>, which ends at
// '>', or in front of a space or another '<'), a name in brackets ("[TOOL_CALLS]"), a run of letters, digits and what
// joins them, or any other character alone.
std::vector<std::string_view> marker_words(std::string_view text);
// The same without the runs of spaces.
std::vector<std::string> solid_marker_words(std::string_view text);

// How many bytes of whole words two texts have in common at their beginnings.
size_t common_words_at_begin(std::string_view a, std::string_view b);

std::string_view trim_marker_spaces(std::string_view text);

}  // namespace ibid
