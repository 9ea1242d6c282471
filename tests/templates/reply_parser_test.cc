#include "templates/reply/reply_parser.h"

#include <gtest/gtest.h>

#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "templates/reply/find_reply_format.h"
#include "tests/templates/reply_support.h"

namespace ibid {
namespace {

ReplyFormat format_of(const char* marker) {
  ReplyFormat format;
  format.calls = known_calls(marker)->syntax;
  return format;
}

const ReplyFormat& hermes() {
  static const ReplyFormat& format = *new ReplyFormat(format_of("<tool_call>"));
  return format;
}

// Parses the text whole and cut at every position, with and without streamed calls. All results must agree.
ParsedReply parse(const ReplyFormat& format, const std::string& text, const std::string& prompt_end = "",
                  const Json& tools = weather_tools()) {
  const ReplyContext context{&tools, prompt_end, false};
  const SplitReply whole = split(format, context, {text});
  EXPECT_EQ(split(format, context, cut_everywhere(text)).events, whole.events) << text;
  const ReplyContext streamed{&tools, prompt_end, true};
  const SplitReply pieces = split(format, streamed, cut_everywhere(text));
  EXPECT_EQ(split(format, streamed, {text}).events, pieces.events) << text;
  EXPECT_EQ(pieces.reply, whole.reply) << text;
  return whole.reply;
}

void expect_text(const ReplyFormat& format, const std::string& text) {
  const ParsedReply reply = parse(format, text);
  EXPECT_EQ(reply.content, text);
  EXPECT_EQ(reply.reasoning, "");
  EXPECT_TRUE(reply.calls.empty());
}

TEST(ReplyParser, ArgumentsKeepTheModelsSpelling) {
  const ParsedReply reply =
      parse(hermes(),
            "<tool_call>{\"arguments\":{\"days\" : 3,\"city\":\"\\u00fc\"} ,\"name\":\"get_weather\"}</tool_call>\n");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].arguments, "{\"days\" : 3,\"city\":\"\\u00fc\"}");
  EXPECT_EQ(reply.content, "");
}

TEST(ReplyParser, ArgumentsMayBeAJsonString) {
  const ParsedReply reply = parse(hermes(), R"(<tool_call>{"name": "add", "arguments": "{\"a\": 1}"}</tool_call>)");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].arguments, "{\"a\": 1}");
}

TEST(ReplyParser, CallWithoutArgumentsHasAnEmptyObject) {
  const ParsedReply reply = parse(hermes(), R"(<tool_call>{"name": "now"}</tool_call>)");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].arguments, "{}");
}

TEST(ReplyParser, TextAroundCallsIsContent) {
  const ParsedReply reply = parse(hermes(),
                                  "First.\n\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>\n"
                                  "then\n<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call> done\n");
  EXPECT_EQ(reply.content, "First.\nthen done\n");
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_EQ(reply.calls[1].name, "add");
}

TEST(ReplyParser, TruncatedCallIsReturnedAsContent) {
  const std::string whole = R"(Ok <tool_call>{"name": "add", "arguments": {"a": 1}})";
  for (size_t n = 0; n < whole.size(); ++n) expect_text(hermes(), whole.substr(0, n));
  EXPECT_EQ(parse(hermes(), whole).calls.size(), 1u) << "only the closing marker is missing";
  EXPECT_EQ(parse(hermes(), whole + "\n</tool_c").calls.size(), 1u);
}

TEST(ReplyParser, InvalidCallIsReturnedAsContent) {
  for (const char* call : {
           R"({"name": "unknown", "arguments": {}})",
           R"({"name": "add", "arguments": [1]})",
           R"({"name": "add", "arguments": {"a": 1,}})",
           R"({"name": "add", "arguments": {"a": 1, "a": 2}})",
           R"({"name": "add", "arguments": {"a": 1e999}})",
           R"({"name": "add", "name": "add", "arguments": {}})",
           R"({"arguments": {"a": 1}})",
           R"({"name": 3, "arguments": {}})",
           R"({{"name": "add", "arguments": {}}})",
           R"({"name": "add", "arguments": {}} and more)",
           R"(add)",
           R"()",
       }) {
    expect_text(hermes(), std::string("<tool_call>\n") + call + "\n</tool_call>");
  }
}

