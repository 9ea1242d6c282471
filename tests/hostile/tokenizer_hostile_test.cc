// Tokenizer tables that fuzzers found (tests/fuzz).
#include <gtest/gtest.h>

#include <string>

#include "tests/hostile/hostile.h"
#include "tokenizer/normalizer.h"

namespace ibid {
namespace {

// A table without entries has nothing to copy, and no memory to copy from.
TEST(HostileTokenizer, CharsmapWithoutEntriesChangesNoText) {
  const auto map = Charsmap::parse(Bytes().put(uint32_t{0}).text());
  ASSERT_TRUE(map.has_value());
  map->apply("any text", [](size_t, size_t, std::string_view) { FAIL() << "nothing is rewritten"; });
  EXPECT_EQ(map->stable_prefix(""), 0u);
}

TEST(HostileTokenizer, CharsmapWithWrongLengthIsRefused) {
  EXPECT_FALSE(Charsmap::parse(Bytes().put(uint32_t{8}).put(uint32_t{0}).text()).has_value());
  EXPECT_FALSE(Charsmap::parse(Bytes().put(uint32_t{0xFFFFFFFC}).text()).has_value());
  EXPECT_FALSE(Charsmap::parse(Bytes().put(uint32_t{3}).raw("abc").text()).has_value());
}

}  // namespace
}  // namespace ibid
