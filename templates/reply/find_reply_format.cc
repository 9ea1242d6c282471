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

namespace ibid {
namespace {

constexpr const char* kQuestion = "Kestrelquestion";
constexpr const char* kReply = "Kestrelreply";
constexpr const char* kThought = "Kestrelthought";

Json probe_call(std::string_view tool, std::string_view id, bool as_text) {
  Json call = Json::object(), function = Json::object();
  function["name"] = tool;
  function["arguments"] = as_text ? Json(probe::kArguments) : *parse_json(probe::kArguments, "probe");
  call["id"] = id;
  call["type"] = "function";
  call["function"] = std::move(function);
  return call;
}

Json probe_tools() {
  const auto schema = [](const char* type) { return Json{{"type", type}, {"description", "what"}}; };
  Json properties = Json::object();
  properties["kcount"] = schema("integer");
  properties["kflag"] = schema("boolean");
  properties["klist"] = {{"type", "array"}, {"description", "what"}, {"items", {{"type", "string"}}}};
  properties["kplace"] = schema("string");
  properties["kzone"] = schema("string");
  Json tools = Json::array();
  for (const std::string_view name : {probe::kTool, probe::kOtherTool}) {
    const Json parameters = {{"type", "object"}, {"properties", properties}, {"required", Json::array({"kplace"})}};
    tools.push_back({{"type", "function"},
                     {"function", {{"name", name}, {"description", "What it does."}, {"parameters", parameters}}}});
  }
  return tools;
}

// Renders short conversations with one template.
class TemplateProbe {
 public:
  explicit TemplateProbe(const ChatTemplate& chat_template)
      : template_(chat_template), source_(chat_template.source()) {
    if (chat_template.source_for_tools() != source_) source_ += chat_template.source_for_tools();
  }

  // Renders a question and `answer`, or, if that is null, a question and the generation prompt. with_tools: two tools
  // are offered. The text is empty if the template fails.
  std::string render(const Json& answer, bool with_tools, Json values = Json::object()) const {
    Json messages = Json::array({make_message(Role::kUser, kQuestion)});
    const bool asks = answer.is_null();
    if (!asks) messages.push_back(answer);
    values["add_generation_prompt"] = asks;
    if (with_tools) values["tools"] = probe_tools();
    for (const auto& [name, text] : {std::pair{"bos_token", "<s>"}, {"eos_token", "</s>"}}) {
      if (!template_.default_variables().contains(name)) values[name] = text;
    }
    const Result<MarkedText> text = template_.render(messages, {std::move(values)});
    return text.ok() ? text->bytes() : std::string();
  }

  // All that the model's templates say.
  const std::string& source() const { return source_; }

 private:
  const ChatTemplate& template_;
  std::string source_;
};

Json answer_with(std::string text) { return make_message(Role::kAssistant, std::move(text)); }

Json thinking_answer(std::string text) {
  Json answer = answer_with(std::move(text));
  for (const std::string_view key : kReasoningKeys) answer[std::string(key)] = kThought;
  return answer;
}

// An answer rendered by a template, without the prompt.
struct Answer {
  std::string text;
  bool follows_prompt = false;  // the render begins with the bytes of the prompt
};

// The conversation before the answer, its generation prompt, and the render of an ordinary answer.
struct Frame {
  std::string prompt;
  std::string before_reply;   // the render of the ordinary answer, up to the answer's text
  std::string end_of_answer;  // the rest of that render

  // Returns the part of a render that is the answer.
  Answer answer_in(const std::string& render) const {
    if (render.starts_with(prompt)) return {render.substr(prompt.size()), true};
    return {render.substr(common_words_at_begin(render, before_reply)), false};
  }
};

std::optional<Frame> frame_of(const TemplateProbe& probe, bool with_tools) {
  Frame frame;
  frame.prompt = probe.render(nullptr, with_tools);
  const std::string render = probe.render(answer_with(kReply), with_tools);
  const size_t reply = render.rfind(kReply);
  if (frame.prompt.empty() || reply == std::string::npos) return std::nullopt;
  frame.before_reply = render.substr(0, reply);
  frame.end_of_answer = render.substr(reply + std::string_view(kReply).size());
  return frame;
}

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
  const ReasoningSyntax syntax{last_tag(render.substr(0, thought)),
                               first_tag(render.substr(thought + std::string_view(kThought).size()))};
  // Longest text taken as a marker: a tag farther from the thoughts does not belong to the reasoning.
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
      // If thoughts have no markers, `found` is the header of the message, which ordinary content has too.
      const std::string plain = probe.render(answer_with(kReply), !on, values);
      if (found && plain.find(found->begin + kReply) == plain.npos) return found;
    }
  }
  return known_reasoning(probe.source());
}

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
    std::string text = frame->answer_in(render).text;
    if (!reasoning) return text;
    const size_t end = text.find(reasoning->end);
    return end == text.npos ? text : text.substr(end + reasoning->end.size());
  };
  const Json call = probe_call(probe::kTool, probe::kId, as_text);
  const std::optional<std::string> one = written(Json::array({call}));
  if (!one) return std::nullopt;
  WrittenCalls calls{*one, {}, frame->end_of_answer};
  calls.two = written(Json::array({call, probe_call(probe::kOtherTool, probe::kOtherId, as_text)}));
  std::optional<CallSyntax> syntax = infer_call_syntax(calls);
  if (!syntax) return std::nullopt;
  return FoundCalls{*std::move(syntax), as_text};
}

