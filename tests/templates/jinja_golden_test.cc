// Templates and snippets against the results of Jinja 3.1 in the environment of transformers: a committed set, and the
// whole reference data if available.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/paths.h"
#include "tests/templates/template_support.h"

namespace ibid {
namespace {

const std::string kGolden = golden_dir() + "/templates/";

Result<std::string> run_snippet(const Json& input) {
  TRY_ASSIGN(const ChatTemplate compiled, ChatTemplate::compile(input["template"].get<std::string>()));
  return compiled.render_plain(input["variables"], input["now"].get<std::string>());
}

void expect_cases(const std::string& source, const std::string& path) {
  const auto compiled = ChatTemplate::compile(source);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  size_t n = 0;
  for (const Json& line : read_json_lines(path)) {
    const std::string wrong = check_answer(line["expect"], answer(*compiled, to_case(line["input"])));
    EXPECT_EQ(wrong, "") << path << " " << line["id"];
    ++n;
  }
  EXPECT_GT(n, 0u);
}

TEST(JinjaGolden, SmolLm2TemplateRendersAsInJinja) {
  const auto source = read_text(kGolden + "smollm2.jinja");
  ASSERT_TRUE(source.has_value());
  expect_cases(*source, kGolden + "smollm2.jsonl");
}

TEST(JinjaGolden, CommittedSnippetsRenderAsInJinja) {
  for (const Json& line : read_json_lines(kGolden + "snippets.jsonl")) {
    EXPECT_EQ(check_answer(line["expect"], run_snippet(line["input"])), "") << line["input"]["template"];
  }
}

// Integers beyond 64 bits, and features that no known chat template uses. All other snippets must agree.
const std::set<std::string> kUnsupported = {
    "{{ \"\\u0041\\x41\\101 \\N{BULLET}\" }}",  // characters by name
    "{{ 10 ** 20 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 9999999999999999999 * 9999999999999999999 }}",  // big
                                                                                                    // integers
    // The filters wordwrap, striptags, xmlattr, pprint and random.
    "{{ 'abcdefghij klm' | truncate(8) }}| {{ 'abcdefghij klm' | truncate(8, true, '') }}| {{ 'one two "
    "three' | "
    "wordcount }} {{ 'one two three four' | wordwrap(8) }}|",
    "{{ '%s-%s' | format(1, 'x') }} {{ '%(a)s' | format(a=3) }} {{ '<p>a <b>b</b></p>' | striptags }} {{ d | "
    "attr('z') }}|",
    "{{ d | xmlattr }} {{ 3 | pprint }} {{ 'x y' | forceescape }}",
    "{{ l | random is number }} {{ [{'a': 1}, {'a': 2}] | sum('a') }} {{ [('a', 1), ('b', 2)] | "
    "map(attribute=0) | "
    "list }} {{ [['a', 1]] | map('last') | list }}",
};

TEST(JinjaGolden, ReferenceSnippetsRenderAsInJinja) {
  IBID_NEED_SHARED(shared);
  for (const Json& line : read_json_lines(shared + "/reference/templates/snippets.jsonl")) {
    const std::string wrong = check_answer(line["expect"], run_snippet(line["input"]));
    if (kUnsupported.contains(line["input"]["template"].get<std::string>())) {
      EXPECT_NE(wrong, "") << "now supported: " << line["input"]["template"];
    } else {
      EXPECT_EQ(wrong, "") << line["input"]["template"];
    }
  }
}

TEST(JinjaGolden, ReferenceTemplatesRenderAsInJinja) {
  IBID_NEED_SHARED(shared);
  for (const NamedTemplate& entry : reference_templates(shared)) {
    SCOPED_TRACE(entry.name);
    expect_cases(entry.source, shared + "/reference/templates/" + entry.name + ".jsonl");
  }
}

}  // namespace
}  // namespace ibid
