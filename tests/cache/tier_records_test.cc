// The single records of a directory, as an audit sees them: their texts, their bits, and what is removed with a wrong
// one.
#include "cache/tier/tier_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cache/tier/record_tree.h"
#include "tests/cache/tier_fixture.h"

namespace ibid {
namespace {

class TierRecordsTest : public TierTest, public testing::WithParamInterface<TinyKind> {
 protected:
  TierRecordsTest() : TierTest(tiny_layout(GetParam())) {}

  // Writes a sequence that was computed in passes of 50 tokens, with the states after each pass.
  void write_passes(FileTier& tier, std::string_view name_space, TokenSpan ids) {
    KvCacheEntry entry(pool_);
    for (size_t n = 0; n < ids.size(); n += 50) {
      EXPECT_TRUE(feed(entry, ids.subspan(n, std::min<size_t>(50, ids.size() - n))).ok());
      if (entry.length() < ids.size()) entry.state().keep_here(entry.length());
    }
    tier.write_behind(name_space, entry);
    const Status status = tier.flush();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  std::map<std::string, std::filesystem::file_time_type> times() const {
    std::map<std::string, std::filesystem::file_time_type> times;
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      times[file.path().filename()] = file.last_write_time();
    }
    return times;
  }
  FileTierOptions written_by(std::byte writer) const {
    FileTierOptions with = options();
    with.writer.fill(writer);
    return with;
  }
  bool has_states() const { return layout_.n_states() > 0; }
  TierRecord page_of(const Tokens& ids, size_t begin, size_t end, std::string_view name_space = "") const {
    return {{KvRecordKind::kPage, begin, end}, digest_of_namespace(name_space), std::make_shared<const Tokens>(ids)};
  }