TEST(ReplyParser, CallAfterAnInvalidOneIsFound) {
  const ParsedReply reply =
      parse(hermes(),
            "<tool_call>{\"name\": \"x\"}</tool_call><tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>");
  EXPECT_EQ(reply.content, "<tool_call>{\"name\": \"x\"}</tool_call>");
  EXPECT_EQ(reply.calls.size(), 1u);
}

TEST(ReplyParser, OrdinaryTextIsUnchanged) {
  for (const char* text :
       {"", " ", "\n\n", "{", "<", "a < b {c} [d]", "```json\n{\"name\": \"add\"}\n```\n",
        "{\"name\": \"Paris\", \"country\": \"France\"}", "<tool_call", "<tool_call>", "< think>", "x <think>y</think>",
        "[TOOL_CALL]", "  indented\n", "<tool_calls> are <tool_call> things", "\xF0\x9F\x98\x80 <\xE2\x9C\x93>"}) {
    for (const char* marker :
         {"<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=", "<｜tool▁calls▁begin｜>"}) {
      expect_text(format_of(marker), text);
    }
  }
}

TEST(ReplyParser, AnswersContainNoCallsUnlessToolsAreOffered) {
  const std::string text = R"(<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>)";
  EXPECT_EQ(parse(hermes(), text, "", Json::array()).content, text);
  EXPECT_EQ(parse(format_of("<|python_tag|>"), R"({"name": "add", "parameters": {}})", "", Json::array()).content,
            R"({"name": "add", "parameters": {}})");
  EXPECT_EQ(parse_reply(hermes(), {}, text).content, text);
}

TEST(ReplyParser, ReasoningOpenedByTheAnswerOrByThePromptIsParsed) {
  const ParsedReply wanted{"Hm.\n  So.", "Yes.", {}};
  EXPECT_EQ(parse(hermes(), "<think>\nHm.\n  So.\n</think>\n\nYes."), wanted);
  EXPECT_EQ(parse(hermes(), "\n<think>Hm.\n  So.</think>Yes."), wanted);
  EXPECT_EQ(parse(hermes(), "Hm.\n  So.\n</think>\n\nYes.", "<|assistant|><think>\n"), wanted);
  EXPECT_EQ(parse(hermes(), "\n<think>\nHm.\n  So.\n</think>\n\nYes.", "<think>"), wanted);
  EXPECT_EQ(parse(hermes(), "Yes.", "<think>\n\n</think>\n\n"), (ParsedReply{"", "Yes.", {}}));
  EXPECT_EQ(parse(hermes(), "<think></think>Yes."), (ParsedReply{"", "Yes.", {}}));
}

TEST(ReplyParser, UnfinishedReasoningIsReturnedAsReasoning) {
  EXPECT_EQ(parse(hermes(), "<think>Hm. </thin"), (ParsedReply{"Hm. </thin", "", {}}));
  EXPECT_EQ(parse(hermes(), "Hm.\n", "<think>\n"), (ParsedReply{"Hm.\n", "", {}}));
}

TEST(ReplyParser, CallsInReasoningAreNotParsed) {
  const ParsedReply reply = parse(hermes(),
                                  "<think>maybe <tool_call>{\"name\": \"now\"}</tool_call></think>\n"
                                  "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>");
  EXPECT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.reasoning, "maybe <tool_call>{\"name\": \"now\"}</tool_call>");
}

TEST(ReplyParser, ContentAfterReasoningKeepsItsIndentation) {
  EXPECT_EQ(parse(hermes(), "<think>x</think>\n\n    code\n").content, "    code\n");
  EXPECT_EQ(parse(hermes(), "<think>x</think> text").content, "text");
}

TEST(ReplyParser, BareJsonIsACallOnlyAtTheBeginning) {
  const ReplyFormat llama = format_of("<|python_tag|>");
  EXPECT_EQ(parse(llama, R"({"name": "add", "parameters": {"a": 1}})").calls.size(), 1u);
  EXPECT_EQ(parse(llama, R"(<|python_tag|>{"name": "add", "parameters": {"a": 1}})").calls.size(), 1u);
  EXPECT_EQ(parse(llama, R"(<|python_tag|>{"name": "add", "parameters": {}}; {"name": "now", "parameters": {}})")
                .calls.size(),
            2u);
  expect_text(llama, R"(So: {"name": "add", "parameters": {"a": 1}})");
  expect_text(llama, R"(<|python_tag|>print(1))");
}

