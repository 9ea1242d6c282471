// Fixture for the tests of the cold tier: small sequences, a directory, and a check of lookups, which must add exactly
// what a pass would have computed.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_ops.h"
#include "cache/tier/file_tier.h"
#include "tests/cache/nan_page_pool.h"
#include "tests/cache/tiny_kv.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_dir.h"

namespace ibid {

inline Fingerprint fingerprint_of(std::string_view what) { return FingerprintBuilder().add("test", what).finish(); }

// The text of a record whose last token is the last of `ids`, and which begins with a page or with the page of a state
// at `position`.
inline KvRecordText text_of(const KvPageIdentity& identity, TokenSpan ids, size_t position) {
  const TextName before = PageNamer(first_half).before_page(identity, ids.first(position));
  return before.followed_by(ids.subspan(before.length));
}
inline KvRecordText text_of(const KvPageIdentity& identity, TokenSpan ids) {
  return text_of(identity, ids, ids.empty() ? 0 : ids.size() - 1);
}

class TierTest : public testing::Test {
 protected:
  explicit TierTest(KvDType dtype = KvDType::kF32) : TierTest(tiny_layout(dtype)) {}
  explicit TierTest(KvLayout layout) : layout_(std::move(layout)), pool_(layout_, 256 * layout_.page_bytes()) {}

  FileTierOptions options(uint64_t budget_pages = 1000) const {
    return {.directory = directory_,
            .fingerprint = fingerprint_of("model"),
            .budget_bytes = budget_pages * record_bytes_,
            .durable = durable_};
  }
  std::unique_ptr<FileTier> open(const FileTierOptions& wanted, PageNameRule name_rule = first_half) {
    Result<std::unique_ptr<FileTier>> tier = FileTier::open(wanted, pool_, *files_, *clock_, nullptr, name_rule);
    EXPECT_TRUE(tier.ok()) << tier.status().to_string();
    return tier.ok() ? *std::move(tier) : nullptr;
  }
  std::unique_ptr<FileTier> open() { return open(options()); }

  KvCacheEntry fed(TokenSpan ids) {
    KvCacheEntry entry(pool_);
    EXPECT_TRUE(feed(entry, ids).ok());
    return entry;
  }
  void write(FileTier& tier, std::string_view name_space, TokenSpan ids) {
    tier.write_behind(name_space, fed(ids));
    const Status status = tier.flush();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  // Returns how many of `ids` are found after the first `known`; checks that KV and states are those of the tokens.
  size_t found(FileTier& tier, std::string_view name_space, TokenSpan ids, size_t known = 0) {
    KvCacheEntry entry = fed(ids.first(known));
    const size_t n = tier.extend(name_space, ids, entry);
    EXPECT_EQ(entry.length(), known + n);
    EXPECT_THAT(entry.tokens(), testing::ElementsAreArray(ids.first(known + n)));
    EXPECT_EQ(read_rows(entry), fresh_rows(layout_, ids.first(known + n))) << "rows of another text";
    EXPECT_EQ(read_states(entry), fresh_states(layout_, ids.first(known + n))) << "a state of another text";
    return n;
  }
  std::vector<std::string> state_files() {
    std::vector<std::string> names = *files_->list(directory_);
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".state"); });
    return names;
  }
  std::vector<std::string> page_files() {
    std::vector<std::string> names = *files_->list(directory_);
    std::erase_if(names, [](const std::string& name) { return !name.ends_with(".kv"); });
    return names;
  }

  const KvLayout layout_;
  NanPagePool pool_;
  const TempDir dir_;
  std::string directory_ = dir_.file("tier");
  bool durable_ = false;  // syncing is slow, and makes a difference only at a power loss
  FileOps* files_ = &system_file_ops();
  ManualClock manual_clock_{1'700'000'000'000'000'000};
  Clock* clock_ = &manual_clock_;
  // At least the size of any page in these tests, and less than that of two.
  const uint64_t record_bytes_ = kv_page_record_bytes(layout_, kPagePositions);
};

}  // namespace ibid
