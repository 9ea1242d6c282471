// Formats read off templates, for forms that are not in the reference data.
#include <gtest/gtest.h>

#include <string>

#include "templates/reply/find_reply_format.h"
#include "templates/reply/reply_parser.h"
#include "templates/reply/template_probe.h"
#include "tests/templates/reply_support.h"

namespace ibid {
namespace {

// A template that renders each call by the expression `call`.
std::string with_calls(const std::string& before, const std::string& call, const std::string& between,
                       const std::string& after) {
  return "{% for message in messages %}<|{{ message.role }}|>{% if message.tool_calls %}" + before +
         "{% for tool_call in message.tool_calls %}{% set call = tool_call.function %}{% if not loop.first %}" +
         between + "{% endif %}" + call + "{% endfor %}" + after +
         "{% else %}{{ message.content }}{% endif %}<|end_of_turn|>{% endfor %}"
         "{% if add_generation_prompt %}<|assistant|>{% endif %}";
}

void expect_found(const std::string& source, const std::string& form) {
  const auto chat_template = ChatTemplate::compile(source);
  ASSERT_TRUE(chat_template.ok()) << chat_template.status().message();
  const ReplyFormat format = find_reply_format(*chat_template);
  EXPECT_EQ(describe_calls(format), form);
  const Json arguments = {{"city", "Paris \"x\""}, {"days", 3}, {"tags", {"a", "b"}}, {"exact", true}};
  const Json message = assistant("", Json::array({tool_call("get_weather", arguments, "call00001"),
                                                  tool_call("add", {{"a", 1}, {"b", -2}}, "call00002")}));
  const auto written = write_answer(*chat_template, message);
  ASSERT_TRUE(written.has_value());
  const ParsedReply reply =
      parse_reply(format, {.tools = &weather_tools(), .prompt_end = written->prompt}, written->text);
  ASSERT_EQ(reply.calls.size(), 2u) << written->text;
  EXPECT_TRUE(same_value(reply.calls[0].arguments, arguments)) << reply.calls[0].arguments;
  EXPECT_TRUE(same_value(reply.calls[1].arguments, {{"a", 1}, {"b", -2}})) << reply.calls[1].arguments;
  EXPECT_EQ(reply.content, "");
}

TEST(FindReplyFormat, KeysOfNameAndArgumentsAreFound) {
  expect_found(with_calls("<|START_ACTION|>[\n",
                          "    {\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": \"{{ call.name }}\", "
                          "\"parameters\": {{ call.arguments | tojson }}}",
                          ",\n", "\n]<|END_ACTION|>"),
               "<|START_ACTION|>[\\n    {\"tool_call_id\": \"INDEX\", \"tool_name\": \"NAME\", \"parameters\": "
               "{...}}]<|END_ACTION|>");
}

TEST(FindReplyFormat, CallsRenderedAsInTheProtocolAreFound) {
  expect_found(with_calls("<TOOLCALL>[", "{{ tool_call | tojson }}", ", ", "]</TOOLCALL>"),
               "<TOOLCALL>[{\"id\": \"ID\", \"type\": \"function\", \"function\": {\"name\": \"NAME\", \"arguments\": "
               "{...}}}]</TOOLCALL>");
}

TEST(FindReplyFormat, ParametersWithNamesInAttributesAreFound) {
  expect_found(
      with_calls("<tools>\n",
                 "<invoke name=\"{{ call.name }}\">\n{% for key, value in call.arguments.items() %}<parameter "
                 "name=\"{{ key }}\">{{ value if value is string else value | tojson }}</parameter>\n{% endfor "
                 "%}</invoke>\n",
                 "", "</tools>"),
      "<tools>\\n<invoke name=\"NAME\">\\n<parameter name=\"KEY\">VALUE</parameter>\\n</invoke>\\n</tools>");
}

TEST(FindReplyFormat, MarkersOfStringParametersAreFound) {
  expect_found(
      with_calls("<calls>\n",
                 "<invoke name=\"{{ call.name }}\">\n{% for key, value in call.arguments.items() %}<parameter "
                 "name=\"{{ key }}\" string=\"{{ 'true' if value is string else 'false' }}\">{{ value if value is "
                 "string else value | tojson }}</parameter>\n{% endfor %}</invoke>\n",
                 "", "</calls>"),
      "<calls>\\n<invoke name=\"NAME\">\\n<parameter name=\"KEY\" string=\"true\">VALUE</parameter>\\n</invoke>"
      "\\n</calls>");
}

TEST(FindReplyFormat, CallsInPythonSyntaxAreFound) {
  expect_found(
      with_calls("<|calls|>[",
                 "{{ call.name }}({% for key, value in call.arguments.items() %}{{ key }}={{ value | tojson }}{% "
                 "if not loop.last %}, {% endif %}{% endfor %})",
                 ", ", "]<|/calls|>"),
      "<|calls|>[NAME(key=value)]<|/calls|>");
}

TEST(FindReplyFormat, ArgumentsRequiredAsTextAreDetected) {
  const std::string source = with_calls("", "<call>{{ call.name }}\n{{ call.arguments + '' }}</call>", "\n", "");
  const auto chat_template = ChatTemplate::compile(source);
  ASSERT_TRUE(chat_template.ok());
  const ReplyFormat format = find_reply_format(*chat_template);
  EXPECT_TRUE(format.arguments_as_text);
  EXPECT_EQ(describe_calls(format), "<call>NAME\\n{...}</call>");
}

TEST(FindReplyFormat, JsonCallsWithoutMarkersAreFound) {
  // Renders only one call, as Llama's templates do.
  const std::string source =
      "{% for message in messages %}<|{{ message.role }}|>{% if message.tool_calls %}{% if message.tool_calls | length "
      "!= 1 "
      "%}{{ raise_exception('one call at a time') }}{% endif %}{% set call = message.tool_calls[0].function "
      "%}{\"name\": "
      "\"{{ call.name }}\", \"parameters\": {{ call.arguments | tojson }}}{% else %}{{ message.content }}{% endif "
      "%}<|eot|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}{# <|python_tag|> #}";
  const auto chat_template = ChatTemplate::compile(source);
  ASSERT_TRUE(chat_template.ok());
  const ReplyFormat format = find_reply_format(*chat_template);
  EXPECT_EQ(describe_calls(format), R"({"name": "NAME", "parameters": {...}})");
  EXPECT_FALSE(format.calls->several);
  EXPECT_EQ(format.calls->triggers, (std::vector<std::string>{"<|python_tag|>", "{"}));
  const ReplyContext context{&weather_tools(), "", false};
  EXPECT_EQ(parse_reply(format, context, R"({"name": "now", "parameters": {}})").calls.size(), 1u);
}

std::string form_of(const std::string& source) {
  const auto chat_template = ChatTemplate::compile(source);
  EXPECT_TRUE(chat_template.ok());
  const ReplyFormat format = find_reply_format(*chat_template);
  EXPECT_FALSE(has_probe_words(format)) << source;
  return describe_calls(format);
}

TEST(FindReplyFormat, TemplatesThatRequireContentPartsAreProbedWithParts) {
  EXPECT_EQ(
      form_of("{% for message in messages %}<|{{ message.role }}|>{% if message.tool_calls %}<call>[{% for c in "
              "message.tool_calls %}{\"id\": \"{{ loop.index0 }}\", \"tool\": \"{{ c.function.name }}\", \"input\": "
              "{{ c.function.arguments | tojson }}}{% if not loop.last %}, {% endif %}{% endfor %}]</call>{% else "
              "%}{{ message.content[0].text }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt "
              "%}<|assistant|>{% endif %}"),
      R"(<call>[{"id": "INDEX", "tool": "NAME", "input": {...}}]</call>)");
}

TEST(FindReplyFormat, ArgumentsBeforeTheNameAreFound) {
  EXPECT_EQ(
      form_of(with_calls(
          "", "<call>{\"arguments\": {{ call.arguments | tojson }}, \"name\": \"{{ call.name }}\"}</call>", "\n", "")),
      R"(<call>{"arguments": {...}, "name": "NAME"}</call>)");
}

TEST(FindReplyFormat, CallsThatQuoteAllValuesAreFound) {
  EXPECT_EQ(
      form_of(with_calls("",
                         "<call>do:{{ call.name }}{{ '{' }}{% for key, value in call.arguments.items() %}{{ key }}:<q>"
                         "{{ value }}<q>{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}</call>",
                         "", "")),
      "<call>do:NAME{key:<q>value<q>}</call>");
}

TEST(FindReplyFormat, CallSyntaxThatTheTemplateOnlyDescribesIsFound) {
  const std::string plain = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
  EXPECT_EQ(form_of("{% if tools %}List of tools: {{ tools | tojson }}{% endif %}" + plain),
            "<|tool_call_start|>[NAME(key=value)]<|tool_call_end|>");
  EXPECT_EQ(form_of("{% if tools %}Use [func_name1(a=b)]: {{ tools | tojson }}{% endif %}" + plain),
            "[NAME(key=value)]");
  // The template names a marker and renders its calls without it.
  EXPECT_EQ(form_of("{% if tools %}Write functools[...]. {% endif %}" +
                    with_calls("", "{\"name\": \"{{ call.name }}\", \"arguments\": {{ call.arguments | tojson }}}",
                               ", ", "")),
            R"(functools[{"name": "NAME", "arguments": {...}}])");
}

// Headers with the recipient only, as a word between markers or as the first line.
TEST(FindReplyFormat, CallsWithARecipientInTheHeaderAreFound) {
  const std::string source =
      "{% for m in messages %}{% if m.role != 'assistant' %}<|msg|>{{ m.role }}<|is|>{{ m.content }}<|stop|>{% else "
      "%}{% if m.reasoning_content %}<|msg|>model for=me<|is|>{{ m.reasoning_content }}<|next|>{% endif %}{% if "
      "m.tool_calls %}{% for c in m.tool_calls %}<|msg|>model for={{ c.function.name }}<|is|><do=\"{{ c.function.name "
      "}}\">{% for key, value in c.function.arguments.items() %}<arg={{ key }}>{{ value if value is string else value "
      "| "
      "tojson }}</arg>{% endfor %}</do>{{ '<|stop|>' if loop.last else '<|next|>' }}{% endfor %}{% else %}<|msg|>model "
      "for=human<|is|>{{ m.content }}<|stop|>{% endif %}{% endif %}{% endfor %}{% if add_generation_prompt "
      "%}<|msg|>model{% endif %}";
  EXPECT_EQ(form_of(source), R"( for=NAME<|is|><do="NAME"><arg=KEY>VALUE</arg></do>)");
  const ReplyFormat format = find_reply_format(*ChatTemplate::compile(source));
  const ReplyContext context{.tools = &weather_tools()};
  const std::string call = "<|is|><do=\"get_weather\"><arg=city>Oslo</arg></do>";
  const ParsedReply reply =
      parse_reply(format, context,
                  " for=me<|is|>Hm.<|next|><|msg|>model for=human<|is|>See.<|next|><|msg|>model for=get_weather" +
                      call + "<|stop|>");
  EXPECT_EQ(reply, (ParsedReply{"Hm.", "See.", {{"", "get_weather", R"({"city": "Oslo"})"}}}));
  // A body that is a call of an offered tool is one, whatever the recipient is.
  for (const char* header : {" for=other", " for=human", ""}) {
    EXPECT_EQ(parse_reply(format, context, header + call).calls.size(), 1u) << header;
  }
  const std::string of_another = "<do=\"another\"><arg=city>Oslo</arg></do>";
  EXPECT_EQ(parse_reply(format, context, " for=another<|is|>" + of_another).content, of_another);
  EXPECT_EQ(parse_reply(format, context, " for=human<|is|><do it>").content, "<do it>");
  EXPECT_TRUE(parse_reply(format, context, " for=me" + call).calls.empty());
  const std::string lines =
      "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}{% for c in m.tool_calls %}>>{{ c.function.name "
      "}}\n{{ "
      "c.function.arguments | tojson }}{% endfor %}{% elif m.role == 'assistant' %}>>all\n{{ m.content }}{% else %}{{ "
      "m.content }}{% endif %}<|eot|>{% endfor %}{% if add_generation_prompt %}<|assistant|>>>{% endif %}";
  EXPECT_EQ(form_of(lines), "NAME\\n{...}");
  const ReplyFormat by_lines = find_reply_format(*ChatTemplate::compile(lines));
  EXPECT_EQ(parse_reply(by_lines, context, "all\nHi >> there"), (ParsedReply{"", "Hi >> there", {}}));
  EXPECT_EQ(parse_reply(by_lines, context, "all\nSee.>>now\n{}"), (ParsedReply{"", "See.", {{"", "now", "{}"}}}));
  EXPECT_EQ(parse_reply(by_lines, context, "A plain\nanswer").content, "A plain\nanswer");
}

// Tags of several tokens, with the number of the call, after content between such tags.
TEST(FindReplyFormat, TagsOfSeveralTokensAreFound) {
  const std::string source =
      "{% for m in messages %}<|open|>message role={{ m.role }}<|sep|>{% if m.role == 'assistant' "
      "%}<|open|>response<|sep|>{{ m.content }}<|close|>response<|sep|>{% else %}{{ m.content }}{% endif %}{% if "
      "m.tool_calls %}<|open|>tools<|sep|>{% for c in m.tool_calls %}<|open|>call tool=\"{{ c.function.name }}\" "
      "index=\"{{ loop.index }}\"<|sep|>{% for k, v in c.function.arguments.items() %}<|open|>argument key=\"{{ k "
      "}}\"<|sep|>{{ v if v is string else v | tojson }}<|close|>argument<|sep|>{% endfor %}<|close|>call<|sep|>{% "
      "endfor %}<|close|>tools<|sep|>{% endif %}<|close|>message<|sep|><|end|>{% endfor %}{% if add_generation_prompt "
      "%}<|open|>message role=assistant<|sep|>{% endif %}";
  EXPECT_EQ(form_of(source),
            "<|open|>tools<|sep|><|open|>call tool=\"NAME\" index=\"INDEX\"<|sep|><|open|>argument "
            "key=\"KEY\"<|sep|>VALUE<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>");
  const ReplyFormat format = find_reply_format(*ChatTemplate::compile(source));
  const ReplyContext context{.tools = &weather_tools()};
  const std::string call = "<|open|>tools<|sep|><|open|>call tool=\"now\" index=\"1\"<|sep|><|close|>call<|sep|>";
  const std::string text = "<|open|>response<|sep|>See.<|close|>response<|sep|>" + call + "<|close|>tools<|sep|>";
  EXPECT_EQ(parse_reply(format, context, text), (ParsedReply{"", "See.", {{"", "now", "{}"}}}));
}

TEST(FindReplyFormat, TextAfterTheTurnIsNotPartOfTheCallSyntax) {
  EXPECT_EQ(form_of("{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}Action: [{% for c in m.tool_calls "
                    "%}{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}{% if "
                    "not loop.last %}, {% endif %}{% endfor %}]{% else %}{{ m.content }}<|end_of_turn|>{% endif %}{% "
                    "endfor %}<|system|>Write an action.<|end_of_turn|>{% if add_generation_prompt %}<|assistant|>{% "
                    "endif %}"),
            R"(Action: [{"name": "NAME", "arguments": {...}}])");
}

TEST(FindReplyFormat, TemplateWithoutCallsGetsTheMostCommonCallSyntax) {
  const auto chat_template = ChatTemplate::compile("{% for m in messages %}{{ m.content }}{% endfor %}");
  ASSERT_TRUE(chat_template.ok());
  const ReplyFormat format = find_reply_format(*chat_template);
  EXPECT_EQ(format.origin, "assumed: the template shows no calls");
  EXPECT_FALSE(format.reasoning.has_value());
  EXPECT_FALSE(format.shows_tools);
}

// A template may list the tools itself, or leave that to the author of the system message.
TEST(FindReplyFormat, TemplateThatListsToolsOrShowsCallsSupportsTools) {
  for (const std::string& source :
       {std::string("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"),
        with_calls("", "<call>{{ call.name }}\n{{ call.arguments | tojson }}</call>", "\n", "")}) {
    const auto chat_template = ChatTemplate::compile(source);
    ASSERT_TRUE(chat_template.ok());
    EXPECT_TRUE(find_reply_format(*chat_template).shows_tools) << source;
  }
}

TEST(FindReplyFormat, TemplateThatAlwaysFailsHasTheDefaultFormat) {
  const auto chat_template = ChatTemplate::compile("{{ raise_exception('no') }}");
  ASSERT_TRUE(chat_template.ok());
  EXPECT_EQ(find_reply_format(*chat_template).origin, "assumed: the template shows no calls");
}

}  // namespace
}  // namespace ibid
