// ReplyFormat: how a model writes the parts of an answer other than text: its reasoning and its tool calls. Plain data.
//
// Found once per model from the renders of its chat template (templates/reply/find_reply_format.h); used by the parser
// of answers (templates/reply/reply_parser.h) and by their grammars (CallSyntax::parts).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

// One part of a call. CallSyntax::parts has them in the order in which a model writes them.
struct CallPart {
  enum class Kind {
    kLiteral,    // the template's own text (CallPart::text) before, between and after the other parts
    kName,       // the tool's name
    kId,         // the call's id: any word, no spaces
    kIndex,      // the number of the call within the answer: 0, 1, ...
    kArguments,  // the arguments, in the form that CallSyntax::arguments names
  };
  Kind kind = Kind::kLiteral;
  std::string text = {};
  bool operator==(const CallPart&) const = default;
};

enum class ArgumentsForm {
  kJson,        // a JSON object
  kParameters,  // keys and values between markers: ParameterSyntax. Strings are unquoted
  kBareObject,  // {key:value,...}: keys are written without quotes, strings between two CallSyntax::quote
  kKeywords,    // (key=value, ...): the arguments of a call in Python, values as Python writes them
};

// How ArgumentsForm::kParameters is written: before_key KEY before_value VALUE after_value for each argument, nothing
// between two arguments. String values are written as they are, others as JSON.
struct ParameterSyntax {
  std::string before_key = {};
  std::string before_value = {};  // precedes a value that is a string
  // precedes a value that is not a string; equal to before_value if the form does not distinguish strings
  std::string before_other_value = {};
  std::string after_value = {};
  // If not empty, a value ends with after_value, its key again, and this text: <KEY>VALUE</KEY>. Objects and arrays are
  // written in the same way, with their keys or "item" (templates/reply/protocol_messages.cc).
  std::string after_closing_key = {};
  bool operator==(const ParameterSyntax&) const = default;
};

// A JSON object around a call: {"name": NAME, "arguments": ARGUMENTS}. `before` and `after` are the texts around the
// object. CallSyntax::parts contain all of this as literals too; a parser needs the envelope to accept calls in which a
// model writes the JSON with other spaces.
struct CallEnvelope {
  std::string name_key = {};
  std::string arguments_key = {};
  std::string id_key = {};  // key of the call's id; empty: no id
  std::string before = {};
  std::string after = {};
  bool may_be_doubled = false;  // the template's instructions write double braces, {{...}}, and models may do so too
  bool operator==(const CallEnvelope&) const = default;
};

// Calls in an answer: section_begin CALL separator CALL ... section_end, where CALL stands for all `parts` of a call in
// order. All texts are as the template writes them; models may space them differently.
struct CallSyntax {
  std::string section_begin = {};
  std::string separator = {};
  std::string section_end = {};
  std::vector<CallPart> parts;
  std::optional<CallEnvelope> envelope = {};
  ArgumentsForm arguments = ArgumentsForm::kJson;
  ParameterSyntax parameter = {};  // how arguments are written if they are kParameters
  std::string quote = {};          // text before and after each string if the arguments are kBareObject
  // A text that models may write before a call although the template does not ("<|python_tag|>").
  std::string optional_begin = {};
  // The words that begin a call, without spaces. A trigger that is an ordinary character ("{") begins a call only at
  // the beginning of an answer.
  std::vector<std::string> triggers = {};
  bool several = true;  // the template renders more than one call per answer
  // Alternatives to `parts`. The first literal of each alternative begins with a trigger.
  std::vector<std::vector<CallPart>> other_parts = {};
  bool operator==(const CallSyntax&) const = default;
};

// Reasoning is the text between these two markers at the beginning of an answer. The prompt may already end with the
// first marker (opens_reasoning()).
struct ReasoningSyntax {
  std::string begin = {};
  std::string end = {};
  bool operator==(const ReasoningSyntax&) const = default;
};

