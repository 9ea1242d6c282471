// JSON Schemas as grammars, beyond the JSON Schema test suite: order of properties, white space, errors with their
// places, cyclic references, exact numbers, limits.
#include <gtest/gtest.h>

#include <random>

#include "base/json_limits.h"
#include "grammar/byte_automaton.h"
#include "grammar/grammar.h"
#include "grammar/json_writer.h"

namespace ibid {
namespace {

bool accepts_json(const Result<Grammar>& grammar, std::string_view text) {
  EXPECT_TRUE(grammar.ok()) << grammar.status().to_string();
  if (!grammar.ok()) return false;
  const Result<bool> accepted = grammar_accepts(*grammar, text);
  EXPECT_TRUE(accepted.ok()) << accepted.status().to_string();
  return accepted.ok() && *accepted;
}

TEST(JsonSchemaGrammarTest, FewPropertiesMayComeInAnyOrder) {
  const auto schema = compile_json_schema(
      R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"null"}},
          "required":["b","z"],"additionalProperties":{"type":"boolean"}})");
  EXPECT_TRUE(accepts_json(schema, R"({"b":1,"a":null,"z":true})"));
  EXPECT_TRUE(accepts_json(schema, R"({"b":1,"z":true,"q":false,"p":true})"));
  EXPECT_TRUE(accepts_json(schema, R"({"a":null,"b":1,"z":true})"));
  EXPECT_TRUE(accepts_json(schema, R"({"q":true,"b":1,"p":false,"z":true})"));
  EXPECT_FALSE(accepts_json(schema, R"({"b":1})"));
  EXPECT_FALSE(accepts_json(schema, R"({"b":1,"z":true,"b":true})"));
  EXPECT_FALSE(accepts_json(schema, R"({"b":1,"z":true,"\u0062":true})")) << "the same name, written with an escape";
}

// Each set of written properties is a state, so many properties keep the order of their declaration.
TEST(JsonSchemaGrammarTest, ManyPropertiesKeepTheirOrder) {
  for (const char last : {'k', 'l'}) {  // eleven and twelve properties
    std::string properties = R"("a":{})";
    for (char name = 'b'; name <= last; ++name) properties += std::string(",\"") + name + "\":{}";
    const auto schema = compile_json_schema(R"({"type":"object","properties":{)" + properties + "}}");
    EXPECT_TRUE(accepts_json(schema, R"({"a":1,"c":2,"k":3})"));
    EXPECT_EQ(accepts_json(schema, R"({"c":2,"a":1})"), last == 'k');
    const auto declared =
        compile_json_schema(R"({"type":"object","properties":{)" + properties + "}}", {.for_answers = true});
    EXPECT_FALSE(accepts_json(declared, R"({"c":2,"a":1})"));
  }
}

TEST(JsonSchemaGrammarTest, SchemasThatListPropertiesForbidOtherProperties) {
  const std::string listed = R"({"type":"object","properties":{"a":{}},"required":["a","r"])";
  EXPECT_TRUE(accepts_json(compile_json_schema(listed + "}"), R"({"r":1,"a":1})"));
  for (const auto& [schema, options, is_open] : std::vector<std::tuple<std::string, JsonFormat, bool>>{
           {listed + "}", {}, false},
           {listed + "}", {.strict = true}, true},
           {listed + R"(,"additionalProperties":true})", {}, true},
           {listed + R"(,"patternProperties":{"^x":{}}})", {}, true},
           {R"({"allOf":[{"properties":{"r":{}}},{"properties":{"a":{}}}]})", {}, false},
           {R"({"type":"object","required":["a"]})", {}, true}}) {
    EXPECT_EQ(accepts_json(compile_json_schema(schema, options), R"({"a":1,"r":2,"x":3})"), is_open) << schema;
  }
}

TEST(JsonSchemaGrammarTest, SchemaWithPropertiesAllowsOnlyObjectsInAnswers) {
  const char* schema = R"({"properties":{"a":{"properties":{"b":{}}},"n":{"properties":{},"nullable":true}}})";
  const auto answers = compile_json_schema(schema, {.for_answers = true});
  EXPECT_TRUE(accepts_json(answers, R"({"a":{"b":1},"n":null})"));
  EXPECT_FALSE(accepts_json(answers, "5"));
  EXPECT_FALSE(accepts_json(answers, R"({"a":5})"));
  for (const JsonFormat& format : {JsonFormat{}, JsonFormat{.strict = true, .for_answers = true}}) {
    EXPECT_TRUE(accepts_json(compile_json_schema(schema, format), "5"));
  }
}

