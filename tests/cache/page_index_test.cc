#include "cache/tier/page_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

using testing::UnorderedElementsAre;

PageName name(int i) {
  PageName name;
  name.bytes[0] = static_cast<std::byte>(i);
  return name;
}

StoredRecord page(const std::string& file, int before, int end, Tokens ids, int64_t used_ns,
                  size_t first_position = 0) {
  const bool is_known = !ids.empty();
  return {.file_name = file,
          .before = name(before),
          .name = name(end),
          .first_position = first_position,
          .ids = std::move(ids),
          .is_known = is_known,
          .bytes = 10,
          .last_use_ns = used_ns};
}

TEST(PageIndex, FindsThePageWithTheLongestCommonPrefix) {
  PageIndex index;
  index.insert(page("a", 0, 1, {1, 2, 3}, 1));
  index.insert(page("b", 0, 2, {1, 2, 4, 5}, 2));
  index.insert(page("c", 9, 3, {1, 2, 4, 5, 6}, 3));
  EXPECT_EQ(index.best_match(name(0), Tokens{1, 2, 4, 9}).file_name, "b");
  EXPECT_EQ(index.best_match(name(0), Tokens{1, 2, 4, 9}).n_rows, 3u);
  EXPECT_EQ(index.best_match(name(0), Tokens{1, 2, 4, 9}).n_page_ids, 4u);
  EXPECT_EQ(index.best_match(name(0), Tokens{7}).n_rows, 0u);
  EXPECT_EQ(index.best_match(name(5), Tokens{1}).n_rows, 0u);
  EXPECT_TRUE(index.has(name(0), Tokens{1, 2, 3}));
  EXPECT_TRUE(index.has(name(0), Tokens{1, 2}));
  EXPECT_FALSE(index.has(name(0), Tokens{1, 2, 4, 5, 6}));
  EXPECT_EQ(index.bytes(), 30u);
}

TEST(PageIndex, OldestIsTheLeastRecentlyUsedPageWithoutContinuation) {
  PageIndex index;
  index.insert(page("head", 0, 1, {1}, 1));
  index.insert(page("tail", 1, 2, {2}, 5, 64));
  index.insert(page("other", 0, 3, {3}, 3));
  EXPECT_EQ(index.oldest(), "other");
  index.erase("other");
  EXPECT_EQ(index.oldest(), "tail");
  index.erase("tail");
  EXPECT_EQ(index.oldest(), "head");
  index.erase("head");
  EXPECT_EQ(index.oldest(), std::nullopt);
  EXPECT_EQ(index.pages(), 0u);
  EXPECT_EQ(index.bytes(), 0u);
}

TEST(PageIndex, UseTimesIncreaseAlthoughTheClockJumpsBack) {
  PageIndex index;
  index.insert(page("a", 0, 1, {1}, 100));
  index.insert(page("b", 0, 2, {2}, 200));
  EXPECT_EQ(index.next_use_ns(50), 201);
  EXPECT_EQ(index.touch("a", 50), 201);
  EXPECT_EQ(index.oldest(), "b");
  EXPECT_EQ(index.touch("b", 1000), 1000);
  EXPECT_EQ(index.oldest(), "a");
  EXPECT_EQ(index.touch("nobody", 5), 1001);
}

TEST(PageIndex, PageReplacesItsNamesakeAndSupersedesItsPrefixes) {
  PageIndex index;
  index.insert(page("a", 0, 1, {1, 2}, 1));
  index.insert(page("a", 0, 1, {1, 2}, 2));
  EXPECT_EQ(index.pages(), 1u);
  index.insert(page("b", 0, 2, {1}, 3));
  index.insert(page("c", 0, 3, {1, 9}, 4));
  EXPECT_THAT(index.files_superseded_by(name(0), Tokens{1, 2, 3}), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(index.files_of(Sha256Digest{}), UnorderedElementsAre("a", "b", "c"));
  EXPECT_TRUE(index.has_file("c"));
  index.erase("c");
  EXPECT_FALSE(index.has_file("c"));
}

TEST(PageIndex, PagesWithoutTokensAreEvictedButNeverFound) {
  PageIndex index;
  index.insert(page("foreign", 0, 1, {}, 1));
  EXPECT_EQ(index.best_match(name(0), Tokens{1}).n_rows, 0u);
  EXPECT_EQ(index.oldest(), "foreign");
}

}  // namespace
}  // namespace ibid