// An answer of several messages with headers: begin HEADER body_begin BODY end, where the first `begin` is at the end
// of the prompt. The header tells what the body is: a call of a tool ("to=functions.NAME"), reasoning in a reasoning
// channel, else content. In Harmony a header has a channel and may have a recipient. In other forms it has a recipient
// only: then `channel` and `recipient` are the same text, which may be empty.
struct ChannelSyntax {
  std::string begin = {};                            // begins a message: "<|start|>"
  std::string own_begin = {};                        // begins a message of the model: "<|start|>assistant"
  std::string channel = {};                          // precedes the channel's name: "<|channel|>"
  std::string body_begin = {};                       // precedes the body: "<|message|>"
  std::vector<std::string> ends = {};                // each of them ends a message: "<|end|>", "<|call|>", "<|return|>"
  std::vector<std::string> reasoning_channels = {};  // names of the channels with reasoning: "analysis"
  std::string content_channel = {};                  // name of the channel with the answer: "final"
  std::string recipient = {};                        // precedes a tool's name: "to=functions."
  std::optional<CallSyntax> body_calls = {};         // how a call is written in a body; nullopt: as its arguments only
  bool operator==(const ChannelSyntax&) const = default;
};

struct ReplyFormat {
  std::optional<CallSyntax> calls = {};  // how calls are written; nullopt: the template has no calls
  std::optional<ReasoningSyntax> reasoning = {};
  // If set, `calls` and `reasoning` describe the bodies of messages in these channels.
  std::optional<ChannelSyntax> channels = {};
  // Markers around the content, not part of it ("<response>"). Empty: no markers.
  std::string content_begin = {}, content_end = {};
  // The marker with which the template ends answers. At the end of an answer the marker is not part of the content.
  std::string end_of_turn = {};
  // Markers that are never part of the content of an answer, because the template writes them in other messages.
  std::vector<std::string> dropped = {};
  // The form of messages that the template requires. arguments_as_text: the arguments of tool_calls are a string of
  // JSON; false: they are a JSON object. reasoning_key: the key of an answer's reasoning.
  bool arguments_as_text = false;
  std::string reasoning_key = "reasoning_content";
  bool shows_tools = true;  // the template lists the tools in the prompt, or renders calls
  // How the format was found, for users: "derived from the template", or the name of a known form.
  std::string origin = {};
  bool operator==(const ReplyFormat&) const = default;
};

// True if the format separates reasoning from the answer.
inline bool shows_reasoning(const ReplyFormat& format) {
  return format.reasoning || (format.channels && !format.channels->reasoning_channels.empty());
}

// Describes the format of calls for users, in one line: "<tool_call>{"name": NAME, "arguments": {...}}</tool_call>".
// Empty: no calls.
std::string describe_calls(const ReplyFormat& format);
// Describes the format of reasoning for users: "<think> ... </think>". Empty: no reasoning.
std::string describe_reasoning(const ReplyFormat& format);

// --- The markers of a format: the texts around the parts of an answer. Pure functions.

// Returns the format's markers of reasoning, by default <think> and </think>: a model may be trained to reason even if
// its template does not render reasoning.
ReasoningSyntax reasoning_of(const ReplyFormat& format);

// Returns the format without markers of calls, so that answers are not searched for calls.
ReplyFormat without_calls(ReplyFormat format);

// True if the marker looks like a special token, which is never a word of an answer: "<|channel|>".
bool is_special_token(std::string_view marker);
// Returns the special token with which the marker begins, if the marker has no other tag; else an empty text.
std::string special_tag_of(std::string_view marker);

// Returns the texts of all markers of the format.
std::vector<std::string_view> marker_texts(const ReplyFormat& format);

// True if a special token with this text is a marker or part of one. An answer that is split into its parts shows only
// these special tokens.
bool is_marker(const ReplyFormat& format, std::string_view token);

// --- Markers as words: template text around names and arguments ("</parameter>
// <parameter="), split where models may space it differently. Pure functions.

bool is_marker_space(char c);

// Splits a text into words, which in order make up the whole text. A word is a run of spaces, a tag (<...>, which ends
// at '>', or before a space or another '<'), a name in brackets ("[TOOL_CALLS]", "[BEGIN ANSWER]"), a run of letters,
// digits and connecting characters, or any other single character.
std::vector<std::string_view> marker_words(std::string_view text);
// As marker_words(), but leaves out runs of spaces.
std::vector<std::string> solid_marker_words(std::string_view text);

// Returns the length in bytes of the longest sequence of whole words with which both texts begin.
size_t common_words_at_begin(std::string_view a, std::string_view b);

std::string_view trim_marker_spaces(std::string_view text);

}  // namespace ibid