TEST(ReplyParser, ListsOfCallsAreParsed) {
  const ReplyFormat mistral = format_of("[TOOL_CALLS]");
  const ParsedReply reply = parse(
      mistral,
      R"([TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}, "id": "abcdefghi"},{"name":"now","arguments":{}}])");
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_EQ(reply.calls[0].id, "abcdefghi");
  EXPECT_EQ(reply.calls[1].id, "");
  EXPECT_EQ(reply.content, "");
  const ParsedReply half =
      parse(mistral, R"([TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "no", "arguments": {}}])");
  EXPECT_EQ(half.calls.size(), 1u);
  EXPECT_EQ(half.content, R"(, {"name": "no", "arguments": {}}])");
}

TEST(ReplyParser, CallsWithOmittedIdsOrSectionMarkersAreParsed) {
  ReplyFormat mistral;
  mistral.calls.emplace();
  mistral.calls->parts = {{CallPart::Kind::kLiteral, "[TOOL_CALLS]"}, {CallPart::Kind::kName, ""},
                          {CallPart::Kind::kLiteral, "[CALL_ID]"},    {CallPart::Kind::kId, ""},
                          {CallPart::Kind::kLiteral, "[ARGS]"},       {CallPart::Kind::kArguments, ""}};
  mistral.calls->triggers = {"[TOOL_CALLS]"};
  EXPECT_EQ(parse(mistral, R"([TOOL_CALLS]add[CALL_ID]abcdefghi[ARGS]{"a": 1})").calls[0].id, "abcdefghi");
  EXPECT_EQ(parse(mistral, R"([TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]now[ARGS]{})").calls.size(), 2u);

  const ReplyFormat kimi = format_of("<|tool_calls_section_begin|>");
  const ParsedReply reply =
      parse(kimi, "<|tool_call_begin|>functions.add:2<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|>");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].id, "functions.add:2");
}

TEST(ReplyParser, GraniteContentMarkersAreRemoved) {
  ReplyFormat granite = format_of("<|tool_call|>");
  granite.content_begin = "<response>";
  granite.content_end = "</response>";
  EXPECT_EQ(parse(granite, "<think>Hm.</think><response>Yes.</response>"), (ParsedReply{"Hm.", "Yes.", {}}));
  EXPECT_EQ(parse(granite, "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]").calls.size(), 1u);
}

ReplyFormat parameters() {
  ReplyFormat format;
  CallSyntax& calls = format.calls.emplace();
  calls.parts = {{CallPart::Kind::kLiteral, "<tool_call>\n<function="},
                 {CallPart::Kind::kName, ""},
                 {CallPart::Kind::kLiteral, ">\n"},
                 {CallPart::Kind::kArguments, ""},
                 {CallPart::Kind::kLiteral, "</function>\n</tool_call>"}};
  calls.arguments = ArgumentsForm::kParameters;
  calls.parameter = {"<parameter=", ">\n", ">\n", "\n</parameter>\n"};
  calls.triggers = {"<tool_call>"};
  return format;
}

std::string arguments_of(const std::string& key, const std::string& value) {
  const ParsedReply reply = parse(parameters(), "<tool_call>\n<function=get_weather>\n<parameter=" + key + ">\n" +
                                                    value + "\n</parameter>\n</function>\n</tool_call>");
  EXPECT_EQ(reply.calls.size(), 1u) << value;
  return reply.calls.empty() ? "" : reply.calls[0].arguments;
}