TEST(JsonSchemaGrammarTest, UnknownKeywordsAreReported) {
  const auto schema = compile_json_schema(R"({"type":"object","id":"a","javaType":"b","x-own":1,"_required":1,"note":"",
      "properties":{"a":{"type":"string","nullable":true,"format":"idn-email","Type":1},"b/c":{"self":{}}}})");
  ASSERT_TRUE(schema.ok()) << schema.status().to_string();
  EXPECT_EQ(schema->ignored(), (std::vector<std::string>{"#/javaType", "#/_required", "#/note", "#/properties/a/format",
                                                         "#/properties/a/Type", "#/properties/b~1c/self"}));
  EXPECT_TRUE(accepts_json(schema, R"({"a":null})")) << "nullable";
  const auto strict = compile_json_schema(R"({"type":"string","nullable":true})", {.strict = true});
  ASSERT_TRUE(strict.ok());
  EXPECT_EQ(strict->ignored(), std::vector<std::string>{"#/nullable"});
  EXPECT_FALSE(accepts_json(strict, "null"));
}

// Exactly one of a schema and its negation accepts a value.
TEST(JsonSchemaGrammarTest, NegationAcceptsWhatTheSchemaRejects) {
  const std::vector<std::string> schemas = {
      "true",
      R"({"type":"integer"})",
      R"({"type":["number","null"]})",
      R"({"enum":[1,"a",null,[],true]})",
      R"({"const":"ab"})",
      R"({"minimum":1.5})",
      R"({"maximum":2,"exclusiveMaximum":true})",
      R"({"minLength":2})",
      R"({"pattern":"^a"})",
      R"({"format":"date"})",
      R"({"items":{"type":"integer"},"maxItems":2})",
      R"({"prefixItems":[{"const":1},{"type":"string"}]})",
      R"({"contains":{"const":1}})",
      R"({"contains":{"const":1},"minContains":2})",
      R"({"contains":{"const":1},"maxContains":1})",
      R"({"required":["a"]})",
      R"({"properties":{"a":{"type":"integer"},"b":false}})",
      R"({"properties":{"a":{}},"additionalProperties":false})",
      R"({"minProperties":1,"maxProperties":1})",
      R"({"anyOf":[{"type":"string"},{"minimum":2}]})",
      R"({"oneOf":[{"type":"number"},{"minimum":2},{"const":1}]})",
      R"({"allOf":[{"minimum":1},{"type":"integer"}]})",
      R"({"not":{"required":["a"]}})",
      R"({"if":{"required":["a"]},"then":{"required":["b"]},"else":{"maxProperties":1}})",
      R"({"dependentRequired":{"a":["b"]}})",
      R"({"dependencies":{"a":{"properties":{"b":{"const":1}}}}})",
      R"({"$ref":"#/$defs/n","$defs":{"n":{"properties":{"a":{"not":{"$ref":"#/$defs/n"}}},"required":["a"]}}})"};
  const std::vector<std::string> values = {"null",
                                           "true",
                                           "false",
                                           "0",
                                           "1",
                                           "2",
                                           "1.5",
                                           "7.25",
                                           "-3",
                                           "\"\"",
                                           "\"a\"",
                                           "\"ab\"",
                                           "\"2026-01-31\"",
                                           "[]",
                                           "[1]",
                                           "[1,1]",
                                           "[1,\"b\"]",
                                           "[2,3,4]",
                                           "[null]",
                                           "{}",
                                           "{\"a\":1}",
                                           "{\"a\":\"x\"}",
                                           "{\"b\":1}",
                                           "{\"a\":1,\"b\":1}",
                                           "{\"a\":{\"a\":1},\"c\":1}",
                                           "{\"c\":null,\"d\":[]}"};
  for (const std::string& schema : schemas) {
    const auto plain = compile_json_schema(schema, {.strict = true});
    const size_t defs = schema.find(",\"$defs\"");
    const std::string inner = defs == schema.npos ? schema : schema.substr(0, defs) + "}";
    const std::string rest = defs == schema.npos ? "}" : schema.substr(defs);
    const auto negated = compile_json_schema(R"({"not":)" + inner + rest, {.strict = true});
    const auto accepts = [&](const Result<Grammar>& grammar, const std::string& value) {
      if (grammar.status().message() == "schema: no text satisfies it") return false;
      return accepts_json(grammar, value);
    };
    for (const std::string& value : values) {
      EXPECT_NE(accepts(plain, value), accepts(negated, value)) << schema << " and " << value;
    }
  }
}

TEST(JsonSchemaGrammarTest, TextsThatMatchTwoOneOfBranchesAreRejected) {
  const auto unsupported =
      compile_json_schema(R"({"type":"integer","oneOf":[{"minimum":5},{"maximum":7},{"multipleOf":2,"maximum":3}]})");
  EXPECT_TRUE(unsupported.status().message().starts_with("schema: #/oneOf: branches 1 and 2 may overlap"))
      << unsupported.status().message();
  const auto numbers = compile_json_schema(R"({"type":"integer","oneOf":[{"minimum":5},{"maximum":7}]})");
  EXPECT_TRUE(accepts_json(numbers, "4"));
  EXPECT_TRUE(accepts_json(numbers, "8"));
  EXPECT_FALSE(accepts_json(numbers, "6"));
  const auto either =
      compile_json_schema(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
      "oneOf":[{"required":["a"]},{"required":["b"]}]})");
  EXPECT_TRUE(accepts_json(either, R"({"a":1})"));
  EXPECT_TRUE(accepts_json(either, R"({"b":1})"));
  EXPECT_FALSE(accepts_json(either, R"({"a":1,"b":1})"));
  EXPECT_FALSE(accepts_json(either, "{}"));
}

