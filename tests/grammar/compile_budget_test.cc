// The cost of hostile schemas. Written out as rules, each of them would take minutes or exceed the memory. They must
// end in an error with a place; the tests count the work and memory up to the error.
#include <gtest/gtest.h>

#include <stop_token>

#include "base/json_limits.h"
#include "grammar/compile_budget.h"
#include "grammar/configurations.h"
#include "grammar/grammar.h"
#include "grammar/schema_document.h"

namespace ibid {
namespace {

// Upper bound of the work between two checks of the budget.
constexpr uint64_t kWorkOfOneStep = 5'000'000;

void expect_refused(const Json& schema, ErrorCode code = ErrorCode::kLimitExceeded) {
  CompileBudget budget;
  const auto grammar = compile_json_schema(json_to_string(schema), {}, &budget);
  EXPECT_EQ(grammar.status().code(), code) << grammar.status().to_string();
  EXPECT_TRUE(grammar.status().message().starts_with("schema: ")) << grammar.status().to_string();
  EXPECT_LT(budget.n_work(), CompileBudget::Limits{}.max_work + kWorkOfOneStep);
  EXPECT_LT(budget.peak_bytes(), CompileBudget::Limits{}.max_bytes * 5 / 4);
}

Json wide_object(size_t n, const std::string& prefix = "property_") {
  Json properties = Json::object();
  for (size_t i = 0; i < n; ++i) properties[prefix + std::to_string(i)] = Json{{"type", "string"}};
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

TEST(CompileBudgetTest, SchemaBranchesAreMergedOneAtATime) {
  Json schema = wide_object(1);
  schema["$defs"]["big"] = wide_object(5000);
  for (const char* keyword : {"anyOf", "oneOf"}) {
    Json branches = Json::array();
    for (int i = 0; i < 20'000; ++i) branches.push_back({{"$ref", "#/$defs/big"}});
    Json whole = schema;
    whole[keyword] = std::move(branches);
    ASSERT_LT(json_to_string(whole).size(), 1'000'000u);
    expect_refused(whole);
  }
}

// Numbers between excluded ones are written one after the other: a copy of the list for each took gigabytes.
TEST(CompileBudgetTest, ManyExcludedValuesStayWithinTheBudget) {
  Json numbers = Json::array(), texts = Json::array();
  for (int i = 0; i < 50'000; ++i) {
    numbers.push_back(i);
    texts.push_back("s" + std::to_string(i));
  }
  expect_refused({{"type", "number"}, {"not", {{"enum", numbers}}}});
  expect_refused({{"allOf", {{{"not", {{"enum", numbers}}}}, {{"not", {{"enum", texts}}}}}}});
  CompileBudget budget;
  const Json none = {{"enum", numbers}, {"not", {{"enum", numbers}}}};
  EXPECT_EQ(compile_parsed_json_schema(none, {}, &budget).status().message(), "schema: no text satisfies it");
  EXPECT_LT(budget.n_work(), 2'000'000u) << "lists are compared in linear time";
}

TEST(CompileBudgetTest, ComparingBranchesCountsAgainstTheBudget) {
  Json schema = Json::object();
  Json big = wide_object(5000);
  big["required"] = Json::array();
  for (const auto& item : big["properties"].items()) big["required"].push_back(item.key());
  schema["$defs"]["big"] = std::move(big);
  for (int i = 0; i < 200; ++i) {
    schema["oneOf"].push_back({{"$ref", "#/$defs/big"}, {"minProperties", i}});
  }
  CompileBudget budget;
  const auto grammar = compile_parsed_json_schema(schema, {}, &budget);
  EXPECT_FALSE(grammar.ok());
  EXPECT_LT(budget.n_work(), CompileBudget::Limits{}.max_work + kWorkOfOneStep);
  EXPECT_LT(budget.peak_bytes(), CompileBudget::Limits{}.max_bytes * 5 / 4);
}

TEST(CompileBudgetTest, EachPatternIsCompiledOnce) {
  CompileBudget budget;
  PatternSearch patterns(budget);
  for (int name = 0; name < 100; ++name) {
    for (const char* pattern : {"7$", "^1", "x"}) {
      const std::string text = std::to_string(name);
      const Result<bool> found = patterns.finds(pattern, text);
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(*found, pattern[0] == '7' ? text.back() == '7' : pattern[0] == '^' && text[0] == '1') << text;
    }
  }
  EXPECT_EQ(patterns.n_compiled(), 3u);
  EXPECT_EQ(patterns.finds("(", "a").status().code(), ErrorCode::kInvalidArgument);
}

// 5,000 names, each matched with 20 patterns of 1,000 bytes.
TEST(CompileBudgetTest, PropertyNamesAreMatchedWithCachedPatterns) {
  Json schema = wide_object(5000);
  for (int i = 0; i < 20; ++i) {
    schema["patternProperties"]["^z" + std::to_string(i) + "z" + std::string(1000, 'a')] = false;
  }
  schema["additionalProperties"] = false;
  CompileBudget budget;
  const auto grammar = compile_parsed_json_schema(schema, {}, &budget);
  EXPECT_TRUE(grammar.ok()) << grammar.status().to_string();
  EXPECT_LT(budget.n_work(), 10'000'000u);
}

TEST(CompileBudgetTest, ProductsOfPatternsCountAgainstTheBudget) {
  Json schema = {{"type", "object"}};
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i + 1);
    schema["patternProperties"]["^(a|b)*a(a|b){12}c{" + n + "}$"] = true;
  }
  expect_refused(schema);
}

TEST(CompileBudgetTest, ManyExpensiveStringsExceedTheBudget) {
  Json schema = {{"type", "array"}, {"items", false}};
  for (int i = 0; i < 500; ++i) {
    schema["prefixItems"].push_back(
        {{"type", "string"}, {"pattern", "(a|b)*a(a|b){11}$"}, {"minLength", 1}, {"maxLength", 200 + i}});
  }
  expect_refused(schema);
}

TEST(CompileBudgetTest, LongEnumsAreComparedWithinTheBudget) {
  Json values = Json::array();
  for (int i = 0; i < 3000; ++i) values.push_back(std::string(100, 'x') + std::to_string(i));
  Json schema = Json::object();
  for (int i = 0; i < 3; ++i) {
    Json member = Json::object();
    member["enum"] = values;
    schema["allOf"].push_back(std::move(member));
  }
  CompileBudget budget;
  const auto grammar = compile_parsed_json_schema(schema, {}, &budget);
  EXPECT_TRUE(grammar.ok()) << grammar.status().to_string();
  EXPECT_LT(budget.n_work(), 2'000'000u);
}

TEST(CompileBudgetTest, RecursionThroughManySchemaCombinationsStaysWithinTheBudget) {
  // The children of kind i are of all kinds except some. Merged schemas are sets of such kinds, so there could be many.
  Json schema = {{"$ref", "#/$defs/n0"}};
  for (int i = 0; i < 24; ++i) {
    Json node = {{"type", "object"}, {"properties", Json::object()}};
    for (int k = 0; k < 24; ++k) {
      Json kid = {{"allOf", Json::array()}};
      for (int m = 0; m < 24; ++m) {
        if ((i * 7 + k * 5 + m * 3) % 11 < 6) kid["allOf"].push_back({{"$ref", "#/$defs/n" + std::to_string(m)}});
      }
      node["properties"]["k" + std::to_string(k)] = std::move(kid);
    }
    schema["$defs"]["n" + std::to_string(i)] = std::move(node);
  }
  CompileBudget budget;
  const auto grammar = compile_parsed_json_schema(schema, {}, &budget);
  EXPECT_TRUE(grammar.ok() || grammar.status().code() == ErrorCode::kLimitExceeded) << grammar.status().to_string();
  EXPECT_LT(budget.n_work(), CompileBudget::Limits{}.max_work + kWorkOfOneStep);
}

TEST(CompileBudgetTest, ManyMultipleOfKeywordsCountAgainstTheBudget) {
  Json schema = {{"type", "integer"}};
  for (int i = 0; i < 900; ++i) schema["allOf"].push_back({{"multipleOf", 100'003 + i}});
  expect_refused(schema);
}

TEST(CompileBudgetTest, StopRequestCancelsCompilation) {
  std::stop_source stop;
  stop.request_stop();
  CompileBudget budget(stop.get_token());
  EXPECT_EQ(compile_json_schema(R"({"type":"string"})", {}, &budget).status().code(), ErrorCode::kCancelled);
}

TEST(CompileBudgetTest, HeldBytesAreReturnedToTheBudget) {
  CompileBudget budget({}, {.max_work = 100, .max_bytes = 100});
  {
    HeldBytes held(budget);
    EXPECT_TRUE(held.set(80));
    EXPECT_TRUE(held.set(60));
  }
  EXPECT_TRUE(budget.hold(90));
  EXPECT_EQ(budget.peak_bytes(), 90u);
  EXPECT_FALSE(budget.hold(20));
  EXPECT_EQ(budget.status("it").code(), ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace ibid
