// compile_arguments(): which arguments each notation accepts for a schema.
#include "grammar/grammar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json_limits.h"

namespace ibid {
namespace {

const ArgumentNotation kXml = {
    .before_key = "<p=", .after_value = "\n</p>\n", .before_value = ">\n", .before_other_value = ">\n"};
const ArgumentNotation kTold = {
    .before_key = "<p=", .after_value = "</p>", .before_value = " str>", .before_other_value = " json>"};
const ArgumentNotation kTags = {
    .before_key = "<", .after_value = "</", .after_closing_key = ">\n", .before_value = ">", .before_other_value = ">"};
const ArgumentNotation kBare = {.form = ArgumentNotation::Form::kBare, .quote = "<|q|>"};
const ArgumentNotation kPython = {.form = ArgumentNotation::Form::kKeywords};

Result<Grammar> compiled(const char* schema, const ArgumentNotation& notation) {
  const Result<RequiredCalls::Call> call = compile_arguments(parse_json(schema, "test").value(), notation);
  if (!call.ok()) return call.status();
  RequiredCalls::Call between = {{.words = "["}};
  between.insert(between.end(), call->begin(), call->end());
  between.push_back({.words = "]"});
  return compile_calls({.calls = {between}});
}

void expect_texts(const char* schema, const ArgumentNotation& notation, const std::vector<std::string>& good,
                  const std::vector<std::string>& bad) {
  const Result<Grammar> grammar = compiled(schema, notation);
  ASSERT_TRUE(grammar.ok()) << grammar.status().to_string();
  for (const std::string& text : good) EXPECT_TRUE(*grammar_accepts(*grammar, "[" + text + "]")) << text;
  for (const std::string& text : bad) EXPECT_FALSE(*grammar_accepts(*grammar, "[" + text + "]")) << text;
}

constexpr const char* kWeather = R"({"type": "object", "properties": {"city": {"type": "string"},
    "days": {"type": "integer", "minimum": 1, "maximum": 9}, "unit": {"enum": ["C", "F", 1]}}, "required": ["city"]})";

TEST(ArgumentNotationTest, StringsBetweenMarkersHaveNoQuotes) {
  expect_texts(kWeather, kXml,
               {"<p=city>\nParis\n</p>\n", "<p=city>\n\n</p>\n", "<p=city>\n\"a\"\n<b>\\n\n</p>\n<p=days>\n3\n</p>\n",
                "<p=city>\nx\n</p>\n<p=unit>\nC\n</p>\n", "<p=city>\nx\n</p>\n<p=unit>\n1\n</p>\n"},
               {"", "<p=days>\n3\n</p>\n", "<p=city>\nParis</p>\n", "<p=city>\na</p>b\n</p>\n",
                "<p=days>\n3\n</p>\n<p=city>\nx\n</p>\n", "<p=city>\nx\n</p>\n<p=days>\n10\n</p>\n",
                "<p=city>\nx\n</p>\n<p=unit>\nK\n</p>\n", "<p=city>\nx\n</p>\n<p=unit>\n\"C\"\n</p>\n",
                "<p=city>\nx\n</p>\n<p=more>\nx\n</p>\n"});
  expect_texts(kWeather, kTold, {"<p=city str>1</p>", "<p=city str>x</p><p=unit json>1</p>"},
               {"<p=city json>1</p>", "<p=city str>x</p><p=unit str>1</p>"});
}

TEST(ArgumentNotationTest, ClosingTagRepeatsTheKeyOfItsArgument) {
  expect_texts(kWeather, kTags,
               {"<city>Paris</city>\n", "<city></days>\n</city>\n<days>3</days>\n", "<city>x</city>\n<unit>C</unit>\n"},
               {"<city>Paris</days>\n", "<city>x</city>\n<days>3</city>\n", "<city>x</city>"});
  expect_texts(R"({"type": "object"})", kTags, {""}, {"<a>x</a>\n"});
}

TEST(ArgumentNotationTest, BooleansAndNullBetweenMarkersMayHavePythonSpelling) {
  expect_texts(
      R"({"properties": {"a": {"type": "boolean"}, "b": {"type": ["integer", "null"]}, "c": {"const": true}}})", kXml,
      {"<p=a>\nTrue\n</p>\n<p=b>\nNone\n</p>\n<p=c>\nTrue\n</p>\n", "<p=a>\nfalse\n</p>\n", "<p=b>\nnull\n</p>\n"},
      {"<p=a>\nNone\n</p>\n", "<p=b>\nTrue\n</p>\n", "<p=c>\nFalse\n</p>\n"});
}