TEST(JsonSchemaGrammarTest, WhiteSpaceIsAllowedBetweenJsonTokens) {
  const std::string text = R"({"properties":{"a":{"items":{"type":"integer"}}},"required":["a"],"type":"object"})";
  const auto schema = compile_json_schema(text);
  EXPECT_TRUE(accepts_json(schema, R"({"a":[1,2]})"));
  EXPECT_TRUE(accepts_json(schema, "{\n  \"a\": [\n    1,\n    2\n  ]\n}"));
  EXPECT_TRUE(accepts_json(schema, R"({ "a": [1, 2] })"));
  EXPECT_FALSE(accepts_json(schema, R"( {"a":[1]})"));
  EXPECT_FALSE(accepts_json(schema, R"({"a" :[1]})"));
  EXPECT_FALSE(accepts_json(schema, "{\n\n\"a\":[1]}"));
  EXPECT_FALSE(accepts_json(schema, "{\n" + std::string(33, ' ') + "\"a\":[1]}"));
  const auto compact = compile_json_schema(text, {.compact = true});
  EXPECT_TRUE(accepts_json(compact, R"({"a":[1,2]})"));
  EXPECT_FALSE(accepts_json(compact, R"({"a": [1,2]})"));
}

TEST(JsonSchemaGrammarTest, ReferencesMayBeCyclic) {
  const auto tree = compile_json_schema(
      R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","additionalProperties":false,
          "properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}},
          "required":["v"]}}})");
  EXPECT_TRUE(accepts_json(tree, R"({"v":1,"kids":[{"v":2},{"v":3,"kids":[{"v":4,"kids":[]}]}]})"));
  EXPECT_FALSE(accepts_json(tree, R"({"v":1,"kids":[{"v":2},{"kids":[]}]})"));
  const auto endless = compile_json_schema(
      R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}}})");
  EXPECT_EQ(endless.status().message(), "schema: no text satisfies it");
  // Both schemas constrain a node and, in the same way, its children. Merging must find the same merged schemas again.
  const auto both = compile_json_schema(
      R"({"$ref":"#/$defs/node","$defs":{
          "base":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/base"}}}},
          "node":{"allOf":[{"$ref":"#/$defs/base"},
                           {"properties":{"kids":{"items":{"$ref":"#/$defs/node"}},"v":{"type":"integer"}},
                            "required":["v"],"additionalProperties":false}]}}})");
  EXPECT_TRUE(accepts_json(both, R"({"kids":[{"kids":[{"v":3}],"v":2}],"v":1})"));
  EXPECT_FALSE(accepts_json(both, R"({"kids":[{"kids":[{}],"v":2}],"v":1})"));
  EXPECT_FALSE(accepts_json(both, R"({"kids":[{"kids":[3],"v":2}],"v":1})"));
  const auto merged = compile_json_schema(
      R"({"allOf":[{"properties":{"a":{"$ref":"#"}}},{"type":"object","maxProperties":1}]})", {.strict = true});
  EXPECT_TRUE(accepts_json(merged, R"({"a":{"a":{"b":[1]}}})"));
  EXPECT_FALSE(accepts_json(merged, R"({"a":{"a":1}})"));
}