  const Tokens ids_ = random_tokens(1, 200);
};

TEST_P(TierRecordsTest, ListHasTheTextOfEveryRecord) {
  const auto tier = open();
  const Tokens other = concat(TokenSpan(ids_).first(100), random_tokens(2, 60)), apart = random_tokens(3, 130);
  write_passes(*tier, "", ids_);
  write_passes(*tier, "", other);
  write_passes(*tier, kAlice, apart);
  const RecordList list = *tier->records()->list();
  EXPECT_EQ(list.tree.n_pages(), 4u + 2u + 3u);
  EXPECT_EQ(list.tree.size(), tier->stats().pages + tier->stats().states);
  EXPECT_EQ(list.n_orphans + list.n_of_others, 0u);
  std::vector<Tokens> texts;
  for (size_t i = 0; i < list.tree.size(); ++i) {
    const TierRecord record = list.tree.at(i);
    const bool is_alices = record.name_space == digest_of_namespace(kAlice);
    const Tokens text(record.ids().begin(), record.ids().end());
    const auto begins = [&](const Tokens& all) { return std::equal(text.begin(), text.end(), all.begin()); };
    EXPECT_TRUE(is_alices ? begins(apart) : begins(ids_) || begins(other)) << i;
    if (record.kind == KvRecordKind::kState) {
      EXPECT_TRUE(tier->records()->read_state(record).ok()) << i;
      continue;
    }
    EXPECT_TRUE(tier->records()->read_page(record).ok()) << i;
    const Tokens before(text.begin(), text.begin() + static_cast<ptrdiff_t>(record.first_position));
    EXPECT_TRUE(before.empty() || std::ranges::find(texts, before) != texts.end()) << "after the pages before it";
    texts.push_back(text);
  }
}

TEST_P(TierRecordsTest, RecordsWithoutTextAreCounted) {
  write_passes(*open(), "", ids_);
  {
    FileTierOptions of_other = options();
    of_other.fingerprint = fingerprint_of("another model");
    write_passes(*open(of_other), "", random_tokens(4, 70));
  }
  {
    const auto tier = open();
    const RecordList list = *tier->records()->list();
    EXPECT_EQ(list.tree.n_pages(), 4u);
    EXPECT_EQ(list.n_of_others, tier->stats().pages + tier->stats().states - list.tree.size());
    EXPECT_GE(list.n_of_others, 2u);
    EXPECT_EQ(list.n_orphans, 0u);
  }
  const PageName before =
      PageNamer(first_half)
          .before_page({fingerprint_of("model"), digest_of_namespace("")}, TokenSpan(ids_).first(64))
          .name;
  for (const std::string& name : page_files()) {
    if (parse_record_file_name(name)->before == before) {
      ASSERT_TRUE(files_->remove(directory_ + "/" + name).ok());
    }
  }
  const RecordList list = *open()->records()->list();
  EXPECT_EQ(list.tree.n_pages(), 1u);
  EXPECT_GE(list.n_orphans, 2u) << "the two pages after the one that is missing";
}

TEST_P(TierRecordsTest, ReadPageHasTheBitsOfThePage) {
  const auto tier = open();
  write_passes(*tier, "", ids_);
  const KvCacheEntry fresh = fed(ids_);
  for (size_t begin = 0; begin + kPagePositions <= ids_.size(); begin += kPagePositions) {
    const Result<KvPage> page = tier->records()->read_page(page_of(ids_, begin, begin + kPagePositions));
    ASSERT_TRUE(page.ok()) << page.status().to_string();
    for (const KvLayer& layer : layout_.layers()) {
      const PageMemory computed = fresh.parts(begin / kPagePositions);
      if (layer.part == PagePart::kWindow && (page->parts().window == nullptr || computed.window == nullptr)) continue;
      EXPECT_EQ(std::memcmp(page->parts().layer(layer), computed.layer(layer), layer.bytes()), 0) << begin;
    }
  }
  EXPECT_EQ(tier->records()->read_page(page_of(ids_, 64, 120)).status().code(), ErrorCode::kNotFound);
}

TEST_P(TierRecordsTest, AuditIsNoUse) {
  const auto tier = open();
  write_passes(*tier, "", ids_);
  const auto before = times();
  manual_clock_.advance(1'000'000'000);
  KvCacheEntry entry(pool_);
  std::vector<RecordRange> used;
  EXPECT_GT(tier->records()->extend(digest_of_namespace(""), ids_, entry, used), 0u);
  EXPECT_EQ(used.size(), has_states() ? 5u : 4u);
  EXPECT_TRUE(tier->records()->read_page(page_of(ids_, 0, 64)).ok());
  EXPECT_EQ(times(), before);
  EXPECT_EQ(tier->stats().hits + tier->stats().misses + tier->stats().pages_read + tier->stats().states_read, 0u);
}

TEST_P(TierRecordsTest, LookUpReportsTheRecordsThatItUsedWhole) {
  const auto tier = open();
  write_passes(*tier, "", ids_);
  std::vector<RecordRange> used;
  KvCacheEntry entry = fed(TokenSpan(ids_).first(70));
  const Tokens wanted = concat(TokenSpan(ids_).first(150), random_tokens(9, 40));
  EXPECT_EQ(tier->extend("", wanted, entry, ReadLimits{.used = &used}), 80u);
  std::vector<std::pair<size_t, size_t>> pages, states;
  for (const RecordRange& range : used) {
    (range.kind == KvRecordKind::kPage ? pages : states).emplace_back(range.first_position, range.n_tokens);
  }
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(pages, ElementsAre(Pair(64, 128))) << "of the last page only the first tokens are wanted";
  if (has_states()) {
    EXPECT_THAT(states, ElementsAre(Pair(150, 150)));
  }
}

TEST_P(TierRecordsTest, RemoveWrongRemovesWhatMayBeComputedFromIt) {
  const Tokens branch = concat(TokenSpan(ids_).first(64), random_tokens(2, 80)), apart = random_tokens(3, 130);
  {
    const auto tier = open(written_by(std::byte{7}));
    write_passes(*tier, "", ids_);
  }
  const auto tier = open(written_by(std::byte{8}));
  write_passes(*tier, "", branch);
  write_passes(*tier, "", apart);
  write_passes(*tier, kAlice, ids_);
  const size_t n_before = tier->stats().pages + tier->stats().states;
  const Result<TierRecords::Removed> removed = tier->records()->remove_wrong(page_of(ids_, 64, 128));
  ASSERT_TRUE(removed.ok()) << removed.status().to_string();
  KvWriterId writer;
  writer.fill(std::byte{7});
  EXPECT_EQ(removed->writer, writer);
  EXPECT_EQ(removed->n_followers, has_states() ? 2u + 3u : 2u) << "pages, and states after 100, 150 and 200 tokens";
  EXPECT_EQ(tier->stats().pages + tier->stats().states, n_before - 1 - removed->n_followers);
  EXPECT_EQ(tier->stats().quarantined, 1u);
  EXPECT_TRUE(std::filesystem::exists(directory_ + "/quarantine/" + removed->name));
  EXPECT_EQ(found(*tier, "", ids_), has_states() ? 50u : 64u);
  EXPECT_EQ(found(*tier, "", branch), branch.size());
  EXPECT_EQ(found(*tier, "", apart), apart.size());
  EXPECT_EQ(found(*tier, kAlice, ids_), ids_.size());
  // A second audit may have found the same record.
  EXPECT_EQ(tier->records()->remove_wrong(page_of(ids_, 64, 128))->n_followers, 0u);
  EXPECT_EQ(tier->stats().quarantined, 1u);
}

TEST_P(TierRecordsTest, RemoveWrongDropsQueuedWritesOfTheNamespace) {
  const auto tier = open();
  write_passes(*tier, "", TokenSpan(ids_).first(130));
  const KvCacheEntry more = fed(ids_);
  tier->write_behind("", more);
  ASSERT_TRUE(tier->records()->remove_wrong(page_of(ids_, 64, 128)).ok());
  ASSERT_TRUE(tier->flush().ok());
  EXPECT_LE(found(*tier, "", ids_), 64u);
}

// A turn that read the page before it was removed has its rows, and would store them again.
TEST_P(TierRecordsTest, RemovedRecordIsStoredAgainOnlyByALaterProcess) {
  {
    const auto tier = open();
    write_passes(*tier, "", ids_);
    ASSERT_TRUE(tier->records()->remove_wrong(page_of(ids_, 64, 128)).ok());
    tier->write_behind("", fed(ids_));
    EXPECT_EQ(tier->flush().code(), ErrorCode::kLimitExceeded);
    EXPECT_EQ(tier->records()->read_page(page_of(ids_, 64, 128)).status().code(), ErrorCode::kNotFound);
    EXPECT_TRUE(tier->stats().disabled_reason.empty()) << "other records are written";
  }
  const auto tier = open();
  write_passes(*tier, "", ids_);
  EXPECT_EQ(found(*tier, "", ids_), ids_.size());
}

std::string kind_name(const testing::TestParamInfo<TinyKind>& test) {
  constexpr const char* kNames[] = {"Plain", "Recurrent", "Windowed", "WindowedRecurrent"};
  return kNames[static_cast<size_t>(test.param)];
}

INSTANTIATE_TEST_SUITE_P(All, TierRecordsTest, testing::ValuesIn(kEveryTinyKind), kind_name);

}  // namespace
}  // namespace ibid
