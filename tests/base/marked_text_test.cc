#include "base/marked_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ibid {
namespace {

std::string spelled(const MarkedText& text) {
  std::string out;
  for (const auto [bytes, origin] : text.runs()) {
    out += origin == TextOrigin::kInput ? "[" + std::string(bytes) + "]" : std::string(bytes);
  }
  return out;
}

// Compares bytes and the origin of every byte.
void expect_part(const MarkedText& part, const MarkedText& whole, size_t begin, size_t end) {
  ASSERT_EQ(part.bytes(), whole.bytes().substr(begin, end - begin));
  for (size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part.origin_at(i), whole.origin_at(begin + i));
}

TEST(MarkedText, AdjacentTextsOfOneOriginFormOneRun) {
  MarkedText text;
  text.append("a", TextOrigin::kTemplate);
  text.append("", TextOrigin::kInput);
  text.append("b", TextOrigin::kTemplate);
  text.append("c", TextOrigin::kInput);
  EXPECT_EQ(text.runs().size(), 2u);
  EXPECT_EQ(spelled(text), "ab[c]");
  EXPECT_EQ(text.size(), 3u);
  text.append(text);
  EXPECT_EQ(spelled(text), "ab[c]ab[c]");
}

TEST(MarkedText, SubstringsKeepTheirOrigins) {
  MarkedText whole("ab", TextOrigin::kTemplate);
  whole.append("cde", TextOrigin::kInput);
  whole.append("f", TextOrigin::kTemplate);
  for (size_t begin = 0; begin <= whole.size(); ++begin) {
    for (size_t end = begin; end <= whole.size(); ++end) {
      expect_part(whole.substr(begin, end), whole, begin, end);
      MarkedText appended;
      appended.append(whole, begin, end);
      expect_part(appended, whole, begin, end);
      EXPECT_EQ(spelled(appended), spelled(whole.substr(begin, end)));
    }
    MarkedText rest = whole;
    rest.remove_prefix(begin);
    expect_part(rest, whole, begin, whole.size());
    EXPECT_EQ(spelled(rest), spelled(whole.substr(begin, whole.size())));
  }
  MarkedText beyond;
  beyond.append(whole, 4);
  EXPECT_EQ(spelled(beyond), "[e]f");
}

TEST(MarkedText, EmptiedTextGetsTheOriginOfTheNextAppend) {
  MarkedText text("ab", TextOrigin::kInput);
  text.remove_prefix(2);
  EXPECT_EQ(text.runs().size(), 0u);
  text.append("x", TextOrigin::kTemplate);
  EXPECT_EQ(spelled(text), "x");
}

TEST(MarkedText, SafeOriginOfTextWithAnyInputByteIsInput) {
  MarkedText text("ab", TextOrigin::kTemplate);
  text.append("cd", TextOrigin::kInput);
  EXPECT_EQ(text.substr(0, 2).safe_origin(), TextOrigin::kTemplate);
  EXPECT_EQ(text.substr(1, 3).safe_origin(), TextOrigin::kInput);
  EXPECT_EQ(text.substr(2, 4).safe_origin(), TextOrigin::kInput);
  EXPECT_EQ(text.substr(1, 1).safe_origin(), TextOrigin::kTemplate);
}

}  // namespace
}  // namespace ibid
