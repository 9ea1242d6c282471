// Pages without their window part in the cold tier: the first part is written, and later the whole page, once a
// sequence has computed the window part again. Reading needs memory for one window only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "cache/tier/file_tier.h"
#include "tests/cache/tier_fixture.h"

namespace ibid {
namespace {

class FileTierWindows : public TierTest {
 protected:
  FileTierWindows() : TierTest(tiny_layout(TinyKind::kWindowed)) {}

  KvCacheEntry fed_in_passes(TokenSpan ids) {
    KvCacheEntry entry(pool_);
    EXPECT_TRUE(feed_in_passes(entry, ids, 20).ok());
    return entry;
  }
  void write(FileTier& tier, const KvCacheEntry& entry) {
    tier.write_behind("", entry);
    const Status status = tier.flush();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  // Writes the sequence after its passed window parts were evicted, so its first four pages have only the first part.
  void write_without(FileTier& tier, TokenSpan ids) {
    const KvCacheEntry entry = fed_in_passes(ids);
    lose_windows(pool_, entry);
    write(tier, entry);
  }
  // Returns a file that has only a first part.
  std::string file_of_first_part() {
    for (const std::string& name : page_files()) {
      const std::string bytes = read_whole_file(directory_ + "/" + name);
      const KvRecordHeader header = *parse_kv_record_header(std::as_bytes(std::span(bytes)));
      if (header.record_bytes == kv_page_record_bytes(layout_, header.n_rows, KvPageParts::kFirst)) return name;
    }
    ADD_FAILURE() << "every file has both parts";
    return {};
  }

  const Tokens ids_ = random_tokens(1, 450);
};

TEST_F(FileTierWindows, StoredSequenceResumesOnlyWhereItsPagesHaveWindowParts) {
  write_without(*open(), ids_);
  const auto tier = open();
  EXPECT_EQ(found(*tier, "", ids_), 450u);
  EXPECT_EQ(found(*tier, "", TokenSpan(ids_).first(200)), 0u);
}

TEST_F(FileTierWindows, WholePageReplacesAPageWithoutItsWindowPart) {
  for (const bool another_process : {false, true}) {
    const Tokens ids = random_tokens(2 + another_process, 450);
    auto tier = open();
    write_without(*tier, ids);
    const size_t n_files = page_files().size();
    if (another_process) tier.reset();
    if (another_process) tier = open();
    EXPECT_EQ(found(*tier, "", TokenSpan(ids).first(200)), 0u);
    const uint64_t bytes_before = tier->stats().bytes;
    write(*tier, fed_in_passes(ids));
    EXPECT_EQ(tier->stats().pages_written, another_process ? 4u : 12u) << "only pages that lacked a part";
    EXPECT_EQ(page_files().size(), n_files);
    EXPECT_EQ(tier->stats().pages, n_files);
    EXPECT_EQ(tier->stats().bytes, bytes_before + 4 * (kv_page_record_bytes(layout_, 64) -
                                                       kv_page_record_bytes(layout_, 64, KvPageParts::kFirst)));
    EXPECT_EQ(found(*tier, "", TokenSpan(ids).first(200)), 200u) << "a sequence can resume there again";
    // Writing a page again with fewer parts changes nothing.
    write_without(*tier, ids);
    EXPECT_EQ(tier->stats().pages_written, another_process ? 4u : 12u);
    EXPECT_EQ(found(*tier, "", TokenSpan(ids).first(200)), 200u);
  }
}

// The page with both parts needs more space, but writing it must not evict the pages that continue it.
TEST_F(FileTierWindows, RewritingAPageDoesNotEvictLaterPagesOfTheSequence) {
  const Tokens ids = random_tokens(5, 640), other = random_tokens(6, 320);
  const auto tier = open(options(14));
  write_without(*tier, ids);
  write(*tier, fed_in_passes(other));
  EXPECT_EQ(tier->stats().evicted, 0u);
  write(*tier, fed_in_passes(ids));
  EXPECT_GT(tier->stats().evicted, 0u);
  EXPECT_EQ(found(*tier, "", ids), ids.size());
  EXPECT_EQ(found(*tier, "", TokenSpan(ids).first(200)), 200u);
}

TEST_F(FileTierWindows, DamagedPageWithoutWindowPartIsQuarantined) {
  write_without(*open(), ids_);
  const std::string name = file_of_first_part();
  const std::string sound = read_whole_file(directory_ + "/" + name);
  const size_t n_front = parse_kv_record_header(std::as_bytes(std::span(sound)))->first_position;
  std::mt19937_64 rng(2);
  for (int i = 0; i < 300; ++i) {
    const size_t bit = i < 128 ? static_cast<size_t>(i) * 8 + rng() % 8 : rng() % (8 * sound.size());
    std::string bytes = sound;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    std::ofstream(directory_ + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
    const auto tier = open();
    ASSERT_LE(found(*tier, "", ids_), n_front) << bit;
    ASSERT_LE(found(*tier, "", ids_), n_front) << bit;
    write(*tier, fed_in_passes(ids_));  // and it can be written again
    ASSERT_EQ(found(*tier, "", ids_), ids_.size()) << bit;
  }
}

TEST_F(FileTierWindows, FilesOfWrongLengthWithoutWindowPartAreMisses) {
  write_without(*open(), ids_);
  const std::string name = file_of_first_part();
  const std::string sound = read_whole_file(directory_ + "/" + name);
  const size_t n_front = parse_kv_record_header(std::as_bytes(std::span(sound)))->first_position;
  for (const size_t n : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{300}, sound.size() - 1,
                         sound.size() + 1, 2 * sound.size(), kv_page_record_bytes(layout_, 64)}) {
    for (const bool while_open : {false, true}) {
      std::ofstream(directory_ + "/" + name, std::ios::binary | std::ios::trunc) << sound;
      auto tier = while_open ? open() : nullptr;
      std::string bytes = sound;
      bytes.resize(n);
      std::ofstream(directory_ + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
      if (!while_open) tier = open();
      ASSERT_LE(found(*tier, "", ids_), n_front) << n;
      ASSERT_EQ(tier->stats().quarantined, 1u) << n;
    }
  }
}

TEST_F(FileTierWindows, ReadingALongSequenceNeedsMemoryForOneWindow) {
  const Tokens ids = random_tokens(7, 5000);
  {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed_in_passes(entry, ids, 200).ok());
    write(*open(), entry);
  }
  // Memory for all first parts (the window layer has a third of a page's bytes) and for eight window parts.
  KvPagePool small(layout_, KvLayout::pages_for(ids.size()) * layout_.part_bytes(PagePart::kAll) +
                                8 * layout_.part_bytes(PagePart::kWindow));
  ASSERT_LT(small.budget_pages(), KvLayout::pages_for(ids.size()) * 2 / 3);
  const auto tier = FileTier::open(options(), small, *files_, *clock_);
  ASSERT_TRUE(tier.ok()) << tier.status().to_string();
  KvCacheEntry entry(small);
  EXPECT_EQ((*tier)->extend("", ids, entry), ids.size());
  EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids));
}

// Writing a page is not a use of it: passed window parts are evicted in the order in which sequences passed them.
TEST_F(FileTierWindows, WritingToDiskDoesNotChangeTheEvictionOrderOfWindowParts) {
  KvPagePool pool(layout_, 16 * layout_.page_bytes());
  const auto tier = FileTier::open(options(), pool, *files_, *clock_);
  ASSERT_TRUE(tier.ok());
  KvCacheEntry old(pool), young(pool);
  ASSERT_TRUE(feed_in_passes(old, ids_, 20).ok());
  ASSERT_TRUE(feed_in_passes(young, random_tokens(3, 450), 20).ok());
  ASSERT_EQ(pool.bytes_in_use(), pool.budget_bytes());
  (*tier)->write_behind("", old);
  ASSERT_TRUE((*tier)->flush().ok());
  ASSERT_EQ((*tier)->stats().pages_written, 8u);
  const Result<KvPage> page = pool.allocate();
  ASSERT_TRUE(page.ok()) << page.status().to_string();
  EXPECT_FALSE(pool.has_window(old.pages()[0]));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(pool.has_window(young.pages()[i])) << i;
}

}  // namespace
}  // namespace ibid
