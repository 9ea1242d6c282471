#include "apps/chat/turn_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;

Result<std::string> join(const Question& question, std::optional<std::string> input) {
  std::istringstream stream(input.value_or(""));
  return join_question(question, input ? &stream : nullptr, stream);
}

TEST(JoinQuestion, JoinsFilesThenStandardInputThenWords) {
  const TempDir dir;
  const std::string a = dir.write("a", "first\n"), b = dir.write("b", "second\r\n\n");
  EXPECT_EQ(*join({{"What", "is", "this?"}, {a, b}}, "piped\n"), "first\n\nsecond\n\npiped\n\nWhat is this?");
  EXPECT_EQ(*join({{"What", "is", "this?"}, {}}, std::nullopt), "What is this?");
  EXPECT_EQ(*join({{"Why?"}, {}}, ""), "Why?");
  EXPECT_EQ(*join({{}, {}}, "two\nlines\n"), "two\nlines");
  EXPECT_EQ(*join({{}, {a}}, std::nullopt), "first");
}

TEST(JoinQuestion, DashMarksThePlaceOfStandardInput) {
  const TempDir dir;
  const std::string a = dir.write("a", "file");
  EXPECT_EQ(*join({{"-"}, {}}, "What is 2+2?\n"), "What is 2+2?");
  EXPECT_EQ(*join({{"Say", "of", "-", "in", "a", "line"}, {}}, "it\n"), "Say of\n\nit\n\nin a line");
  EXPECT_EQ(*join({{"Compare"}, {"-", a}}, "piped"), "piped\n\nfile\n\nCompare");
  EXPECT_EQ(join({{"-", "-"}, {}}, "x").status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(join({{"-"}, {"-"}}, "x").status().code(), ErrorCode::kInvalidArgument);
}

TEST(JoinQuestion, EmptyTextAndInvalidUtf8AreErrors) {
  const TempDir dir;
  for (const char* empty : {"", "\n", " \n\t\n"}) {
    EXPECT_THAT(join({{"-"}, {}}, empty).status().message(), HasSubstr("nothing to answer")) << empty;
  }
  EXPECT_EQ(join({{""}, {}}, std::nullopt).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(join({{"Why?"}, {}}, "\xff\xfe").status().message(), HasSubstr("standard input is not UTF-8"));
  EXPECT_THAT(join({{"Why?"}, {dir.write("bad", "\xc3")}}, {}).status().message(), HasSubstr("bad is not UTF-8"));
  EXPECT_THAT(join({{"Why?"}, {dir.file("none")}}, {}).status().message(), HasSubstr("does not exist"));
}

}  // namespace
}  // namespace ibid