TEST(ReplyParser, SchemaDecidesWhichValuesAreStrings) {
  EXPECT_EQ(arguments_of("city", "3"), R"({"city": "3"})");
  EXPECT_EQ(arguments_of("days", "3"), R"({"days": 3})");
  EXPECT_EQ(arguments_of("exact", "True"), R"({"exact": true})");
  EXPECT_EQ(arguments_of("exact", "None"), R"({"exact": null})");
  EXPECT_EQ(arguments_of("tags", "['a', \"b'c\"]"), R"({"tags": ["a", "b'c"]})");
  EXPECT_EQ(arguments_of("tags", "[\"a\",1e2]"), R"({"tags": ["a",1e2]})");
  EXPECT_EQ(arguments_of("tags", "['\\ud83d\\ude00', '\\u00e9']"), "{\"tags\": [\"😀\", \"é\"]}");
  EXPECT_EQ(arguments_of("tags",
                         "['\\u00\x15"
                         "0']"),
            R"({"tags": "['\\u00\u00150']"})")
      << "a control byte is no digit";
  EXPECT_EQ(arguments_of("days", "soon"), R"({"days": "soon"})");
  EXPECT_EQ(arguments_of("unknown", "3"), R"({"unknown": 3})");
  EXPECT_EQ(arguments_of("unknown", "\"3\""), R"({"unknown": "\"3\""})");
  EXPECT_EQ(arguments_of("unknown", "Paris"), R"({"unknown": "Paris"})");
}

// Enumerations as pydantic writes them.
TEST(ReplyParser, SchemaReferencesAreResolved) {
  Json one = tool("set", {{"level", {{"$ref", "#/$defs/Level"}}},
                          {"odd", {{"$ref", "#/$defs/a~1b~0"}}},
                          {"loop", {{"$ref", "#/$defs/Loop"}}},
                          {"gone", {{"$ref", "#/$defs/Gone"}}}});
  one["function"]["parameters"]["$defs"] = {{"Level", {{"enum", {"1", "2"}}, {"type", "string"}}},
                                            {"a/b~", {{"anyOf", {{{"$ref", "#/$defs/Level"}}}}}},
                                            {"Loop", {{"$ref", "#/$defs/Loop"}}}};
  const Json tools = Json::array({one});
  std::string text = "<tool_call>\n<function=set>\n";
  for (const char* key : {"level", "odd", "loop", "gone"}) {
    text += "<parameter=" + std::string(key) + ">\n1\n</parameter>\n";
  }
  const ParsedReply reply = parse(parameters(), text + "</function>\n</tool_call>", "", tools);
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].arguments, R"({"level": "1", "odd": "1", "loop": 1, "gone": 1})");
}

TEST(ReplyParser, ValuesKeepLineBreaksAndMarkers) {
  EXPECT_EQ(arguments_of("city", "\n  a\n\n"), R"({"city": "\n  a\n\n"})");
  EXPECT_EQ(arguments_of("city", ""), R"({"city": ""})");
  EXPECT_EQ(arguments_of("city", "</parameter> x </function>"), R"({"city": "</parameter> x </function>"})");
}

// A model may write the arguments as JSON, or an object with name and arguments, in place of the template's form.
TEST(ReplyParser, JsonArgumentsBetweenMarkersKeepTheirSpelling) {
  const std::string begin = "<tool_call>\n<function=", end = "\n</function>\n</tool_call>";
  const std::string arguments = R"({"city":  " New  York ", "days" : 2 })";
  for (const std::string& call :
       {"get_weather>\n" + arguments, R"({ "name": "get_weather", "arguments": )" + arguments + " }"}) {
    const ParsedReply reply = parse(parameters(), begin + call + end);
    ASSERT_EQ(reply.calls.size(), 1u) << call;
    EXPECT_EQ(reply.calls[0].arguments, arguments) << call;
  }
  expect_text(parameters(), begin + "get_weather>\n{\"city\": \"a\nb\"}" + end);
}

// The next call shows that the first one ended, whatever follows it.
TEST(ReplyParser, CallThatBeginsLaterDoesNotDelayTheEndOfAValue) {
  const std::string said = "<tool_call>\n<function=get_weather>\n<parameter=city>\nx</function> y <function=now>";
  const std::string text = said + " <tool_call>\n<functio";
  const ReplyContext context{.tools = &weather_tools(), .demands_call = true};
  EXPECT_EQ(split(parameters(), context, {text}).reply.content, said);
  EXPECT_EQ(split(parameters(), context, cut_everywhere(text)).reply.content, said);
}

TEST(ReplyParser, DifferentlySpacedMarkersAreParsed) {
  const ParsedReply reply =
      parse(parameters(),
            "<tool_call><function=add><parameter=a>1</parameter><parameter=b>2</parameter></function></tool_call>");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].arguments, R"({"a": 1, "b": 2})");
}

ReplyFormat harmony() {
  ReplyFormat format;
  format.channels = known_channels("<|channel|>final<|message|>");
  format.calls = calls_in_channels(*format.channels);
  return format;
}

