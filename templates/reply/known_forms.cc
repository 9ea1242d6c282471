#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/call_reader.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/reply_format.h"

namespace ibid {
namespace {

using Kind = CallPart::Kind;

// A form in which a call is a JSON object with these keys.
struct EnvelopeRow {
  std::string_view name;
  std::string_view marker;  // the row is used if the template's source has this text
  std::string_view section_begin, begin, end, separator, section_end;
  std::string_view name_key, arguments_key;
};

// The first row whose marker occurs in the template is used. So if one marker contains another, its row comes first.
constexpr EnvelopeRow kEnvelopeRows[] = {
    {"hermes", "<tool_call>", "", "<tool_call>\n", "\n</tool_call>", "\n", "", "name", "arguments"},
    {"granite 3", "<|tool_call|>", "<|tool_call|>[", "", "", ", ", "]", "name", "arguments"},
    {"mistral v3", "[TOOL_CALLS]", "[TOOL_CALLS][", "", "", ", ", "]", "name", "arguments"},
    {"tool calls list", "<tool_calls>", "<tool_calls>[", "", "", ", ", "]</tool_calls>", "name", "arguments"},
    {"nemotron", "<TOOLCALL>", "<TOOLCALL>[", "", "", ", ", "]</TOOLCALL>", "name", "arguments"},
    {"functools", "functools[", "functools[", "", "", ", ", "]", "name", "arguments"},
    {"command r", "<|START_ACTION|>", "<|START_ACTION|>[\n", "    ", "", ",\n", "\n]<|END_ACTION|>", "tool_name",
     "parameters"},
    {"llama 3", "<|python_tag|>", "", "", "", "; ", "", "name", "parameters"},
};

// A form in which the name is outside the arguments, which are JSON.
struct NamedRow {
  std::string_view name;
  std::string_view marker;
  std::string_view section_begin, begin, middle, end, separator, section_end;
};

constexpr NamedRow kNamedRows[] = {
    {"deepseek", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
     "<｜tool▁call▁end｜>", "", "<｜tool▁calls▁end｜>"},
    {"kimi", "<|tool_calls_section_begin|>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.",
     "<|tool_call_argument_begin|>", "<|tool_call_end|>", "", "<|tool_calls_section_end|>"},
    {"functionary", "<function=", "", "<function=", ">", "</function>", "", ""},
};

// A form in which the arguments are keywords, as in Python: [NAME(key=value), ...].
struct KeywordRow {
  std::string_view name;
  std::string_view marker;
  std::string_view section_begin, section_end;
};

constexpr KeywordRow kKeywordRows[] = {
    {"lfm 2", "List of tools: ", "<|tool_call_start|>[", "]<|tool_call_end|>"},
    {"python calls", "[func_name1(", "[", "]"},
};

constexpr ContentWords kReasoningRows[] = {
    {"<|open|>think<|sep|>", "<|close|>think<|sep|>"},
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
    {"<reasoning>", "</reasoning>"},
    {"<|channel>thought", "<channel|>"},
    {"Here is my thought process:", "Here is my response:"},
};

struct ContentRow {
  ContentWords words;
  std::string_view marker = {};  // the row is used if the template's source has this text; empty: words.begin
};

constexpr ContentRow kContentRows[] = {
    {{"<response>", "</response>"}},
    {{"<|START_RESPONSE|>", "<|END_RESPONSE|>"}},
    {{"<|START_TEXT|>", "<|END_TEXT|>"}},
    {{"<|open|>response<|sep|>", "<|close|>response<|sep|>"}},
    {{"<answer>", "</answer>"}},
    // Has a marker of its own, because the template of Hunyuan A13B does not contain the words.
    {{"<answer>", "</answer>"}, "<|extra_0|>"},
};

struct ChannelRow {
  std::string_view marker;  // a marker that occurs in an answer
  std::string_view begin, channel, body_begin, end, call_end, return_end, reasoning, recipient;
};

constexpr ChannelRow kChannelRows[] = {
    {"<|channel|>final<|message|>", "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>",
     "analysis", "to=functions."},
};

bool names(std::string_view text, std::string_view marker) { return text.find(marker) != text.npos; }

CallSyntax syntax_of(const EnvelopeRow& row) {
  CallSyntax syntax;
  syntax.section_begin = row.section_begin;
  syntax.separator = row.separator;
  syntax.section_end = row.section_end;
  const std::string name_key(row.name_key), arguments_key(row.arguments_key);
  syntax.parts = {{Kind::kLiteral, std::string(row.begin) + "{\"" + name_key + "\": \""},
                  {Kind::kName, {}},
                  {Kind::kLiteral, "\", \"" + arguments_key + "\": "},
                  {Kind::kArguments, {}},
                  {Kind::kLiteral, "}" + std::string(row.end)}};
  syntax.envelope = CallEnvelope{name_key, arguments_key, {}, std::string(row.begin), std::string(row.end)};
  if (names(row.marker, "python")) syntax.optional_begin = row.marker;
  syntax.triggers = call_triggers(syntax);
  return syntax;
}

CallSyntax syntax_of(const NamedRow& row) {
  CallSyntax syntax;
  syntax.section_begin = row.section_begin;
  syntax.separator = row.separator;
  syntax.section_end = row.section_end;
  syntax.parts = {{Kind::kLiteral, std::string(row.begin)}, {Kind::kName, {}}};
  const bool has_index = row.begin.ends_with("functions.");
  if (has_index) {
    syntax.parts.push_back({Kind::kLiteral, ":"});
    syntax.parts.push_back({Kind::kIndex, {}});
  }
  syntax.parts.push_back({Kind::kLiteral, std::string(row.middle)});
  syntax.parts.push_back({Kind::kArguments, {}});
  syntax.parts.push_back({Kind::kLiteral, std::string(row.end)});
  syntax.triggers = call_triggers(syntax);
  return syntax;
}

CallSyntax syntax_of(const KeywordRow& row) {
  CallSyntax syntax;
  syntax.section_begin = row.section_begin;
  syntax.separator = ", ";
  syntax.section_end = row.section_end;
  syntax.arguments = ArgumentsForm::kKeywords;
  syntax.parts = {{Kind::kName, {}}, {Kind::kArguments, {}}};
  syntax.triggers = call_triggers(syntax);
  return syntax;
}

}  // namespace

std::optional<NamedCalls> known_calls(std::string_view text) {
  for (const NamedRow& row : kNamedRows) {
    if (names(text, row.marker)) return NamedCalls{row.name, syntax_of(row)};
  }
  for (const EnvelopeRow& row : kEnvelopeRows) {
    if (names(text, row.marker)) return NamedCalls{row.name, syntax_of(row)};
  }
  for (const KeywordRow& row : kKeywordRows) {
    if (names(text, row.marker)) return NamedCalls{row.name, syntax_of(row)};
  }
  return std::nullopt;
}

NamedCalls usual_calls() { return {kEnvelopeRows[0].name, syntax_of(kEnvelopeRows[0])}; }

std::optional<ReasoningSyntax> known_reasoning(std::string_view text) {
  for (const ContentWords& row : kReasoningRows) {
    if (names(text, row.begin) || names(text, row.end)) {
      return ReasoningSyntax{std::string(row.begin), std::string(row.end)};
    }
  }
  return std::nullopt;
}

std::optional<ReasoningSyntax> known_reasoning_around(std::string_view before, std::string_view after) {
  while (!before.empty() && is_marker_space(before.back())) before.remove_suffix(1);
  while (!after.empty() && is_marker_space(after.front())) after.remove_prefix(1);
  for (const ContentWords& row : kReasoningRows) {
    if (before.ends_with(row.begin) && after.starts_with(row.end)) {
      return ReasoningSyntax{std::string(row.begin), std::string(row.end)};
    }
  }
  return std::nullopt;
}

std::optional<ChannelSyntax> known_channels(std::string_view answer) {
  for (const ChannelRow& row : kChannelRows) {
    if (!names(answer, row.marker)) continue;
    ChannelSyntax syntax;
    syntax.begin = row.begin;
    syntax.own_begin = std::string(row.begin) + "assistant";
    syntax.content_channel = "final";
    syntax.channel = row.channel;
    syntax.body_begin = row.body_begin;
    syntax.ends = {std::string(row.end), std::string(row.call_end), std::string(row.return_end)};
    syntax.reasoning_channels = {std::string(row.reasoning)};
    syntax.recipient = row.recipient;
    return syntax;
  }
  return std::nullopt;
}

CallSyntax calls_in_channels(const ChannelSyntax& channels) {
  CallSyntax syntax;
  syntax.parts = {{Kind::kLiteral, channels.channel + "commentary " + channels.recipient},
                  {Kind::kName, {}},
                  {Kind::kLiteral, " <|constrain|>json" + channels.body_begin},
                  {Kind::kArguments, {}}};
  // Models may also omit the content type, or write the recipient before the channel, although the template does not.
  const auto call_with = [&](const std::string& before, const std::string& after) {
    return std::vector<CallPart>{{Kind::kLiteral, before + channels.recipient},
                                 {Kind::kName, {}},
                                 {Kind::kLiteral, after + channels.body_begin},
                                 {Kind::kArguments, {}}};
  };
  const std::string channel = channels.channel + "commentary";
  syntax.other_parts = {call_with(channel + " ", ""), call_with(" ", channel + " json"),
                        call_with(" ", channel + " <|constrain|>json")};
  syntax.triggers = {channels.recipient};
  syntax.several = false;
  return syntax;
}

std::vector<std::string> known_foreign_markers(std::string_view text) {
  constexpr std::string_view kMarkers[] = {
      "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>",
      "<|tool_response>",         "<tool_response|>",       "<|close|>message<|sep|>"};
  std::vector<std::string> found;
  for (const std::string_view marker : kMarkers) {
    if (names(text, marker)) found.emplace_back(marker);
  }
  return found;
}

ContentWords known_content_words(std::string_view text) {
  for (const ContentRow& row : kContentRows) {
    if (names(text, row.marker.empty() ? row.words.begin : row.marker)) return row.words;
  }
  return {};
}

}  // namespace ibid
