// The cases of JSON-Schema-Test-Suite. Either the schema is refused, or a JSON text is accepted if and only if the
// suite calls it valid. Refused schemas, and differences from the suite, are listed by name in refused.txt and
// differing.txt of tests/golden/json_schema.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "base/json_limits.h"
#include "grammar/grammar.h"
#include "tests/support/paths.h"

namespace ibid {
namespace {

// Returns the value with the properties of its objects in every order, because grammars accept only one order.
std::vector<Json> orders_of(const Json& value) {
  if (!value.is_structured()) return {value};
  std::vector<Json> out = {value.is_array() ? Json::array() : Json::object()};
  if (value.is_array()) {
    for (const Json& item : value) {
      std::vector<Json> next;
      for (const Json& so_far : out) {
        for (const Json& choice : orders_of(item)) {
          next.push_back(so_far);
          next.back().push_back(choice);
        }
      }
      out = std::move(next);
    }
    return out;
  }
  std::vector<std::string> names;
  for (const auto& item : value.items()) names.push_back(item.key());
  std::sort(names.begin(), names.end());
  out.clear();
  do {
    std::vector<Json> some = {Json::object()};
    for (const std::string& name : names) {
      std::vector<Json> next;
      for (const Json& so_far : some) {
        for (const Json& choice : orders_of(value.at(name))) {
          next.push_back(so_far);
          next.back()[name] = choice;
        }
      }
      some = std::move(next);
    }
    out.insert(out.end(), some.begin(), some.end());
  } while (names.size() <= 6 && std::next_permutation(names.begin(), names.end()));
  return out;
}

Json read_json(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  const Result<Json> json = parse_json(text.str(), path, {.max_depth = 200});
  EXPECT_TRUE(json.ok()) << json.status().to_string();
  return json.ok() ? *json : Json();
}

// Returns the names in a list file, one per line; lines that begin with # are comments.
std::set<std::string> lines_of(const std::string& name) {
  std::ifstream in(golden_dir() + "/json_schema/" + name);
  EXPECT_TRUE(in.good()) << name;
  std::set<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    const bool is_name = !line.empty() && line[0] != '#';
    EXPECT_TRUE(!is_name || lines.insert(line).second) << line;
  }
  return lines;
}

// Returns a text with the differences between two lists; empty if they are equal.
std::string difference(const std::set<std::string>& found, const std::set<std::string>& expected) {
  std::string out;
  for (const std::string& name : found) out += expected.contains(name) ? "" : "+ " + name + "\n";
  for (const std::string& name : expected) out += found.contains(name) ? "" : "- " + name + "\n";
  return out;
}

TEST(JsonSchemaSuiteTest, TextsAreAcceptedIfTheSuiteCallsThemValid) {
  const Json groups = read_json(golden_dir() + "/json_schema/suite_cases.json");
  ASSERT_GT(groups.size(), 200u);
  std::set<std::string> refused, differing;
  size_t n_held = 0;
  for (const Json& group : groups) {
    const std::string name = group["file"].get<std::string>() + ": " + group["group"].get<std::string>();
    const Result<Grammar> grammar = compile_parsed_json_schema(group["schema"], {.strict = true});
    const bool nothing = !grammar.ok() && grammar.status().code() == ErrorCode::kInvalidArgument &&
                         grammar.status().message() == "schema: no text satisfies it";
    if (!grammar.ok() && !nothing) {
      const ErrorCode code = grammar.status().code();
      EXPECT_TRUE(code == ErrorCode::kUnsupported || code == ErrorCode::kLimitExceeded)
          << name << ": " << grammar.status().to_string();
      refused.insert(name);
      continue;
    }
    for (const Json& test : group["tests"]) {
      const bool valid = test[2].get<bool>();
      bool accepted = false;
      for (const Json& order : orders_of(test[1])) {
        if (nothing) break;
        const Result<bool> one = grammar_accepts(*grammar, json_to_string(order));
        ASSERT_TRUE(one.ok()) << name << ": " << one.status().to_string();
        accepted |= *one;
      }
      ++n_held;
      if (accepted == valid) continue;
      EXPECT_TRUE(valid) << "accepted: " << name << ": " << test[0];
      differing.insert(name + ": " + test[0].get<std::string>());
    }
  }
  EXPECT_GT(n_held, 1100u);
  EXPECT_EQ(difference(refused, lines_of("refused.txt")), "");
  EXPECT_EQ(difference(differing, lines_of("differing.txt")), "");
}

}  // namespace
}  // namespace ibid
