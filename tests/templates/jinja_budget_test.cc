// Hostile templates: a typed error within the budgets, never a crash or a hang. Numbers in the names are those of the
// project's list of bad inputs.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/paths.h"
#include "tests/templates/template_support.h"

namespace ibid {
namespace {

Status run(const std::string& source, const Json& variables = Json::object()) {
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled.ok()) return compiled.status();
  const auto text = compiled->render_plain(variables, "2026-01-31T12:00:00");
  return text.ok() ? Status() : text.status();
}

void expect_budget(const std::string& source, const std::string& budget) {
  const Status status = run(source);
  EXPECT_EQ(status.code(), ErrorCode::kTemplateBudget) << source.substr(0, 80) << " " << status.to_string();
  EXPECT_NE(status.message().find("budget: " + budget), std::string::npos) << status.message();
}

std::string repeat(const std::string& text, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

TEST(JinjaBudget, Case92SyntaxErrorNamesTheLine) {
  const Status status = run("a\nb\n{{ (1, }}");
  EXPECT_EQ(status.code(), ErrorCode::kTemplateSyntax);
  EXPECT_NE(status.message().find("line 3"), std::string::npos) << status.message();
}

TEST(JinjaBudget, Case93UnknownFilterNamesTheLine) {
  const Status status = run("\n{{ 'a' | nofilter }}");
  EXPECT_EQ(status.code(), ErrorCode::kTemplateSyntax);
  EXPECT_NE(status.message().find("line 2: No filter named 'nofilter'"), std::string::npos) << status.message();
}

TEST(JinjaBudget, UnsupportedJinjaFiltersAreReported) {
  for (const char* filter : {"pprint", "striptags", "urlize", "wordwrap", "random"}) {
    const Status status = run("{{ 'a' | " + std::string(filter) + " }}");
    EXPECT_EQ(status.code(), ErrorCode::kTemplateSyntax);
    EXPECT_NE(status.message().find("The filter '" + std::string(filter) + "' is not supported"), std::string::npos)
        << status.message();
  }
  EXPECT_NE(run("{{ [1] | random }}").message().find("chance"), std::string::npos);
  EXPECT_NE(run("{{ lipsum() }}").message().find("chance"), std::string::npos);
  EXPECT_NE(run("{% block a %}{% endblock %}").message().find("'block'"), std::string::npos);
  EXPECT_NE(run("{{ [1] | map('random') | list }}").message().find("'random' is not supported"), std::string::npos);
}

TEST(JinjaBudget, Case94SelfCallingMacroExceedsTheDepth) {
  expect_budget("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "depth");
  expect_budget("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", "depth");
  expect_budget("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "depth");
  expect_budget(
      "{% macro m() %}{{ caller() }}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}"
      "{% call m() %}x{% endcall %}",
      "depth");
}

TEST(JinjaBudget, Case95HugeRangeExceedsTheBudget) {
  expect_budget("{% for i in range(10 ** 9) %}{% endfor %}", "range");
  expect_budget("{{ range(-9223372036854775807, 9223372036854775807) }}", "range");
  expect_budget("{{ [0] * 10 ** 12 }}", "range");
}

TEST(JinjaBudget, Case96HugeStringsExceedTheBudget) {
  expect_budget("{{ 'x' * 10 ** 10 }}", "bytes");
  expect_budget("{{ 10 ** 18 * 'xyz' }}", "bytes");
  expect_budget("{{ 'x'.ljust(10 ** 12) }}", "bytes");
  expect_budget("{{ 'x'.zfill(10 ** 12) }}", "bytes");
  expect_budget("{{ '%99999999999d' % 1 }}", "bytes");
  expect_budget("{{ '%2000000000s' % 1 }}", "bytes");
  expect_budget("{{ '{:>2000000000}'.format(1) }}", "bytes");
  expect_budget("{{ '%.2000000000d' % 1 }}", "bytes");
  expect_budget("{{ 'a\\nb' | indent(10 ** 12) }}", "bytes");
  expect_budget("{{ [[[1]]] | tojson(indent=10 ** 12) }}", "bytes");
  expect_budget("{{ '\\t'.expandtabs(10 ** 12) }}", "bytes");
  expect_budget("{{ ('x' * 100000).replace('', 'y' * 100000) }}", "bytes");
  expect_budget("{{ ('x' * 8000000).join('abcdefghijklmnopqrstuvwxyz') }}", "bytes");
  expect_budget("{% set ns = namespace(t='x') %}{% for i in range(40) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}",
                "bytes");
  expect_budget("{% set ns = namespace(t=[1]) %}{% for i in range(40) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
                "bytes");
}

TEST(JinjaBudget, Case97HugeOutputExceedsTheBudget) {
  expect_budget(
      "{% for i in range(100000) %}{% for j in range(100000) %}" + repeat("x", 10000) + "{% endfor %}{% endfor %}",
      "bytes");
  expect_budget("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "steps");
}

TEST(JinjaBudget, Case98DeeplyNestedExpressionsExceedTheBudget) {
  const size_t n = 10'000;
  EXPECT_EQ(run("{{ " + repeat("(", n) + "1" + repeat(")", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ " + repeat("[", n) + repeat("]", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ " + repeat("{'a':", n) + "1" + repeat("}", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ " + repeat("not ", n) + "1 }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ " + repeat("-", n) + "1 }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ 1" + repeat(" + 1", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ 1" + repeat(" ** 1", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ x" + repeat(".a", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ x" + repeat("|list", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ x" + repeat("()", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ " + repeat("f(", n) + repeat(")", n) + " }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ " + repeat("1 if ", n) + "1 }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{{ " + repeat("1 if 1 else ", n) + "1 }}").code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run(repeat("{% if 1 %}", n) + repeat("{% endif %}", n)).code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run(repeat("{% for x in [1] %}", n) + repeat("{% endfor %}", n)).code(), ErrorCode::kTemplateBudget);
  EXPECT_EQ(run("{% set " + repeat("(", n) + "a" + repeat(",)", n) + " = 1 %}").code(), ErrorCode::kTemplateBudget);
  // A chain of elif and a long list are wide but not deep.
  EXPECT_TRUE(
      run("{% if 0 %}" + repeat("{% elif 0 %}", n) + "{% endif %}{{ [" + repeat("1,", n) + "] | length }}").ok());
  EXPECT_TRUE(run("{{ 'a'" + repeat(" ~ 'b'", n) + " }}").ok());
}

TEST(JinjaBudget, Case98DeeplyNestedValuesExceedTheBudget) {
  expect_budget("{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}",
                "depth");
  expect_budget("{% set ns = namespace(d={}) %}{% for i in range(100000) %}{% set ns.d = {'a': ns.d} %}{% endfor %}",
                "depth");
  // Chains through loops, methods and closures must not nest destructors either.
  EXPECT_FALSE(run("{% set ns = namespace(l=0) %}{% for i in range(100000) %}{% for x in [ns.l] %}{% set "
                   "ns.l = loop %}"
                   "{% endfor %}{% endfor %}")
                   .ok());
  EXPECT_FALSE(run("{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l.index] "
                   "%}{% endfor %}")
                   .ok());
  EXPECT_TRUE(run("{% set ns = namespace(m=0) %}{% for i in range(50000) %}{% set prev = ns.m %}{% macro m() "
                  "%}{{ prev }}"
                  "{% endmacro %}{% set ns.m = m %}{% endfor %}")
                  .ok());
  EXPECT_TRUE(run("{% set ns = namespace() %}{% set ns.self = ns %}").ok());
  expect_budget("{% set ns = namespace() %}{% set ns.self = ns %}{{ ns }}", "depth");
  // JSON of the caller may be deeper than any limit.
  Json deep = 1;
  for (int i = 0; i < 900; ++i) deep = Json::array({deep});
  for (const char* use : {"{{ x }}", "{{ x | tojson }}", "{{ x == x }}", "{{ x | list == x }}"}) {
    const Status status = run(use, {{"x", deep}});
    EXPECT_TRUE(status.ok() || status.code() == ErrorCode::kTemplateBudget) << status.to_string();
  }
}

TEST(JinjaBudget, Case99TemplateCannotChangeValuesOrReachPythonObjects) {
  for (const char* source :
       {"{{ l.append(1) }}", "{{ d.update({'a': 2}) }}", "{{ d.pop('a') }}", "{{ l.sort() }}",
        "{{ ''.__class__.__mro__ }}", "{{ l.__class__() }}", "{{ range.__globals__.x }}", "{% set d.a = 2 %}",
        "{{ d.setdefault('b', 1) }}", "{{ '{0.__class__.__init__}'.format(l) }}", "{{ ''['__class__'].x }}"}) {
    const Status status = run(source, {{"l", {1, 2}}, {"d", {{"a", 1}}}});
    EXPECT_EQ(status.code(), ErrorCode::kTemplateError) << source << " " << status.to_string();
  }
}

TEST(JinjaBudget, Case100IncludeAndImportAreRefused) {
  for (const char* source :
       {"{% include 'a' %}", "{% import 'a' as b %}", "{% from 'a' import b %}", "{% extends 'a' %}"}) {
    EXPECT_EQ(run(source).code(), ErrorCode::kTemplateError) << source;
  }
}

TEST(JinjaBudget, Case101RaiseExceptionKeepsTheMessageOfTheTemplate) {
  const auto compiled = ChatTemplate::compile(
      "\n{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('Rôle ' + m.role) }}{% endif "
      "%}{% endfor %}");
  ASSERT_TRUE(compiled.ok());
  const auto text = compiled->render(Json::array({{{"role", "sys"}}}), {});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), ErrorCode::kTemplateRaise);
  EXPECT_EQ(text.status().message(), "Rôle sys");
}

// The budgets grow with the conversation: long messages, or many of them, are no attack.
TEST(JinjaBudget, LongConversationsStayWithinTheBudget) {
  const auto source = read_text(golden_dir() + "/templates/smollm2.jinja");
  const auto compiled = ChatTemplate::compile(source.value_or(""));
  ASSERT_TRUE(compiled.ok());
  Json messages = Json::array();
  for (size_t i = 0; i < 40'000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "x"}});
  EXPECT_TRUE(compiled->render(messages, {}).ok());
  messages = Json::array({{{"role", "user"}, {"content", std::string(30'000'000, 'x')}}});
  EXPECT_TRUE(compiled->render(messages, {}).ok());
}

}  // namespace
}  // namespace ibid
