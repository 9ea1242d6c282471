// Origins of bytes: message text stays input through every operation, template text stays the template's.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/marked_text.h"
#include "templates/chat_template.h"
#include "tests/templates/template_support.h"

namespace ibid {
namespace {

SpelledText render(const std::string& source, const Json& content = "in put", const Json& values = Json::object()) {
  const auto compiled = ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  TemplateVariables variables;
  variables.values = values;
  const Json messages = Json::array({{{"role", "user"}, {"content", content}}});
  const auto text = compiled->render(messages, variables);
  EXPECT_TRUE(text.ok()) << source << " " << text.status().message();
  if (!text.ok()) return {};
  std::optional<TextOrigin> before;
  for (const auto [bytes, origin] : text->runs()) {
    EXPECT_FALSE(bytes.empty());
    EXPECT_NE(before, origin);
    before = origin;
  }
  return spell(*text);
}

// Evaluates `expression`, in which `c` is messages[0].content.
void expect_origin(const std::string& expression, const std::string& bytes, const std::string& origins,
                   const Json& content = "in put") {
  const SpelledText got = render("{% set c = messages[0].content %}{{ " + expression + " }}", content);
  EXPECT_EQ(got.bytes, bytes) << expression;
  EXPECT_EQ(got.origins, origins) << expression << "\n" << got.bytes;
}

TEST(JinjaOrigin, ConcatenationKeepsOrigins) {
  expect_origin("'<' + c + '>'", "<in put>", "tiiiiiit");
  expect_origin("'<' ~ c ~ 1 ~ '>'", "<in put1>", "tiiiiiitt");
  expect_origin("c * 2", "in putin put", "iiiiiiiiiiii");
  expect_origin("('<' ~ c) * 2", "<in put<in put", "tiiiiiitiiiiii");
}

TEST(JinjaOrigin, SlicedAndStrippedTextKeepsItsOrigin) {
  expect_origin("('<' + c + '>')[:3]", "<in", "tii");
  expect_origin("('<' + c + '>')[::-1]", ">tup ni<", "tiiiiiit");
  expect_origin("('<' + c)[1]", "i", "i");
  expect_origin("(' ' + c + ' ').strip()", "in put", "iiiiii");
  expect_origin("('x' + c + 'x').strip('xi')", "n put", "iiiii");
  expect_origin("('  <' ~ c ~ '>  ') | trim", "<in put>", "tiiiiiit");
  expect_origin("c.lstrip('i') ~ '.'", "n put.", "iiiiit");
}

TEST(JinjaOrigin, SplittingAndJoiningKeepOrigins) {
  expect_origin("('<' + c).split(' ')[0]", "<in", "tii");
  expect_origin("('a ' + c).split() | join('-')", "a-in-put", "ttiitiii");
  expect_origin("'+'.join([c, 'x'])", "in put+x", "iiiiiitt");
  expect_origin("[c, 'x'] | join", "in putx", "iiiiiit");
  expect_origin("c.partition(' ') | join('|')", "in| |put", "iititiii");
  expect_origin("(c ~ '\nb').splitlines() | last", "b", "t");
}

TEST(JinjaOrigin, ReplacingKeepsOrigins) {
  expect_origin("('<' + c + '>').replace('n', 'NN')", "<iNN put>", "tittiiiit");
  expect_origin("'a.b'.replace('.', c)", "ain putb", "tiiiiiit");
  expect_origin("c | replace('in', '')", " put", "iiii");
  expect_origin("c.replace('', '-', 2)", "-i-n put",
                "tit"
                "iiiii");
}

TEST(JinjaOrigin, CaseAndShapeFiltersKeepOrigins) {
  expect_origin("('a' + c) | upper", "AIN PUT", "tiiiiii");
  expect_origin("('a' + c).title()", "Ain Put", "tiiiiii");
  expect_origin("('a' ~ c) | title", "Ain Put", "tiiiiii");
  expect_origin("('A\n' + c) | indent(2)", "A\n  in put", "ttttiiiiii");
  expect_origin("c.center(10, '*')", "**in put**", "ttiiiiiitt");
  expect_origin("('ß' ~ c).upper()", "SSIN PUT", "ttiiiiii");
  expect_origin("c | escape", "&lt;", "iiii", "<");
}

TEST(JinjaOrigin, FormattingKeepsOrigins) {
  expect_origin("'<%s|%5s>' % (c, 'x')", "<in put|    x>", "tiiiiiittttttt");
  expect_origin("'[{}]'.format(c)", "[in put]", "tiiiiiit");
  expect_origin("c % ()", "50%", "iii", "50%%");
  expect_origin("('<' ~ c).format('x')", "<x", "ii", "{}");
  expect_origin("'%c' % 60", "<", "i");
  expect_origin("'x'.ljust(3, c)", "x##", "tii", "#");
  expect_origin("{'a': 1} | tojson(indent=c)", "{\n#\"a\": 1\n}", "iiiiiiiiiii", "#");
  expect_origin("strftime_now(c)", "<2026", "iiiii", "<%Y");
  expect_origin("dict(**messages[0]) | list | first", "role", "iiii");
  expect_origin("namespace(messages[0])", "<Namespace {'role': 'user', 'content': ''}>",
                "tttttttttttttiiiittttiiiitttt"
                "iiiiiii"
                "ttttttt",
                "");
  expect_origin("c.format(1)", "a1b", "iii", "a{}b");
}

TEST(JinjaOrigin, TextMadeFromInputHasOriginInput) {
  expect_origin("c | tojson", "\"in put\"", "iiiiiiii");
  expect_origin("{'k': c} | tojson", "{\"k\": \"in put\"}", "iiiiiiiiiiiiiii");
  expect_origin("{'k': 'v'} | tojson", "{\"k\": \"v\"}", "tttttttttt");
  expect_origin("messages[0] | tojson | length", "37", "tt");
  expect_origin("['x', c]", "['x', 'in put']",
                "ttttttt"
                "iiiiii"
                "tt");
  expect_origin("messages | map(attribute='content') | first", "in put", "iiiiii");
  expect_origin("messages[0].keys() | list | first", "role", "iiii");
  expect_origin("c | string | list | reverse | join", "tup ni", "iiiiii");
}

TEST(JinjaOrigin, BlocksAndMacrosKeepOrigins) {
  const std::string open = "{% set c = messages[0].content %}";
  EXPECT_EQ(render(open + "{% set x %}<{{ c }}>{% endset %}{{ x }}").origins, "tiiiiiit");
  EXPECT_EQ(render(open + "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(c) }}").origins, "tiiiiiit");
  EXPECT_EQ(render(open + "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}{{ c }}{% endcall %}").origins,
            "tiiiiiit");
  EXPECT_EQ(render(open + "{% filter upper %}<{{ c }}>{% endfilter %}").origins, "tiiiiiit");
  EXPECT_EQ(render(open + "{% set ns = namespace(a=c) %}{% set ns.b = ns.a ~ '>' %}{{ ns.b }}").origins, "iiiiiit");
  EXPECT_EQ(render(open + "{% for x in c %}{{ x }}.{% endfor %}").origins, "itititititit");
}

// Roles are as untrusted as contents. Comparing a role still works.
TEST(JinjaOrigin, RolesHaveOriginInput) {
  const SpelledText text =
      render("{% for m in messages %}{% if m.role == 'user' %}<{{ m.role }}>{% endif %}{% endfor %}");
  EXPECT_EQ(text.bytes, "<user>");
  EXPECT_EQ(text.origins, "tiiiit");
}

TEST(JinjaOrigin, VariablesAreMarkedAsInputUnlessTheyAreSpecialTokens) {
  const Json values = {{"bos_token", "<s>"}, {"note", "x"}, {"tools", Json::array({{{"name", "f"}}})}};
  EXPECT_EQ(render("{{ bos_token }}{{ note }}", "", values).origins, "ttti");
  EXPECT_EQ(render("{{ tools[0].name }}", "", values).origins, "i");
  EXPECT_EQ(render("{{ strftime_now('%Y') }}", "", values).origins, "tttt");
}

}  // namespace
}  // namespace ibid