TEST(JsonSchemaGrammarTest, UnsupportedKeywordIsReportedWithItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"properties":{"a/b":{"not":{"multipleOf":2}}}})",
       "Unsupported: schema: #/properties/a~1b/not/multipleOf: not supported in a schema that is negated"},
      {R"({"items":{"if":{"multipleOf":2},"then":{}}})",
       "Unsupported: schema: #/items/if/multipleOf: not supported in a schema that is negated"},
      {R"x({"pattern":"(?=a)"})x", "Unsupported: schema: #/pattern: a lookahead"},
      {R"({"minLenght":1})", "Unsupported: schema: #/minLenght: the keyword is not known; was \"minLength\" meant?"},
      {R"({"requires":[]})", "Unsupported: schema: #/requires: the keyword is not known; was \"required\" meant?"},
      {R"({"additonalProperties":false})", "Unsupported: schema: #/additonalProperties: the keyword is not known"},
      {R"({"$dynamicRef":"#a"})", "Unsupported: schema: #/$dynamicRef: the keyword is not supported"},
      {R"({"uniqueItems":true})", "Unsupported: schema: #/uniqueItems: "},
      {R"({"contains":{},"maxContains":200})", "Unsupported: schema: #/contains: "},
      {R"({"oneOf":[{"type":"array"},{"uniqueItems":true}]})", "Unsupported: schema: #/oneOf: branches 0 and 1"},
      {R"({"$ref":"other.json"})", "Unsupported: schema: #/$ref: "},
      {R"({"$ref":"#/$defs/a"})", "InvalidArgument: schema: #/$ref: \"#/$defs/a\" is not in the schema"},
      {R"({"$ref":"#"})", "InvalidArgument: schema: #/$ref: the schema refers to itself"},
      {R"({"type":"text"})", "InvalidArgument: schema: #/type: not the name of a type"},
      {R"({"minLength":-1})", "InvalidArgument: schema: #/minLength: not a whole number of 0 or more"},
      {R"({"multipleOf":0})", "InvalidArgument: schema: #/multipleOf: not above 0"},
      {R"({"anyOf":[]})", "InvalidArgument: schema: #/anyOf: "},
      {R"({"properties":[]})", "InvalidArgument: schema: #/properties: not an object"},
      {R"({"exclusiveMinimum":"1"})", "InvalidArgument: schema: #/exclusiveMinimum: not a number"},
      {R"({"dependencies":{"a":1}})", "InvalidArgument: schema: #/dependencies/a: neither an array of strings nor"},
      {R"([1])", "InvalidArgument: schema: #: a schema must be an object, true or false"},
      {R"({"type":"string","minLength":3,"maxLength":2})", "InvalidArgument: schema: no text satisfies it"},
      {R"({"a":)", "BadHeader: schema: "},
      {R"({"minItems":5000000})", "LimitExceeded: schema: #/minItems: above 1000000"},
  };
  for (const auto& [schema, error] : cases) {
    const std::string found = compile_json_schema(schema).status().to_string();
    EXPECT_TRUE(found.starts_with(error)) << schema << "\n" << found;
  }
  EXPECT_TRUE(compile_json_schema(R"({"title":"t","description":"d","default":1,"examples":[],"x-own":1,"$comment":"c",
                                      "deprecated":true,"$schema":"s","type":"null"})")
                  .ok());
}

