#include "weights/model_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the parsed text, printed again; or the error message.
std::string read(std::string_view text, const JsonLimits& limits = {}) {
  const Result<Json> json = parse_model_json(text, "config.json", limits);
  return json.ok() ? json_to_string(*json) : json.status().message();
}

ErrorCode code_of(std::string_view text) { return parse_model_json(text, "config.json").status().code(); }

TEST(ModelJson, InfinityAndNanBecomeFloatObjects) {
  EXPECT_EQ(read(R"({"limit": [0.0, Infinity], "low":-Infinity,"odd"  :  NaN  , "n": 1})"),
            R"({"limit":[0.0,{"__float__":"Infinity"}],"low":{"__float__":"-Infinity"},)"
            R"("odd":{"__float__":"NaN"},"n":1})");
  EXPECT_EQ(read("[Infinity,\n-Infinity\t,\rNaN\n]"), read(R"([{"__float__": "Infinity"}, {"__float__": "-Infinity"},
                                                               {"__float__": "NaN"}])"));
}

TEST(ModelJson, TextWithoutInfinityAndNanIsParsedAsPlainJson) {
  for (const char* text :
       {"{}", "[]", "1", R"({"a": [1, 2.5, true, null, "x"]})",
        R"(["Infinity", "-Infinity", "NaN", " :Infinity, ", ",\" , NaN ,", "\\", {"NaN": "\\\\"}])"}) {
    EXPECT_EQ(*parse_model_json(text, "config.json"), *parse_json(text, "config.json")) << text;
  }
}

TEST(ModelJson, InfinityAndNanAreAcceptedOnlyAsWholeValues) {
  for (const char* text : {"Infinity",
                           " NaN ",
                           "[infinity]",
                           "[INFINITY]",
                           "[nan]",
                           "[Inf]",
                           "[+Infinity]",
                           "[- Infinity]",
                           "[-NaN]",
                           "[Infinity1]",
                           "[1Infinity]",
                           "[Infinityx]",
                           "[NaNNaN]",
                           "[NaN NaN]",
                           "[Infinity-Infinity]",
                           "[NaN\"\"]",
                           "[NaN.]",
                           "[NaN//]",
                           "[\"\"NaN]",
                           "[1 NaN]",
                           "{NaN: 1}",
                           "{\"a\": 1, NaN: 1}",
                           "{NaN}",
                           "[NaN",
                           "[,NaN]",
                           "[NaN,]",
                           "{\"a\" NaN}",
                           "[NaN]]",
                           "[Infinit",
                           "[-",
                           "[NaN\xC2\xA0]",
                           "[\"NaN, NaN]",
                           "[NaN\v]"}) {
    EXPECT_EQ(code_of(text), ErrorCode::kBadHeader) << text;
  }
  EXPECT_EQ(code_of(std::string_view("[NaN]\0", 6)), ErrorCode::kBadHeader);
}

TEST(ModelJson, ErrorsNameTheByteOfTheOriginalText) {
  EXPECT_THAT(read("[-Infinity, NaN, tru]"), StartsWith("config.json: not valid JSON at byte 21: "));
  EXPECT_EQ(code_of("[NaN, 1e400]"), ErrorCode::kBadNumber);
  EXPECT_EQ(code_of(R"({"a": NaN, "a": 1})"), ErrorCode::kDuplicate);
  EXPECT_THAT(read("[[NaN]]", {.max_depth = 1}), HasSubstr("nested deeper"));
  EXPECT_THAT(read("[NaN,  1]", {.max_bytes = 8}), HasSubstr("at most 8 are allowed"));
}

TEST(ModelJson, NumberOfInfinitiesAndNansIsLimited) {
  std::string text = "[NaN";
  for (size_t i = 1; i < kMaxNonFiniteWords; ++i) text += ",NaN";
  EXPECT_EQ(code_of(text + "]"), ErrorCode::kOk);
  EXPECT_EQ(code_of(text + ",NaN]"), ErrorCode::kLimitExceeded);
  EXPECT_EQ(code_of(text + ",\"NaN\"]"), ErrorCode::kOk);
}

TEST(ModelJson, PlainJsonParserRefusesInfinityAndNan) {
  EXPECT_EQ(parse_json("[Infinity]", "x").status().code(), ErrorCode::kBadHeader);
  EXPECT_EQ(parse_json("{\"a\": NaN}", "x").status().code(), ErrorCode::kBadHeader);
}

TEST(ModelJson, NonFiniteFloatsAreReadFromBothForms) {
  const Json root = *parse_model_json(
      R"({"limit": [0.5, Infinity], "low": -Infinity, "odd": NaN, "new": [1, {"__float__": "Infinity"}],
          "two": {"__float__": "NaN", "x": 1}, "other": {"__float__": "1.5"}, "number": {"__float__": 1}})",
      "config.json");
  const JsonValues values(&root, "config.json");
  EXPECT_THAT(**values.get_floats("limit"), testing::ElementsAre(0.5, kInfinity));
  EXPECT_THAT(**values.get_floats("new"), testing::ElementsAre(1, kInfinity));
  EXPECT_EQ(**values.get_float("low"), -kInfinity);
  EXPECT_TRUE(std::isnan(**values.get_float("odd")));
  for (const char* key : {"two", "other", "number"}) {
    EXPECT_EQ(values.get_float(key).status().code(), ErrorCode::kBadType) << key;
  }
  // Integers cannot be infinite.
  EXPECT_EQ(values.get_int("low").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(values.get_ints("new").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(values.get_string("odd").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(values.get_bool("odd").status().code(), ErrorCode::kBadType);
}

}  // namespace
}  // namespace ibid
