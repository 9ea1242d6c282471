// An answer of raw text, parsed in reply formats of all kinds. However the text is split, the parser emits the same
// events; no text is lost; and arguments of calls are JSON.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json_limits.h"
#include "base/utf8.h"
#include "templates/reply/call_steps.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/reply_parser.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

namespace {

const Json& offered() {
  static const Json& tools = *new Json(Json::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "n": {"type": "number"}}}}},
    {"name": "g"}])"));
  return tools;
}

CallSyntax between_markers() {
  CallSyntax calls;
  calls.parts = {{CallPart::Kind::kLiteral, "<tool_call>\n<function="},
                 {CallPart::Kind::kName, ""},
                 {CallPart::Kind::kLiteral, ">\n"},
                 {CallPart::Kind::kArguments, ""},
                 {CallPart::Kind::kLiteral, "</function>\n</tool_call>"}};
  calls.arguments = ArgumentsForm::kParameters;
  calls.parameter = {"<parameter=", ">\n", ">\n", "\n</parameter>\n"};
  calls.triggers = {"<tool_call>"};
  return calls;
}

CallSyntax between_tags() {
  CallSyntax calls = between_markers();
  calls.parameter = {"[<", ">", ">", "[</", ">"};
  return calls;
}

// The marker before a value contains the value's type.
CallSyntax typed() {
  CallSyntax calls = between_markers();
  calls.section_begin = "<|calls|>\n";
  calls.section_end = "</|calls|>";
  calls.parts.front().text = "<invoke name=\"";
  calls.parts[2].text = "\">\n";
  calls.parts.back().text = "</invoke>\n";
  calls.parameter = {"<parameter name=\"", "\" string=\"true\">", "\" string=\"false\">", "</parameter>\n"};
  calls.triggers = call_triggers(calls);
  return calls;
}

CallSyntax with_id() {
  CallSyntax calls;
  calls.parts = {{CallPart::Kind::kLiteral, "[TOOL_CALLS]"}, {CallPart::Kind::kName, ""},
                 {CallPart::Kind::kLiteral, "[CALL_ID]"},    {CallPart::Kind::kId, ""},
                 {CallPart::Kind::kLiteral, "[ARGS]"},       {CallPart::Kind::kArguments, ""}};
  calls.triggers = call_triggers(calls);
  return calls;
}

CallSyntax bare(ArgumentsForm form) {
  CallSyntax calls;
  calls.section_begin = form == ArgumentsForm::kKeywords ? "[" : "";
  calls.parts = {{CallPart::Kind::kLiteral, "<|tool_call>call:"},
                 {CallPart::Kind::kName, ""},
                 {CallPart::Kind::kArguments, ""},
                 {CallPart::Kind::kLiteral, "<tool_call|>"}};
  calls.arguments = form;
  calls.quote = form == ArgumentsForm::kBareObject ? "<|\"|>" : "";
  calls.separator = ", ";
  calls.triggers = {form == ArgumentsForm::kKeywords ? "[" : "<|tool_call>"};
  return calls;
}