TEST(JsonSchemaGrammarTest, IntegersHaveNoFraction) {
  for (const char* schema : {R"({"type":"integer","const":1000.0})", R"({"type":"integer","enum":[1000.0,1.5]})",
                             R"({"allOf":[{"const":1e3},{"type":["integer","null"]}]})"}) {
    const auto thousand = compile_json_schema(schema);
    EXPECT_TRUE(accepts_json(thousand, "1000")) << schema;
    EXPECT_FALSE(accepts_json(thousand, "1000.0")) << schema;
  }
  const auto large = compile_json_schema(R"({"type":"integer","const":12345678901234567168.0e-1})");
  EXPECT_TRUE(accepts_json(large, "1234567890123456768"));
  EXPECT_FALSE(accepts_json(large, "1.2345678901234568e+18"));
  const auto different =
      compile_json_schema(R"({"type":"array","items":{"type":"integer","enum":[1.0,2.0]},"uniqueItems":true})");
  EXPECT_TRUE(accepts_json(different, "[2,1]"));
  EXPECT_FALSE(accepts_json(different, "[2.0]"));
  EXPECT_TRUE(accepts_json(compile_json_schema(R"({"const":1000.0})"), "1000.0")) << "a number may have a fraction";
}

TEST(JsonSchemaGrammarTest, UniqueItemsKeywordIsSupportedForFewValues) {
  const auto colors =
      compile_json_schema(R"({"type":"array","items":{"enum":["r","g","b",1,1.0]},"uniqueItems":true,"minItems":1})");
  EXPECT_TRUE(accepts_json(colors, R"(["g"])"));
  EXPECT_TRUE(accepts_json(colors, R"(["g","b",1,"r"])"));
  EXPECT_FALSE(accepts_json(colors, R"(["g","g"])"));
  EXPECT_FALSE(accepts_json(colors, R"(["g","b","g"])"));
  EXPECT_FALSE(accepts_json(colors, R"([])"));
  const auto flags = compile_json_schema(
      R"({"type":"array","prefixItems":[{"type":"boolean"},{"const":true}],"items":{"type":"null"},"uniqueItems":true})");
  EXPECT_TRUE(accepts_json(flags, R"([false,true,null])"));
  EXPECT_TRUE(accepts_json(flags, R"([true])"));
  EXPECT_FALSE(accepts_json(flags, R"([true,true])"));
  EXPECT_FALSE(accepts_json(flags, R"([false,true,null,null])"));
  EXPECT_TRUE(accepts_json(compile_json_schema(R"({"type":"array","uniqueItems":true,"maxItems":1})"), "[{}]"));
}

TEST(JsonSchemaGrammarTest, ContainsKeywordIsSupported) {
  const auto two = compile_json_schema(
      R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"minContains":2,"maxItems":4})");
  EXPECT_TRUE(accepts_json(two, R"([1,5,2,7])"));
  EXPECT_TRUE(accepts_json(two, R"([5,7,9])"));
  EXPECT_FALSE(accepts_json(two, R"([5])"));
  EXPECT_FALSE(accepts_json(two, R"([5,1,2,3])"));
  EXPECT_FALSE(accepts_json(two, R"([5,6,7,8,9])"));
  const auto one = compile_json_schema(R"({"type":"array","prefixItems":[{"type":"null"}],"contains":{"const":"x"}})");
  EXPECT_TRUE(accepts_json(one, R"([null,1,"x",2])"));
  EXPECT_FALSE(accepts_json(one, R"(["x"])"));
  EXPECT_FALSE(accepts_json(one, R"([null,1])"));
}

TEST(JsonSchemaGrammarTest, SchemaReferencesAreResolvedThroughIds) {
  const auto schema = compile_json_schema(
      R"({"$id":"https://example.org/a/root.json","$defs":{"b":{"$id":"../b.json","$defs":{"n":{"type":"integer"}},
          "items":{"$ref":"#/$defs/n"}}},"properties":{"x":{"$ref":"/b.json"},"y":{"$ref":"/b.json#/$defs/n"}}})");
  EXPECT_TRUE(accepts_json(schema, R"({"x":[1],"y":2})"));
  EXPECT_FALSE(accepts_json(schema, R"({"x":["a"],"y":2})"));
  EXPECT_FALSE(accepts_json(schema, R"({"x":[1],"y":"a"})"));
}

