#include "base/json_limits.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "base/json_members.h"
#include "tests/support/failing_new.h"

namespace ibid {
namespace {

ErrorCode code_of(std::string_view text, const JsonLimits& limits = {}) {
  return parse_json(text, "test.json", limits).status().code();
}

std::string repeated(std::string_view piece, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += piece;
  return text;
}

TEST(Json, ParsingKeepsValuesTypesAndKeyOrder) {
  const std::string text =
      R"({"z":1,"a":[true,false,null,-7,18446744073709551615,2.5,"\u00e9\n"],"m":{"y":{},"b":[]}})";
  const Result<Json> json = parse_json(text, "test.json");
  ASSERT_TRUE(json.ok()) << json.status().to_string();
  EXPECT_EQ(json_to_string(*json),
            "{\"z\":1,\"a\":[true,false,null,-7,18446744073709551615,2.5,\"\xC3\xA9\\n\"],"
            "\"m\":{\"y\":{},\"b\":[]}}");
  // The result equals the DOM of nlohmann's own builder.
  EXPECT_EQ(*json, Json::parse(text));
  for (const char* scalar : {"1", "\"s\"", "null", " [ ] "}) {
    EXPECT_EQ(*parse_json(scalar, "x"), Json::parse(scalar));
  }
}

TEST(Json, DestructionDoesNotAllocate) {
  JsonLimits limits;
  limits.max_depth = kMaxJsonDepth;
  std::optional<Json> json = *parse_json("[" + repeated("{\"a\":[\"a text of its own, on the heap\",{},", 400) + "1" +
                                             repeated("]}", 400) + ",{\"b\":[[],[2,\"c\"]]}]",
                                         "x", limits);
  FailingNew failing(0, true);
  json.reset();
  failing.stop();
  EXPECT_EQ(failing.allocations(), 0u);
}

TEST(Json, DepthIsLimitedWithoutRecursion) {
  JsonLimits limits;
  limits.max_depth = 10;
  EXPECT_EQ(code_of(repeated("[", 10) + repeated("]", 10), limits), ErrorCode::kOk);
  EXPECT_EQ(code_of(repeated("[", 11) + repeated("]", 11), limits), ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_of(repeated("[", 100'000)), ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_of(repeated("{\"a\":", 100'000)), ErrorCode::kLimitExceeded);
  // Values next to each other do not add to the depth.
  EXPECT_EQ(code_of("[" + repeated("[[]],", 1000) + "0]", limits), ErrorCode::kOk);
}

TEST(Json, DeepestAllowedTextIsBuiltWrittenAndFreed) {
  JsonLimits limits;
  limits.max_depth = kMaxJsonDepth;
  const std::string text = repeated("[", kMaxJsonDepth) + repeated("]", kMaxJsonDepth);
  const Result<Json> json = parse_json(text, "deep.json", limits);
  ASSERT_TRUE(json.ok());
  const Json copy = *json;
  EXPECT_EQ(json_to_string(copy), text);
}

TEST(Json, ValuesAndBytesAreLimited) {
  JsonLimits limits;
  limits.max_values = 4;
  EXPECT_EQ(code_of(R"({"a":[1,"x"]})", limits), ErrorCode::kOk);
  EXPECT_EQ(code_of(R"({"a":[1,"x",null]})", limits), ErrorCode::kLimitExceeded);
  limits.max_bytes = 5;
  EXPECT_EQ(code_of("[  1]", limits), ErrorCode::kOk);
  EXPECT_EQ(code_of("[   1]", limits), ErrorCode::kLimitExceeded);
}

TEST(Json, DuplicateKeysAreRefusedOrMerged) {
  EXPECT_EQ(code_of(R"({"a":1,"b":2,"a":3})"), ErrorCode::kDuplicate);
  EXPECT_EQ(code_of(R"({"\u0061":1,"a":3})"), ErrorCode::kDuplicate);
  EXPECT_EQ(code_of(R"({"a":{"a":1},"b":{"a":2}})"), ErrorCode::kOk);
  EXPECT_EQ(code_of(R"([{"x":{"k":1,"k":1}}])"), ErrorCode::kDuplicate);
  JsonLimits limits;
  limits.allow_duplicate_keys = true;
  const Result<Json> json = parse_json(R"({"a":1,"b":2,"a":3,"c":4,"b":5,"a":6})", "test.json", limits);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json_to_string(*json), R"({"a":6,"b":5,"c":4})");
}

TEST(Json, LargeObjectsParseInLinearTime) {
  // With 300000 keys, a linear search per key would take 4.5 * 10^10 comparisons and exceed the test's time limit.
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += "\"token" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  text += "\"last\":0}";
  const Result<Json> json = parse_json(text, "vocab.json");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->size(), 300'001u);
  EXPECT_EQ(json->begin().key(), "token0");
}

TEST(Json, NumbersBeyondADoubleAreErrors) {
  EXPECT_EQ(code_of("[1e400]"), ErrorCode::kBadNumber);
  EXPECT_EQ(code_of("-1e400"), ErrorCode::kBadNumber);
  EXPECT_EQ(code_of("1e308"), ErrorCode::kOk);
  EXPECT_TRUE(parse_json("18446744073709551616", "x")->is_number_float());
}

TEST(Json, SyntaxErrorsNameTheSourceAndTheByte) {
  const Result<Json> json = parse_json("{\"a\": tru}", "config.json");
  EXPECT_EQ(json.status().code(), ErrorCode::kBadHeader);
  EXPECT_EQ(json.status().message().find("config.json: not valid JSON at byte 10: "), 0u) << json.status().message();
  EXPECT_EQ(json.status().message().find("json.exception"), std::string::npos);
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\":1,}", "{'a':1}", "01", "1 2", "{} x", "nul", "NaN", "\"\\x\"",
                           "\"\\ud800\"", "\"a\nb\"", "// c\n1", "\"\xFF\"", "\"\xED\xA0\x80\""}) {
    EXPECT_EQ(code_of(text), ErrorCode::kBadHeader) << text;
  }
  // nlohmann's parser takes a NUL for the end of the text and would ignore the rest, so it must be refused.
  EXPECT_EQ(code_of(std::string_view("{}\0{", 4)), ErrorCode::kBadHeader);
}

