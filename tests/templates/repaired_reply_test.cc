// Answers that differ from their form: missing markers, calls inside reasoning, calls without the form's markers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json_limits.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/reply_parser.h"
#include "templates/reply/schema_check.h"
#include "tests/templates/reply_support.h"

namespace ibid {
namespace {

// A template that renders each call by `call`, between `before` and `after`.
std::string template_of(const std::string& before, const std::string& call, const std::string& after,
                        const std::string& instructions = "") {
  return instructions + "{% for message in messages %}<|{{ message.role }}|>{% if message.tool_calls %}" + before +
         "{% for tool_call in message.tool_calls %}{% set call = tool_call.function %}" + call + "{% endfor %}" +
         after +
         "{% else %}{{ message.content }}{% endif %}<|end_of_turn|>{% endfor %}"
         "{% if add_generation_prompt %}<|assistant|>{% endif %}";
}

ReplyFormat found_in(const std::string& source) {
  const auto chat_template = ChatTemplate::compile(source);
  EXPECT_TRUE(chat_template.ok());
  return find_reply_format(*chat_template);
}

const ReplyFormat& marked_form() {
  static const ReplyFormat& format = *new ReplyFormat(found_in(template_of(
      "",
      "<call>\n<do={{ call.name }}>\n{% for key, value in call.arguments.items() %}<arg={{ key }}>\n{{ value if "
      "value is string else value | tojson }}\n</arg>\n{% endfor %}</do>\n</call>\n",
      "")));
  return format;
}

const ReplyFormat& object_form() {
  static const ReplyFormat& format = *new ReplyFormat(found_in(template_of(
      "", "<call>\n{\"name\": \"{{ call.name }}\", \"arguments\": {{ call.arguments | tojson }}}\n</call>\n", "")));
  return format;
}

const ReplyFormat& doubled_form() {
  static const ReplyFormat& format = *new ReplyFormat(found_in(template_of(
      "", "<call>\n{\"name\": \"{{ call.name }}\", \"arguments\": {{ call.arguments | tojson }}}\n</call>\n", "",
      "{{ '<call>{{\"name\": NAME, \"arguments\": OBJECT}}</call>' }}")));
  return format;
}

const ReplyFormat& bare_form() {
  static const ReplyFormat& format = *new ReplyFormat(found_in(template_of(
      "",
      "<|call>do:{{ call.name }}{{ '{' }}{% for key, value in call.arguments.items() %}{{ key }}:{% if value is "
      "string %}<|'|>{{ value }}<|'|>{% else %}{{ value | tojson }}{% endif %}{% if not loop.last %},{% endif %}{% "
      "endfor %}{{ '}' }}<call|>",
      "")));
  return format;
}

const ReplyFormat& python_form() {
  static const ReplyFormat& format = *new ReplyFormat(found_in(
      template_of("<|calls|>[",
                  "{% if not loop.first %}, {% endif %}{{ call.name }}({% for key, value in call.arguments.items() "
                  "%}{{ key }}={{ value | tojson }}{% if not loop.last %}, {% endif %}{% endfor %})",
                  "]<|/calls|>")));
  return format;
}

// Values between tags that have the keys, nested ones too, with the same sign before each tag.
std::string tags_template(const std::string& sign) {
  return "{% macro write(v) %}{% if v is mapping %}{% for k, x in v.items() %}" + sign + "<{{ k }}>{{ write(x) }}" +
         sign + "</{{ k }}>{% endfor %}{% elif v is string %}{{ v }}{% elif v is iterable %}{% for x in v %}" + sign +
         "<item>{{ write(x) }}" + sign + "</item>{% endfor %}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}" +
         template_of(sign + "<calls>\n",
                     sign + "<invoke name=\"{{ call.name }}\">{{ write(call.arguments) }}" + sign + "</invoke>\n",
                     sign + "</calls>");
}

const ReplyFormat& tags_form() {
  static const ReplyFormat& format = *new ReplyFormat(found_in(tags_template("]<]x[>[")));
  return format;
}

// Tags of special tokens, the name after an ordinary word, reasoning and content with markers of their own.
const ReplyFormat& token_form() {
  static const ReplyFormat& format = *new ReplyFormat(found_in(
      "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<|think|>deeply\n{{ m.reasoning_content "
      "}}<|/think|>{% endif %}{% if m.role == 'assistant' %}<|START_TEXT|>{{ m.content }}<|END_TEXT|>{% else %}{{ "
      "m.content }}{% endif %}{% for tool_call in m.tool_calls or [] %}<|call|>functions.{{ "
      "tool_call.function.name }}<|with|>{{ tool_call.function.arguments | tojson }}<|/call|>{% endfor "
      "%}<|end_of_turn|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"));
  return format;
}

// Parses the text whole and in single bytes, which must agree.
ParsedReply read_reply(const ReplyFormat& format, const std::string& text, ReplyContext context = {}) {
  if (context.tools == nullptr) context.tools = &weather_tools();
  const SplitReply whole = split(format, context, {text});
  EXPECT_EQ(split(format, context, cut_everywhere(text)).events, whole.events) << text;
  return whole.reply;
}

// The calls as one text: "name {arguments}; name {arguments}".
std::string calls_of(const ParsedReply& reply) {
  std::string text;
  for (const ParsedCall& call : reply.calls) {
    text += (text.empty() ? "" : "; ") + call.name + " " + json_to_string(*parse_json(call.arguments, "test"));
  }
  return text;
}

struct RepairedCase {
  const ReplyFormat& format;
  std::string text, calls;
  std::string content = {}, reasoning = {};
};

void expect_replies(const std::vector<RepairedCase>& cases) {
  for (const RepairedCase& one : cases) {
    const ParsedReply reply = read_reply(one.format, one.text);
    EXPECT_EQ(calls_of(reply), one.calls) << one.text;
    EXPECT_EQ(reply.content, one.content) << one.text;
    EXPECT_EQ(reply.reasoning, one.reasoning) << one.text;
  }
}

constexpr const char* kNow = "<call>\n{\"name\": \"now\", \"arguments\": {}}\n</call>";
constexpr const char* kOslo = R"(get_weather {"city":"Oslo"})";
const std::string kOsloArgument = "<arg=city>\nOslo\n</arg>\n";

TEST(RepairedReply, CallWithMissingMarkersKeepsItsArguments) {
  expect_replies({
      {marked_form(), "<do=get_weather>\n" + kOsloArgument + "</do>\n</call>", kOslo},
      {marked_form(), "See:\n\n<do=get_weather>\n" + kOsloArgument + "</do>", kOslo, "See:"},
      {marked_form(), "<call>\n<do=get_weather>\n" + kOsloArgument + "</call>", kOslo},
      {marked_form(), "<call>\n<do=get_weather>\n<arg=city>\nOslo\n</do>\n</call>", kOslo},
      {marked_form(), "<call>\n<do=get_weather>\n<arg=city>\nOslo\n<arg=days>\n2\n</arg>\n</do>\n</call>",
       R"(get_weather {"city":"Oslo","days":2})"},
      {marked_form(), "<call>\n<do=get_weather>\n<arg=city>\nOslo\n<arg=days>\n2\n</do>\n<do=now>\n</do>\n</call>",
       R"(get_weather {"city":"Oslo","days":2}; now {})"},
      {marked_form(), "<call>\n<do=now>\n</do>\n<do=add>\n<arg=a>\n1\n</arg>\n</do>\n</call>",
       R"(now {}; add {"a":1})"},
      {marked_form(), "<call>\n<do=now>\n</do>\n<call>\n<do=now>\n</do>\n</call>", "now {}; now {}"},
      // Text that the value itself may have.
      {marked_form(), "<call>\n<do=get_weather>\n<arg=city>\na <arg=none> b\n</arg>\n</do>\n</call>",
       R"(get_weather {"city":"a <arg=none> b"})"},
      {marked_form(), "<call>\n<do=get_weather>\n<arg=city>\n</do>\n</call>\n</arg>\n</do>\n</call>",
       R"(get_weather {"city":"</do>\n</call>"})"},
      {object_form(), "<call>{\"name\": \"now\", \"arguments\": {}}<call>{\"name\": \"now\", \"arguments\": {}}</call>",
       "now {}; now {}"},
      {python_form(), "[now(), add(a=1)]", R"(now {}; add {"a":1})"},
      {python_form(), "<|calls|>now()<|/calls|>", "now {}"},
      {python_form(), "[now](url) is a link", "", "[now](url) is a link"},
  });
}

TEST(RepairedReply, ArgumentsAreConvertedToTheTypesOfTheSchema) {
  expect_replies({
      {marked_form(),
       "<call>\n<do=get_weather>\n<arg=exact>\nTRUE\n</arg>\n<arg=days>\n3\n</arg>\n<arg=city>\nTRUE\n</arg>\n"
       "</do>\n</call>",
       R"(get_weather {"exact":true,"days":3,"city":"TRUE"})"},
      {marked_form(), "<call>\n<do=get_weather>\n<arg=city>\n<![CDATA[a < b]]>\n</arg>\n</do>\n</call>",
       R"(get_weather {"city":"a < b"})"},
      {bare_form(), "<|call>do:get_weather{city:<|'|>Oslo<|'|>,days:3}<call|>",
       R"(get_weather {"city":"Oslo","days":3})"},
      {bare_form(), "<|call>do:get_weather{\"city\":\"O, \\\"s\\\"}\",days:\"3\"}<call|>",
       R"(get_weather {"city":"O, \"s\"}","days":3})"},
      {bare_form(), "<|call>do:get_weather{city:Oslo,exact:TRUE}<call|>",
       R"(get_weather {"city":"Oslo","exact":true})"},
      {object_form(), "<call>{\"why\": 1, \"arguments\": {\"a\": \"1\"}, \"name\": \"add\"}</call>",
       R"(add {"a":"1"})"},
      {object_form(), "<call>{\"name\": \"add\", \"arguments\": null}</call>", "add {}"},
  });
}

TEST(RepairedReply, CallsBetweenSpecialTokensAreRepaired) {
  EXPECT_EQ(describe_calls(token_form()), "<|call|>functions.NAME<|with|>{...}<|/call|>");
  EXPECT_EQ(describe_reasoning(token_form()), "<|think|>deeply ... <|/think|>");
  const std::string now = "<|call|>functions.now<|with|>{}<|/call|>";
  expect_replies({
      {token_form(), "<|think|>deeply\nHm.<|/think|><|START_TEXT|>See.<|END_TEXT|>" + now, "now {}", "See.", "Hm."},
      {token_form(), "<|think|>Hm.<|/think|>See.", "", "See.", "Hm."},
      {token_form(), "<|think|>deeply\nHm.<|START_TEXT|>See.<|END_TEXT|>", "", "See.", "Hm."},
      {token_form(), "<|call|>now<|with|>{}<|/call|>", "now {}"},
      {token_form(), "<|call|>tools.now<|with|>{}<|/call|>", "now {}"},
      {token_form(), "<call>functions.now<|with|>{}<|/call|>", "now {}"},
      {token_form(), now + "<|/call|>", "now {}"},
      {token_form(), now + "<|/call|>\n<|/call|> Done.", "now {}", "Done."},
      {token_form(), "<|call|>functions.tools.none<|with|>{}<|/call|>", "",
       "<|call|>functions.tools.none<|with|>{}<|/call|>"},
      {token_form(), "A <call> of now", "", "A <call> of now"},
      // The end of the turn is content if text follows.
      {token_form(), "See.<|end_of_turn|>", "", "See."},
      {token_form(), "See.<|end_of_turn|>\n", "", "See."},
      {token_form(), now + "<|end_of_turn|>", "now {}"},
      {token_form(), "<|end_of_turn|> ends a turn", "", "<|end_of_turn|> ends a turn"},
      {token_form(), "See.<|end_of_", "", "See.<|end_of_"},
  });
}

TEST(RepairedReply, ArgumentsInTagsWithTheArgumentsNameAreParsed) {
  EXPECT_EQ(
      describe_calls(tags_form()),
      "]<]x[>[<calls>\\n]<]x[>[<invoke name=\"NAME\">]<]x[>[<KEY>VALUE]<]x[>[</KEY>]<]x[>[</invoke>\\n]<]x[>[</calls>");
  const auto call = [](std::string arguments) {
    std::string text = "<calls>\n<invoke name=\"get_weather\">" + arguments + "</invoke>\n</calls>", out;
    for (const char c : text) out += c == '<' ? "]<]x[>[<" : std::string(1, c);
    return out;
  };
  const std::string oslo = "<city>Oslo</city>";
  expect_replies({
      {tags_form(), call(oslo), kOslo},
      {tags_form(), "See:" + call(oslo), kOslo, "See:"},
      {tags_form(), call(""), "get_weather {}"},
      {tags_form(), call(oslo + "<days>3</days>"), R"(get_weather {"city":"Oslo","days":3})"},
      {tags_form(), call("<tags><item>a</item><item>b</item></tags>"), R"(get_weather {"tags":["a","b"]})"},
      {tags_form(), call("<tags>[\"a\"]</tags>"), R"(get_weather {"tags":["a"]})"},
      {tags_form(), call("<tags><item>1</item></tags><other><item>1</item></other>"),
       R"(get_weather {"tags":["1"],"other":[1]})"},
      {tags_form(), call("<other><item><city>x</city><n>1</n></item></other>"),
       R"(get_weather {"other":[{"city":"x","n":1}]})"},
      {tags_form(), call("<city><b>Oslo</b></city>"), R"(get_weather {"city":"]<]x[>[<b>Oslo]<]x[>[</b>"})"},
      {tags_form(), call("<tags><item>a</other></tags>"), R"(get_weather {"tags":"]<]x[>[<item>a]<]x[>[</other>"})"},
  });
  // Cut anywhere before the last argument ends, it is no call.
  const std::string whole = call(oslo);
  for (size_t n = 1; n < whole.find("</city>"); ++n) {
    EXPECT_EQ(read_reply(tags_form(), whole.substr(0, n)).content, whole.substr(0, n));
  }
  std::string deep;
  for (size_t i = 0; i < 10'000; ++i) deep += "<item>";
  EXPECT_EQ(read_reply(tags_form(), call("<tags>" + deep + "</tags>")).calls.size(), 1u);
  const ReplyFormat plain = found_in(tags_template(""));
  EXPECT_EQ(describe_calls(plain), "<calls>\\n<invoke name=\"NAME\"><KEY>VALUE</KEY></invoke>\\n</calls>");
  const std::string text =
      "<calls><invoke name=\"get_weather\"><city>a < b</city><tags><item>1</item></tags></invoke></calls>";
  expect_replies({{plain, text, R"(get_weather {"city":"a < b","tags":["1"]})"}});
}

TEST(RepairedReply, ArgumentsWrappedInOneArgumentAreUnwrapped) {
  const auto call = [](const std::string& key, const std::string& value) {
    return "<call>\n<do=get_weather>\n<arg=" + key + ">\n" + value + "\n</arg>\n</do>\n</call>";
  };
  expect_replies({
      {marked_form(), call("arguments", "{\"city\": \"Oslo\"}"), kOslo},
      {marked_form(), call("properties", "{'city': 'Oslo'}"), kOslo},
      {marked_form(), call("arguments", "{\"town\": \"Oslo\"}"), R"(get_weather {"arguments":{"town":"Oslo"}})"},
      {marked_form(), call("arguments", "Oslo"), R"(get_weather {"arguments":"Oslo"})"},
      {marked_form(), call("other", "{\"city\": \"Oslo\"}"), R"(get_weather {"other":{"city":"Oslo"}})"},
  });
}

// The call was cut before its arguments.
TEST(RepairedReply, CallThatEndsAfterItsNameIsContent) {
  for (const char* text : {"<call>\n<do=get_weather>", "<call>\n<do=get_weather>\n", "<do=now>"}) {
    expect_replies({{marked_form(), text, "", text}});
  }
}

TEST(RepairedReply, CallEndsReasoningThatIsNotClosed) {
  const std::string now = kNow;
  expect_replies({
      {object_form(), "<think>Hm.\n\n" + now, "now {}", "", "Hm."},
      {object_form(), "<think>" + now + "\n" + now, "now {}; now {}"},
      {object_form(), "<think>Hm. " + now + "</think>\n", "now {}", "", "Hm."},
      {object_form(), "<think>Hm. " + now + " So.</think>Yes.", "", "Yes.", "Hm. " + now + " So."},
      {object_form(), "<think>Hm. " + now + "</think>" + now, "now {}", "", "Hm. " + now},
      {object_form(), "<think>Hm. <call>{\"name\": \"none\", \"arguments\": {}}</call>", "", "",
       "Hm. <call>{\"name\": \"none\", \"arguments\": {}}</call>"},
      {marked_form(), "<think>Hm.\n<do=now>\n</do>\n</call>", "now {}", "", "Hm."},
      {object_form(), "</think>\n\nYes.", "", "Yes."},
      {object_form(), "\n</think>" + now, "now {}"},
  });
  const ParsedReply open = read_reply(object_form(), "Hm.\n" + now, {.begins_in_reasoning = true});
  EXPECT_EQ(calls_of(open) + "|" + open.reasoning, "now {}|Hm.");
}

TEST(RepairedReply, WholeAnswersThatAreJsonCallsAreParsedAsCalls) {
  const std::string oslo = R"({"name": "get_weather", "arguments": {"city": "Oslo"}})";
  const std::string now = R"({"parameters": {}, "name": "now"})";
  for (const ReplyFormat* format : {&object_form(), &marked_form(), &python_form()}) {
    expect_replies({
        {*format, oslo, kOslo},
        {*format, "\n " + oslo + "\n" + now + "\n", std::string(kOslo) + "; now {}"},
        {*format, "```json\n" + oslo + "\n```", kOslo},
        {*format, "```\n" + oslo + "```\n\n```tool_call\n" + now + "\n```\n", std::string(kOslo) + "; now {}"},
        {*format, "[" + oslo + ", " + now + "]", std::string(kOslo) + "; now {}"},
        {*format, "```json\n[" + oslo + "]\n```", kOslo},
        {*format, R"({"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"})", kOslo},
        {*format, "<think>Hm.</think>\n```json\n" + oslo + "\n```", kOslo, "", "Hm."},
    });
  }
  for (const std::string& text : {oslo + "\nThat is the call.",
                                  "The call: " + oslo,
                                  "```json\n" + oslo,
                                  "```json\n" + oslo + "\n``` Done.",
                                  "```json\n" + oslo + "\n" + now + "\n```",
                                  "[" + oslo + "] " + now,
                                  std::string("[]"),
                                  "[" + oslo,
                                  std::string("```json\n{ \"name\": \"Bingo\", \"age\": 30 }\n```"),
                                  std::string(R"({"city": "Oslo"})"),
                                  std::string(R"({"name": "none", "arguments": {}})"),
                                  std::string(R"({"name": "now"})"),
                                  std::string(R"({"name": "now", "arguments": {}, "id": 1})"),
                                  std::string(R"({"name": "get_weather", "arguments": {"city": 3}})"),
                                  std::string(R"({"name": "get_weather", "arguments": {"town": "Oslo"}})"),
                                  std::string(R"({"name": "get_weather", "arguments": ["Oslo"]})"),
                                  "{" + oslo + "}",
                                  std::string("```python\nprint(1)\n```"),
                                  std::string("`now`"),
                                  std::string("[1](x)"),
                                  std::string("{")}) {
    expect_replies({{object_form(), text, "", text}});
  }
  expect_replies({{doubled_form(), "{" + oslo + "}", kOslo},
                  {doubled_form(), "```json\n{" + oslo + "}\n```", kOslo},
                  {doubled_form(), "<call>{" + oslo + "}</call>", kOslo},
                  {doubled_form(), "<call>" + oslo + "</call>", kOslo},
                  {doubled_form(), "{" + oslo + ", {}}", "", "{" + oslo + ", {}}"}});
}

TEST(RepairedReply, AnswersContainNoCallsUnlessToolsAreOffered) {
  const Json none = Json::array();
  const std::string fenced = "```json\n{\"name\": \"now\", \"arguments\": {}}\n```";
  EXPECT_EQ(read_reply(object_form(), fenced, {.tools = &none}).content, fenced);
}

TEST(RepairedReply, CutRequiredCallIsNotReturnedAsContent) {
  for (const ReplyFormat* format : {&object_form(), &marked_form(), &bare_form(), &python_form()}) {
    const std::string text = format == &object_form() ? kNow
                             : format == &marked_form()
                                 ? "<call>\n<do=get_weather>\n" + kOsloArgument + "</do>\n</call>"
                             : format == &bare_form() ? "<|call>do:get_weather{city:<|'|>Oslo<|'|>}<call|>"
                                                      : "<|calls|>[get_weather(city=\"Oslo\")]<|/calls|>";
    for (size_t n = 1; n < text.size(); ++n) {
      for (const bool streams : {false, true}) {
        const ParsedReply reply =
            read_reply(*format, text.substr(0, n), {.stream_calls = streams, .demands_call = true});
        EXPECT_EQ(reply.content, "") << text.substr(0, n);
      }
    }
  }
}

TEST(SchemaCheck, SchemaKeywordsAreEvaluated) {
  const struct {
    const char* schema;
    std::vector<const char*> good, bad;
  } cases[] = {
      {R"({"type": "integer", "minimum": 1, "exclusiveMaximum": 3})", {"1", "2", "2.0"}, {"0", "3", "1.5", "\"1\""}},
      {R"({"type": ["string", "null"], "maxLength": 2})", {"\"\u00e4\u00e4\"", "null"}, {"\"abc\"", "1"}},
      {R"({"enum": ["a", 1]})", {"\"a\"", "1"}, {"\"b\"", "null"}},
      {R"({"const": {"a": 1}})", {R"({"a": 1})"}, {"{}"}},
      {R"({"properties": {"a": {"type": "string"}}, "required": ["a"]})",
       {R"({"a": ""})"},
       {"{}", R"({"a": "", "b": 1})"}},
      {R"({"properties": {}, "additionalProperties": {"type": "null"}})", {"{}", R"({"a": null})"}, {R"({"a": 1})"}},
      {R"({"type": "object"})", {"{}", R"({"a": 1})"}, {"[]"}},
      {R"({"items": {"type": "number"}, "minItems": 1})", {"[1]"}, {"[]", "[\"a\"]"}},
      {R"({"prefixItems": [{"type": "null"}], "items": false})", {"[]", "[null]"}, {"[1]", "[null, 1]"}},
      {R"({"anyOf": [{"type": "null"}, {"type": "array"}]})", {"null", "[]"}, {"1"}},
      {R"({"oneOf": [{"type": "number"}, {"type": "integer"}]})", {"1.5"}, {"1", "null"}},
      {R"({"allOf": [{"minimum": 1}, {"maximum": 2}]})", {"1"}, {"0", "3"}},
      {R"({"not": {"type": "null"}})", {"1"}, {"null"}},
      {R"({"multipleOf": 0.1})", {"0.3"}, {"0.35"}},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}})", {"\"\""}, {"1"}},
      {R"({"$ref": "#/$defs/none"})", {}, {"1"}},
      {R"({"$ref": "#"})", {}, {"1"}},
      {R"({"type": "string", "nullable": true})", {"null"}, {"1"}},
      {R"({"x-other": 1, "format": "none"})", {"1"}, {}},
      {"true", {"1"}, {}},
      {"false", {}, {"1"}},
  };
  for (const auto& [schema, good, bad] : cases) {
    const Json parsed = *parse_json(schema, "test");
    for (const char* value : good) EXPECT_TRUE(schema_accepts(parsed, parsed, *parse_json(value, "test"))) << schema;
    for (const char* value : bad) EXPECT_FALSE(schema_accepts(parsed, parsed, *parse_json(value, "test"))) << schema;
  }
}

// 2^40 evaluations without a limit.
TEST(SchemaCheck, WorkOfASchemaCheckIsLimited) {
  Json schema = {{"$ref", "#/$defs/0"}};
  for (size_t i = 0; i < 40; ++i) {
    const Json next = {{"$ref", "#/$defs/" + std::to_string(i + 1)}};
    schema["$defs"][std::to_string(i)] = {{"allOf", Json::array({next, next})}};
  }
  schema["$defs"]["40"] = Json(true);
  EXPECT_FALSE(schema_accepts(schema, schema, Json(1)));
  const Json negated = *parse_json(R"({"not": {"not": {"$ref": "#"}}})", "test");
  EXPECT_FALSE(schema_accepts(negated, negated, Json(1))) << "not evaluated, so not negated";
}

}  // namespace
}  // namespace ibid