TEST(ReplyParser, HarmonyChannelsAreParsed) {
  const ParsedReply reply = parse(
      harmony(),
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Let me see.<|end|>"
      "<|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":1}<|call|>");
  EXPECT_EQ(reply.reasoning, "Hm.");
  EXPECT_EQ(reply.content, "Let me see.");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0], (ParsedCall{"", "add", "{\"a\":1}"}));
  EXPECT_EQ(parse(harmony(), "<|channel|>final<|message|>Yes."), (ParsedReply{"", "Yes.", {}}));
  EXPECT_EQ(parse(harmony(), "<|channel|>analysis<|message|>Hm"), (ParsedReply{"Hm", "", {}}));
}

// The recipient may precede the channel, as in the template, or follow it, with or without its kind.
TEST(ReplyParser, RecipientIsFoundAnywhereInTheHeader) {
  for (const char* header :
       {" to=functions.add<|channel|>commentary json", " to=functions.add<|channel|>commentary",
        "<|channel|>commentary to=functions.add <|constrain|>json", "<|channel|>commentary to=functions.add",
        "<|channel|>commentary json to=functions.add", "<|channel|>analysis to=functions.add <|constrain|>json",
        " to=add<|channel|>commentary json", "<|channel|>commentary to=add <|constrain|>json"}) {
    const std::string text = std::string(header) + "<|message|>{\"a\": 1}<|call|>";
    const ParsedReply reply = parse(harmony(), text);
    ASSERT_EQ(reply.calls.size(), 1u) << text;
    EXPECT_EQ(reply.calls[0], (ParsedCall{"", "add", "{\"a\": 1}"})) << text;
    EXPECT_EQ(reply.content, "") << text;
  }
}

TEST(ReplyParser, TextWithInvalidChannelsIsReturnedAsContent) {
  EXPECT_EQ(parse(harmony(), "Plain text.").content, "Plain text.");
  const std::string long_text(1000, 'x');
  EXPECT_EQ(parse(harmony(), long_text).content, long_text);
}

TEST(ReplyParser, MarkersOfChannelsAreNotReturnedAsContent) {
  for (const auto& [text, content] : std::vector<std::pair<std::string, std::string>>{
           {"<|chan", ""},
           {"<|channel|>final", ""},
           {" to=functions.ad", ""},
           {"<|channel|>final<|message|>A.<|end|><|start|>assistant<|channel|>fin", "A."},
           {"<|channel|>commentary to=functions.none<|message|>{}", "{}"},
           {" to=container.exec<|channel|>commentary<|message|>ls", "ls"},
           {"<|channel|>commentary to=assistant<|channel|>final<|message|>A.", "A."},
           {"<|channel|>commentary to=functions.add<|message|>{\"a\": ", "{\"a\": "}}) {
    EXPECT_EQ(parse(harmony(), text), (ParsedReply{"", content, {}})) << text;
  }
}

TEST(ReplyParser, SpacesBetweenMessagesAreContentOnlyIfTextFollows) {
  const char* const text =
      "<|channel|>final<|message|>A.<|end|> \n> <|end \n <|start|>assistant<|channel|>final<|message|>B.";
  const SplitReply whole = split(harmony(), {}, {text});
  EXPECT_EQ(whole.reply.content, "A. \n> <|end\nB.");
  EXPECT_EQ(split(harmony(), {}, cut_everywhere(text)).events, whole.events);
  // Spaces at the end of the answer are not content.
  const char* const end = "<|channel|>final<|message|>A.<|end|>>\n";
  EXPECT_EQ(split(harmony(), {}, {end}).reply.content, "A.>");
  EXPECT_EQ(split(harmony(), {}, cut_everywhere(end)).events, split(harmony(), {}, {end}).events);
}

TEST(ReplyParser, BodyOfAMessageIsACallUnlessManySpacesPrecedeIt) {
  ReplyFormat format = harmony();
  ChannelSyntax& channels = *format.channels;
  channels.channel = channels.recipient = "";
  channels.body_begin = "\n";
  channels.content_channel = "all";
  channels.body_calls = hermes().calls;
  const std::string call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(parse(format, "all\n" + std::string(300, ' ') + call).calls.size(), 1u);
  const std::string late = std::string(500, ' ') + call;
  EXPECT_EQ(parse(format, "all\n" + late).content, late);
}