const std::vector<ReplyFormat>& formats() {
  static const std::vector<ReplyFormat>& all = *new std::vector<ReplyFormat>([] {
    std::vector<ReplyFormat> made;
    const auto add = [&made](CallSyntax calls) { made.emplace_back().calls = std::move(calls); };
    for (const char* marker : {"<tool_call>", "<|tool_call|>", "[TOOL_CALLS]", "<|python_tag|>",
                               "<function=", "<|tool_calls_section_begin|>"}) {
      add(known_calls(marker)->syntax);
    }
    add(between_markers());
    add(between_tags());
    made.back().end_of_turn = "<|end|>";
    made.back().reasoning = ReasoningSyntax{"<|think|>so", "<|/think|>"};
    made.back().content_begin = "<|text|>";
    add(bare(ArgumentsForm::kBareObject));
    add(bare(ArgumentsForm::kKeywords));
    add(known_calls("List of tools: ")->syntax);
    made.back().dropped = {"<|x|>"};
    made[0].calls->envelope->may_be_doubled = true;
    made[0].content_begin = "<response>";
    made[0].content_end = "</response>";
    made.emplace_back().channels = known_channels("<|channel|>final<|message|>");
    ChannelSyntax lines = *made.back().channels;
    lines.channel = lines.recipient = "";
    lines.body_begin = "\n";
    lines.content_channel = "all";
    lines.body_calls = made[0].calls;
    made.emplace_back().channels = lines;
    for (const char* marker : {"<|START_ACTION|>", "<\uFF5Ctool\u2581calls\u2581begin\uFF5C>", "functools["}) {
      add(known_calls(marker)->syntax);
    }
    add(typed());
    made.back().reasoning = ReasoningSyntax{"[THINK]", "[/THINK]"};
    add(with_id());
    return made;
  }());
  return all;
}

struct Heard {
  std::vector<TurnEvent> events;
  ParsedReply reply;
};

// Parses `text` in pieces of `piece` bytes.
Heard hear(const ReplyFormat& format, const ReplyContext& context, std::string_view text, size_t piece) {
  Heard heard;
  const auto listen = [&heard](const TurnEvent& event) {
    CHECK(event.kind != TurnEvent::Kind::kContent || !event.text.empty());
    const bool is_delta = event.kind == TurnEvent::Kind::kReasoning || event.kind == TurnEvent::Kind::kContent ||
                          event.kind == TurnEvent::Kind::kArguments;
    if (is_delta && !heard.events.empty() && heard.events.back().kind == event.kind) {
      heard.events.back().text += event.text;
    } else {
      heard.events.push_back(event);
    }
  };
  ReplyParser parser(format, context);
  for (size_t at = 0; at < text.size(); at += piece) parser.feed(text.substr(at, piece), listen);
  parser.finish(listen);
  heard.reply = parser.reply();
  return heard;
}

size_t n_solid(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return c != ' ' && c != '\n' && c != '\t' && c != '\r'; }));
}

// Without tools and reasoning, all text except the markers of the format is content.
void check_plain(std::string_view text, size_t piece) {
  const Heard plain = hear(ReplyFormat(), {}, text, piece);
  CHECK(plain.reply.calls.empty());
  if (text.find("think>") == text.npos) CHECK(plain.reply.content == text) << "a part of a plain text is lost";
  CHECK_LE(n_solid(plain.reply.content) + n_solid(plain.reply.reasoning), n_solid(text));
}

}  // namespace

// The first byte selects the format and whether calls are streamed, the second how the text is split and its context.
void reply(Input input) {
  if (input.size() < 2) return;
  const size_t piece = 1 + input[1] % 13;
  const std::string text = utf8_sanitize(text_of(input.subspan(2)));
  const size_t n_formats = formats().size(), choice = input[0] % (2 * n_formats + 1);
  if (choice == 2 * n_formats) return check_plain(text, piece);
  const ReplyFormat& format = formats()[choice % n_formats];
  const ReplyContext context{.tools = &offered(),
                             .stream_calls = choice >= n_formats,
                             .begins_in_reasoning = input[1] % 2 == 1,
                             .demands_call = input[1] % 3 == 0};
  const Heard whole = hear(format, context, text, std::max<size_t>(text.size(), 1));
  const Heard cut = hear(format, context, text, piece);
  CHECK(cut.events == whole.events) << "splitting the text changes the events";
  CHECK(cut.reply == whole.reply);
  for (const ParsedCall& call : whole.reply.calls) {
    CHECK(call.name == "f" || call.name == "g");
    const Result<Json> arguments = parse_json(call.arguments, "arguments");
    CHECK(arguments.ok() && arguments->is_object()) << "arguments are not an object";
  }
}

}  // namespace ibid::fuzz