TEST(Json, ErrorMessagesAreShortAndPrintable) {
  const std::string text = "[\"" + std::string(1'000'000, 'x') + "\xFF\"]";
  const Result<Json> json = parse_json(text, "big.json");
  ASSERT_FALSE(json.ok());
  EXPECT_LT(json.status().message().size(), 300u);
  const Result<Json> key =
      parse_json("{\"" + std::string(1000, 'k') + "\":1,\"" + std::string(1000, 'k') + "\":1}", "k");
  EXPECT_EQ(key.status().code(), ErrorCode::kDuplicate);
  EXPECT_LT(key.status().message().size(), 300u);
}

TEST(Json, MembersAreFoundInObjectsOnly) {
  const Json object = {{"text", "a"}, {"none", nullptr}, {"", 1}};
  EXPECT_EQ(*find_member(object, "text"), Json("a"));
  EXPECT_EQ(*find_member(object, ""), Json(1));
  EXPECT_TRUE(find_member(object, "none")->is_null());
  EXPECT_EQ(member(object, "none"), nullptr);
  EXPECT_EQ(find_member(object, std::string_view("text\0", 5)), nullptr);
  EXPECT_EQ(*text_member(object, "text"), "a");
  for (const char* name : {"none", "", "other"}) EXPECT_EQ(text_member(object, name), nullptr) << name;
  for (const Json& value : {Json(), Json("text"), Json::array({"text"}), Json(1)}) {
    EXPECT_EQ(find_member(value, "text"), nullptr) << value;
    EXPECT_EQ(member(value, "text"), nullptr) << value;
    EXPECT_EQ(text_member(value, "text"), nullptr) << value;
  }
}

TEST(Json, InvalidUtf8IsReplacedOnWriting) { EXPECT_EQ(json_to_string(Json("a\xFFz")), "\"a\xEF\xBF\xBDz\""); }

}  // namespace
}  // namespace ibid