std::optional<FoundCalls> find_calls(const TemplateProbe& probe, const std::optional<ReasoningSyntax>& reasoning) {
  for (const bool as_text : {false, true}) {
    for (const bool with_tools : {true, false}) {
      for (const Json& content : {Json(""), Json(nullptr)}) {
        std::optional<FoundCalls> found = calls_in(probe, reasoning, with_tools, as_text, content);
        if (found) return found;
      }
    }
  }
  return std::nullopt;
}

void set_calls(const TemplateProbe& probe, ReplyFormat& format) {
  if (std::optional<FoundCalls> found = find_calls(probe, format.reasoning)) {
    format.calls = std::move(found->syntax);
    format.arguments_as_text = found->as_text;
    format.origin = "read off the template";
    format.shows_tools = true;  // true because the client may list the tools in its messages itself
  } else if (const auto known = known_calls(probe.source() + probe.render(nullptr, true))) {
    format.calls = known->syntax;
    format.origin = std::string(known->name) + ", which the template names";
  } else {
    const NamedCalls usual = usual_calls();
    format.calls = usual.syntax;
    format.origin = "assumed: the template shows no calls";
  }
  constexpr std::string_view kPythonTag = "<|python_tag|>";
  const std::vector<std::string>& triggers = format.calls->triggers;
  if (triggers.front() == "{" && probe.source().find(kPythonTag) != std::string::npos) {
    format.calls->optional_begin = kPythonTag;
    format.calls->triggers = call_triggers(*format.calls);
  }
}

}  // namespace

ReplyFormat find_reply_format(const ChatTemplate& chat_template) {
  const TemplateProbe probe(chat_template);
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
  format.reasoning = find_reasoning(probe);
  const ContentWords words = known_content_words(probe.source());
  format.content_begin = words.begin;
  format.content_end = words.end;
  set_calls(probe, format);
  return format;
}

namespace {

using Kind = CallPart::Kind;

// A form in which a call is a JSON object with these keys.
struct EnvelopeRow {
  std::string_view name;
  std::string_view marker;  // text in the template's source
  std::string_view section_begin, begin, end, separator, section_end;
  std::string_view name_key, arguments_key;
};

// If one marker contains another, its row comes first.
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

constexpr ContentWords kReasoningRows[] = {
    {"<think>", "</think>"},
    {"<seed:think>", "</seed:think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<thinking>", "</thinking>"},
    {"<thought>", "</thought>"},
    {"<reasoning>", "</reasoning>"},
    {"<|channel>thought", "<channel|>"},
};

constexpr ContentWords kContentRows[] = {
    {"<response>", "</response>"},
    {"<|START_RESPONSE|>", "<|END_RESPONSE|>"},
};

struct ChannelRow {
  std::string_view marker;  // text in an answer
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

}  // namespace

std::optional<NamedCalls> known_calls(std::string_view text) {
  for (const NamedRow& row : kNamedRows) {
    if (names(text, row.marker)) return NamedCalls{row.name, syntax_of(row)};
  }
  for (const EnvelopeRow& row : kEnvelopeRows) {
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

std::optional<ChannelSyntax> known_channels(std::string_view answer) {
  for (const ChannelRow& row : kChannelRows) {
    if (!names(answer, row.marker)) continue;
    ChannelSyntax syntax;
    syntax.begin = row.begin;
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
  const auto call_with = [&](const std::string& before, const std::string& behind) {
    return std::vector<CallPart>{{Kind::kLiteral, before + channels.recipient},
                                 {Kind::kName, {}},
                                 {Kind::kLiteral, behind + channels.body_begin},
                                 {Kind::kArguments, {}}};
  };
  const std::string channel = channels.channel + "commentary";
  syntax.other_parts = {call_with(channel + " ", ""), call_with(" ", channel + " json"),
                        call_with(" ", channel + " <|constrain|>json")};
  syntax.triggers = {channels.recipient};
  syntax.several = false;
  return syntax;
}

ContentWords known_content_words(std::string_view text) {
  for (const ContentWords& row : kContentRows) {
    if (names(text, row.begin)) return row;
  }
  return {};
}

}  // namespace ibid