TEST(ArgumentNotationTest, SchemaReferencesAndChoicesAreFollowed) {
  constexpr const char* kSchema = R"({"$defs": {"Level": {"enum": ["low", "high"]}, "Node": {"type": "object",
      "properties": {"next": {"$ref": "#/$defs/Node"}}, "additionalProperties": false}},
      "type": "object", "properties": {"level": {"anyOf": [{"$ref": "#/$defs/Level"}, {"type": "null"}]},
      "node": {"$ref": "#/$defs/Node"}, "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
      "when": {"type": "string", "format": "date"}, "short": {"type": "string", "maxLength": 2}}})";
  expect_texts(kSchema, kXml,
               {"", "<p=level>\nlow\n</p>\n", "<p=level>\nnull\n</p>\n", "<p=node>\n{\"next\": {}}\n</p>\n",
                "<p=code>\nAB\n</p>\n<p=when>\n2024-02-29\n</p>\n<p=short>\n\xC3\xA9!\n</p>\n"},
               {"<p=level>\nmid\n</p>\n", "<p=node>\n{\"other\": 1}\n</p>\n", "<p=code>\nab\n</p>\n",
                "<p=when>\nsoon\n</p>\n", "<p=short>\nabc\n</p>\n"});
}

TEST(ArgumentNotationTest, AnyArgumentIsAllowedIfTheSchemaDeclaresNoArguments) {
  expect_texts(R"({"type": "object"})", kXml, {"", "<p=a>\nx\n</p>\n<p=b_2>\n{}\n</p>\n"}, {"<p=>\nx\n</p>\n"});
  expect_texts(R"({"type": "object", "properties": {}, "additionalProperties": false})", kXml, {""},
               {"<p=a>\nx\n</p>\n"});
  expect_texts(R"({"type": "object", "additionalProperties": {"type": "integer"}})", kBare, {"{}", "{a:1,b:2}"},
               {"{a:<|q|>x<|q|>}", "{a:1,}", "{,a:1}"});
}

TEST(ArgumentNotationTest, ObjectsWithBareKeysAllowValuesOfAllTypes) {
  expect_texts(kWeather, kBare,
               {"{city:<|q|>Paris<|q|>}", "{city:<|q|>a\"{}<|q|>,days:3}", "{city:<|q|>x<|q|>,unit:<|q|>C<|q|>}",
                "{city:<|q|>x<|q|>,days:1,unit:1}"},
               {"{}", "{city:Paris}", "{city:<|q|>Paris}", "{days:3,city:<|q|>x<|q|>}", "{city:<|q|>x<|q|>,days:0}",
                "{city:<|q|>x<|q|>,}", "{city:<|q|>x<|q|>,unit:2}"});
  expect_texts(R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"},
                   "c": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}})",
               kBare, {"{}", "{a:1}", "{b:true}", "{a:1,b:false}", "{c:[]}", "{b:true,c:[{k:<|q|>x<|q|>},{}]}"},
               {"{,b:true}", "{a:1b:true}", "{c:[,]}", "{c:[{k:1}]}"});
  expect_texts(R"({"type": "object", "properties": {"x": {}}})", kBare,
               {"{x:1}", "{x:<|q|>s<|q|>}", "{x:[1,<|q|>s<|q|>,[2]]}", "{x:{a:{b:null}}}"}, {"{x:}", "{x:s}"});
}

TEST(ArgumentNotationTest, PythonKeywordArgumentsHaveJsonValues) {
  expect_texts(kWeather, kPython, {"(city=\"Paris\")", "(city=\"x\", days=3, unit=\"C\")", "(city=\"x\", unit=1)"},
               {"()", "(city=Paris)", "(city=\"x\",)", "(days=3, city=\"x\")", "(city=\"x\", days=0)"});
}

TEST(ArgumentNotationTest, UnsupportedSchemaIsReported) {
  const auto error = [](const char* schema, const ArgumentNotation& notation) {
    const Result<Grammar> grammar = compiled(schema, notation);
    EXPECT_FALSE(grammar.ok());
    return grammar.status().to_string();
  };
  EXPECT_NE(error(R"({"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]})", kXml).find('#'),
            std::string::npos);
  EXPECT_NE(error(R"({"properties": {"a": {"type": "string", "minLength": 1, "pattern": "a"}}})", kXml)
                .find("#/properties/a: only one of"),
            std::string::npos);
  EXPECT_NE(error(R"({"properties": {"a": {"not": {"const": "x"}}}})", kXml).find("#/properties/a"), std::string::npos);
  EXPECT_NE(error(R"({"properties": {"a": {"$ref": "#/$defs/none"}}})", kBare).find("none"), std::string::npos);
  EXPECT_NE(error(R"({"properties": {"a": {"type": "array", "maxItems": 2}}})", kBare).find("counts"),
            std::string::npos);
  EXPECT_NE(error(R"({"$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}},
                      "properties": {"a": {"$ref": "#/$defs/N"}}})",
                  kBare)
                .find("values nested this deeply"),
            std::string::npos);
  // The cost of compiling is bounded for any schema.
  std::string wide = R"({"properties": {"a": {"allOf": [)";
  for (int i = 0; i < 40; ++i) {  // all of them are different, so no result can be reused
    wide += (i == 0 ? "" : ",") + (R"({"anyOf": [{"minimum": )" + std::to_string(i) + R"(}, {"maximum": 99}]})");
  }
  EXPECT_NE(error((wide + "]}}}").c_str(), kXml).find("choices"), std::string::npos);
  ArgumentNotation huge = kXml;
  huge.after_value = std::string(20'000, 'x');
  EXPECT_NE(error(kWeather, huge).find("markers of reasoning and calls: more than"), std::string::npos);
}

}  // namespace
}  // namespace ibid