TEST(JsonSchemaGrammarTest, StringsMayHaveSeveralConstraints) {
  const auto code = compile_json_schema(R"({"type":"string","pattern":"^[a-c]+$","minLength":2,"maxLength":3})");
  EXPECT_TRUE(accepts_json(code, R"("abc")"));
  EXPECT_FALSE(accepts_json(code, R"("a")"));
  EXPECT_FALSE(accepts_json(code, R"("abca")"));
  EXPECT_FALSE(accepts_json(code, R"("abd")"));
  const auto found = compile_json_schema(R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"\"$"}]})");
  EXPECT_TRUE(accepts_json(found, R"("xa\\\n\"")"));
  EXPECT_FALSE(accepts_json(found, R"("x\"")"));
  const auto plain = compile_json_schema(R"({"type":"string","minLength":2,"maxLength":2})");
  EXPECT_TRUE(accepts_json(plain, R"("\u00e9😀")"));
  EXPECT_TRUE(accepts_json(plain, R"("\ud83d\ude00\\")")) << "two escapes, one character";
  EXPECT_FALSE(accepts_json(plain, R"("\ud83dxx")")) << "a lone surrogate";
}

TEST(JsonSchemaGrammarTest, OneOfBranchesAreMergedWithSiblingKeywords) {
  const auto schema = compile_json_schema(
      R"({"type":"object","properties":{"kind":{"enum":["a","b"]}},"required":["kind"],"oneOf":[
          {"properties":{"kind":{"const":"a"},"n":{"type":"integer"}},"required":["n"]},
          {"properties":{"kind":{"const":"b"},"s":{"type":"string"}},"required":["s"]}]})");
  EXPECT_TRUE(accepts_json(schema, R"({"kind":"a","n":1})"));
  EXPECT_TRUE(accepts_json(schema, R"({"kind":"b","s":"x"})"));
  EXPECT_FALSE(accepts_json(schema, R"({"kind":"a","s":"x"})"));
}

std::string decimal_text(const Decimal& value) {
  return (value.negative ? "-" : "") + value.whole + (value.fraction.empty() ? "" : "." + value.fraction);
}

// Compares, for all numbers with few digits near random bounds, the grammar with arithmetic.
TEST(NumberRangeTest, AcceptsExactlyTheNumbersInRange) {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  const auto number = [&] {
    const std::string text = std::to_string(pick(-150, 150)) + (pick(0, 1) ? "." + std::to_string(pick(0, 99)) : "");
    return decimal_of(*parse_json(text, "number"));
  };
  for (int round = 0; round < 100; ++round) {
    NumberBounds bounds;
    bounds.integer = pick(0, 2) == 0;
    if (pick(0, 3) > 0) bounds.raise_min(number(), pick(0, 1) == 0);
    if (pick(0, 3) > 0) bounds.lower_max(number(), pick(0, 1) == 0);
    while (pick(0, 3) == 0) bounds.excluded.push_back(number());
    bounds.fraction = !bounds.integer && pick(0, 3) == 0;
    if (pick(0, 3) == 0) bounds.multiples.push_back(decimal_of(*parse_json(pick(0, 1) ? "7" : "0.25", "number")));
    GrammarRules rules;
    const RuleId root = rules.add_rule("number");
    CompileBudget budget;
    rules.define(root, *number_range(bounds, true, rules, budget));
    const Result<Grammar> grammar = make_grammar(std::move(rules), "number");
    for (int i = 0; i < 60; ++i) {
      const Decimal value = number();
      const bool accepted = grammar.ok() && accepts_json(grammar, decimal_text(value));
      ASSERT_EQ(accepted, bounds.allows(value)) << decimal_text(value) << " in round " << round;
    }
  }
}