TEST(ReplyParser, LongestMarkerEndsAMessage) {
  ReplyFormat format = harmony();
  format.channels->ends = {"<|end|>", "<|end|><|eot|>"};
  EXPECT_EQ(parse(format, "<|channel|>final<|message|>A<|end|><|eot|>").content, "A");
  EXPECT_EQ(parse(format, "<|channel|>final<|message|>A<|end|>").content, "A");
}

TEST(ReplyParser, EventsDoNotDependOnHowTextIsSplit) {
  constexpr const char* kPieces[] = {"<tool_call>",
                                     "</tool_call>",
                                     "<|tool_call|>",
                                     "[",
                                     "]",
                                     "[TOOL_CALLS]",
                                     "<|python_tag|>",
                                     "<function=",
                                     "add",
                                     "get_weather",
                                     ">",
                                     "</function>",
                                     "<parameter=",
                                     "city",
                                     "</parameter>",
                                     "\n",
                                     " ",
                                     "{",
                                     "}",
                                     "{\"name\": \"add\"",
                                     ", \"arguments\": ",
                                     "{\"a\": 1}",
                                     "\"",
                                     ":",
                                     ",",
                                     ";",
                                     "<think>",
                                     "</think>",
                                     "<",
                                     "x",
                                     "<|channel|>analysis",
                                     "<|channel|>commentary to=functions.add",
                                     "<|message|>",
                                     "<|end|>",
                                     "<|start|>assistant",
                                     "<|call|>",
                                     "<|tool_call_end|>",
                                     "<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>",
                                     "<|tool_calls_section_begin|>",
                                     "<|tool_calls_section_end|>",
                                     "\xC3\xBC"};
  std::vector<ReplyFormat> formats = {parameters(), harmony()};
  for (const char* marker : {"<tool_call>", "<|tool_call|>", "[TOOL_CALLS]", "<|python_tag|>",
                             "<function=", "<|tool_calls_section_begin|>"}) {
    formats.push_back(format_of(marker));
  }
  constexpr const char* kChannelPieces[] = {
      "<|channel|>final", "<|message|>", "<|end|>", "<|start|>", "x", " ", "\n", "<|"};
  Random random(20261123);
  for (size_t round = 0; round < 20'000; ++round) {
    const ReplyFormat& format = formats[random.below(formats.size())];
    const std::span<const char* const> pieces =
        format.channels && random.chance(50) ? std::span<const char* const>(kChannelPieces) : kPieces;
    std::string text;
    for (size_t n = random.below(14); n > 0; --n) text += pieces[random.below(pieces.size())];
    const ReplyContext context{
        .tools = &weather_tools(), .stream_calls = random.chance(50), .begins_in_reasoning = random.chance(20)};
    const SplitReply whole = split(format, context, {text});
    ASSERT_EQ(split(format, context, cut_everywhere(text)).events, whole.events) << text;
    ASSERT_EQ(split(format, context, cut_at_random(text, random)).events, whole.events) << text;
    for (const ParsedCall& call : whole.reply.calls) ASSERT_TRUE(parse_json(call.arguments, "test").ok()) << text;
  }
}

TEST(ReplyParser, HostileTextTakesLinearTime) {
  std::string text;
  for (size_t i = 0; i < 40'000; ++i) text += "<tool_call>{\"name\": \"";
  const ReplyContext context{&weather_tools(), "", false};
  EXPECT_EQ(parse_reply(hermes(), context, text).content.size(), text.size());
  const std::string spaces(400'000, '\n');
  EXPECT_EQ(parse_reply(hermes(), context, spaces).content, spaces);
  const std::string deep = "<tool_call>" + std::string(100'000, '{');
  EXPECT_EQ(parse_reply(hermes(), context, deep).content, deep);
  EXPECT_EQ(split(hermes(), context, cut_everywhere(spaces)).reply.content, spaces);
  std::string values = "<tool_call>\n<function=add>\n<parameter=a>\n";
  for (size_t i = 0; i < 80'000; ++i) values += "<parameter=";
  EXPECT_EQ(parse_reply(parameters(), context, values).content, values);
}

}  // namespace
}  // namespace ibid