// Programs parse numbers as doubles, so a number beyond their range must not be allowed.
TEST(NumberRangeTest, NumbersBeyondADoubleAreForbidden) {
  for (const char* text : {R"({"type":"integer"})", R"({"type":"number"})", R"({"type":"integer","minimum":12})",
                           R"({"type":"number","exclusiveMinimum":-0.5})", R"({"type":"number","maximum":1e300})"}) {
    const auto schema = compile_json_schema(text, {.strict = true});
    const bool is_bounded = std::string_view(text).find("maximum") != std::string_view::npos;
    const std::string sign = is_bounded ? "-" : "";
    EXPECT_TRUE(accepts_json(schema, sign + "1" + std::string(250, '7'))) << text;
    EXPECT_FALSE(accepts_json(schema, sign + std::string(309, '9'))) << text;
    EXPECT_FALSE(accepts_json(schema, sign + std::string(1000, '9'))) << text;
  }
}

TEST(NumberRangeTest, NumbersWithoutBoundsHaveLimitedDigits) {
  for (const char* text : {R"({"type":"integer"})", R"({"type":"number"})", R"({"type":"integer","minimum":12})"}) {
    const auto schema = compile_json_schema(text);
    EXPECT_TRUE(accepts_json(schema, std::string(18, '9'))) << text;
    EXPECT_FALSE(accepts_json(schema, std::string(19, '9'))) << text;
  }
  const auto number = compile_json_schema(R"({"type":"number","minimum":0.5})");
  EXPECT_TRUE(accepts_json(number, "1." + std::string(16, '3')));
  EXPECT_FALSE(accepts_json(number, "1." + std::string(19, '3')));
  EXPECT_TRUE(accepts_json(compile_json_schema(R"({"type":"integer","minimum":1e20})"), "1" + std::string(20, '0')));
}

TEST(NumberRangeTest, BoundsOfNumbersAreNotRounded) {
  const auto wide =
      compile_json_schema(R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})");
  EXPECT_TRUE(accepts_json(wide, "9223372036854775807"));
  EXPECT_FALSE(accepts_json(wide, "9223372036854775808"));
  EXPECT_TRUE(accepts_json(wide, "-9223372036854775808"));
  EXPECT_FALSE(accepts_json(wide, "-9223372036854775809"));
  const auto tenths = compile_json_schema(R"({"type":"number","exclusiveMinimum":0.1,"maximum":0.3,"multipleOf":0.1})");
  EXPECT_FALSE(accepts_json(tenths, "0.1"));
  EXPECT_TRUE(accepts_json(tenths, "0.2"));
  EXPECT_TRUE(accepts_json(tenths, "0.30"));
  EXPECT_FALSE(accepts_json(tenths, "0.25"));
  EXPECT_FALSE(accepts_json(tenths, "0.31"));
}

// Written out as rules, each of these schemas would exceed time or memory.
TEST(JsonSchemaGrammarTest, HostileSchemasAreRefusedOrCheap) {
  Json doubled = Json::object();  // would have 2^100 branches if they were counted
  doubled["$ref"] = "#/$defs/d0";
  for (int i = 0; i < 100; ++i) {
    const std::string next = "#/$defs/d" + std::to_string(i + 1);
    Json one = {{"anyOf", Json::array({{{"$ref", next}}, {{"$ref", next}, {"title", "x"}}})}};
    doubled["$defs"]["d" + std::to_string(i)] = one;
  }
  doubled["$defs"]["d100"] = {{"type", "null"}};
  const auto shared = compile_parsed_json_schema(doubled);
  EXPECT_TRUE(accepts_json(shared, "null"));
  Json merged = Json::object();  // would have 2^30 branches if they were multiplied
  for (int i = 0; i < 30; ++i) {
    Json part = {{"anyOf", Json::array({{{"minLength", i}}, {{"maxLength", 100 - i}}})}};
    merged["allOf"].push_back(part);
  }
  EXPECT_EQ(compile_parsed_json_schema(merged).status().code(), ErrorCode::kLimitExceeded);
  const auto exponential = compile_json_schema(R"x({"type":"string","pattern":"(a|b)*a(a|b){40}$","maxLength":100})x");
  EXPECT_EQ(exponential.status().code(), ErrorCode::kLimitExceeded);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += R"({"items":)";
  EXPECT_EQ(compile_json_schema(deep).status().code(), ErrorCode::kLimitExceeded);
}

}  // namespace
}  // namespace ibid
