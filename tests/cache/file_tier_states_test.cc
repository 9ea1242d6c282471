// Recurrent states in the cold tier: a sequence resumes at the deepest state whose pages are stored, and never from a
// state that differs from what was written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/token_prefix.h"
#include "cache/tier/file_tier.h"
#include "tests/cache/tier_fixture.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

class FileTierStates : public TierTest {
 protected:
  FileTierStates() : TierTest(tiny_recurrent_layout(KvDType::kF32)) {}

  // Returns an entry as after a turn: it keeps the state before the last n_rows tokens of the prompt, with these rows;
  // then n_reply tokens are decoded one by one.
  KvCacheEntry turn(TokenSpan ids, size_t n_rows, size_t n_reply) {
    KvCacheEntry entry(pool_);
    const size_t n_prompt = ids.size() - n_reply;
    if (n_prompt > n_rows) {
      EXPECT_TRUE(feed(entry, ids.first(n_prompt - n_rows)).ok());
    }
    EXPECT_TRUE(feed(entry, ids.subspan(n_prompt - n_rows, n_rows)).ok());
    entry.state().keep_last_pass(n_prompt);
    for (size_t i = n_prompt; i < ids.size(); ++i) EXPECT_TRUE(feed(entry, ids.subspan(i, 1)).ok());
    return entry;
  }
  void write(FileTier& tier, std::string_view name_space, const KvCacheEntry& entry) {
    tier.write_behind(name_space, entry);
    const Status status = tier.flush();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  std::string read_file_of(const std::string& name) { return *read_file(*files_, directory_ + "/" + name, 1u << 20); }
  void overwrite(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(write_file_atomically(*files_, directory_ + "/" + name, std::as_bytes(std::span(bytes))).ok());
  }
  KvRecordHeader header_of(const std::string& name) {
    const std::string bytes = read_file_of(name);
    return *parse_kv_record_header(std::as_bytes(std::span(bytes)));
  }

  const Tokens ids_ = random_tokens(1, 150);
};

TEST_F(FileTierStates, StatesAreFoundByTheNextProcess) {
  write(*open(), "", turn(ids_, 20, 30));
  const auto tier = open();
  EXPECT_EQ(tier->stats().states, 2u);
  EXPECT_EQ(found(*tier, "", ids_), 150u);
  EXPECT_EQ(found(*tier, "", concat(ids_, random_tokens(2, 9))), 150u);
  EXPECT_EQ(found(*tier, "", TokenSpan(ids_).first(149)), 120u) << "the end of the prompt";
  for (const size_t n : {101u, 110u, 120u}) {
    EXPECT_EQ(found(*tier, "", TokenSpan(ids_).first(n)), n) << "any row of the last pass of the prompt";
    EXPECT_EQ(found(*tier, "", concat(TokenSpan(ids_).first(n), random_tokens(3, 40))), n);
  }
  EXPECT_EQ(found(*tier, "", TokenSpan(ids_).first(100)), 100u);
  EXPECT_EQ(found(*tier, "", TokenSpan(ids_).first(99)), 0u);
  EXPECT_EQ(found(*tier, "", ids_, 130), 20u) << "after the known prefix";
  EXPECT_EQ(found(*tier, "", ids_, 150), 0u);
  EXPECT_GT(tier->stats().states_read, 0u);
}

TEST_F(FileTierStates, PromptPrefilledInOneShortPassNeedsNoEarlierState) {
  const TokenSpan ids = TokenSpan(ids_).first(70);
  write(*open(), "", turn(ids, 60, 10));  // the whole prompt is one pass, short enough to keep its rows
  const auto tier = open();
  EXPECT_EQ(found(*tier, "", ids), 70u);
  EXPECT_EQ(found(*tier, "", ids.first(45)), 45u);
}

TEST_F(FileTierStates, EntryReadFromDiskContinuesLikeAComputedEntry) {
  const auto tier = open();
  write(*tier, "", turn(ids_, 20, 0));
  const Tokens all = concat(TokenSpan(ids_).first(143), random_tokens(9, 60));
  KvCacheEntry entry(pool_);
  ASSERT_EQ(tier->extend("", TokenSpan(all).first(200), entry), 143u);
  ASSERT_TRUE(feed(entry, TokenSpan(all).subspan(143)).ok());
  EXPECT_EQ(read_rows(entry), fresh_rows(layout_, all));
  EXPECT_EQ(read_states(entry), fresh_states(layout_, all));
}

TEST_F(FileTierStates, GrowingConversationWritesEachStateOnce) {
  const Tokens ids = random_tokens(5, 600);
  const auto tier = open();
  KvCacheEntry entry(pool_);
  size_t n_written = 0;
  for (size_t n = 60; n <= 600; n += 60) {
    entry.state().keep_only_here(entry.length());
    ASSERT_TRUE(feed(entry, TokenSpan(ids).subspan(n - 60, 40)).ok());
    entry.state().keep_last_pass(n - 20);
    for (size_t i = n - 20; i < n; ++i) ASSERT_TRUE(feed(entry, TokenSpan(ids).subspan(i, 1)).ok());
    write(*tier, "", entry);
    EXPECT_EQ(tier->stats().states_written - n_written, 2u) << "the end of the prompt and of the completion";
    n_written = tier->stats().states_written;
    // The state at the end of the previous turn is the one before this turn's rows, so it is written once.
    EXPECT_EQ(tier->stats().states, n / 60 + 1);
    write(*tier, "", entry);
    EXPECT_EQ(tier->stats().states_written, n_written) << "stored records are not written again";
    EXPECT_EQ(found(*tier, "", TokenSpan(ids).first(n)), n);
  }
}

TEST_F(FileTierStates, StatesAreUsedOnlyIfAllEarlierPagesExist) {
  write(*open(), "", turn(ids_, 20, 30));
  for (const std::string& name : page_files()) {
    if (header_of(name).first_position == 128) {
      ASSERT_TRUE(files_->remove(directory_ + "/" + name).ok());
    }
  }
  auto tier = open();
  EXPECT_EQ(found(*tier, "", ids_), 120u);
  for (const std::string& name : page_files()) {
    if (header_of(name).first_position == 64) {
      ASSERT_TRUE(files_->remove(directory_ + "/" + name).ok());
    }
  }
  EXPECT_EQ(found(*tier, "", ids_), 0u);
  tier.reset();
  EXPECT_EQ(found(*open(), "", ids_), 0u);
}

TEST_F(FileTierStates, DamagedStateIsReplacedByAnEarlierState) {
  write(*open(), "", turn(ids_, 20, 30));
  for (const std::string& name : state_files()) {
    if (header_of(name).first_position != 150) continue;
    std::string bytes = read_file_of(name);
    bytes.back() ^= 1;
    overwrite(name, bytes);
  }
  const auto tier = open();
  EXPECT_EQ(found(*tier, "", ids_), 120u);
  EXPECT_EQ(tier->stats().quarantined, 1u);
  EXPECT_EQ(tier->stats().states, 1u);
  write(*tier, "", turn(ids_, 20, 30));
  EXPECT_EQ(found(*tier, "", ids_), 150u) << "it can be written again";
}

TEST_F(FileTierStates, StateWithAFlippedBitIsAMissAndNeverUsed) {
  MemoryFileOps memory;
  files_ = &memory;
  const TokenSpan ids = TokenSpan(ids_).first(80);
  {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, ids.first(77)).ok());
    ASSERT_TRUE(feed(entry, ids.subspan(77)).ok());
    entry.state().keep_last_pass(80);
    entry.slice_to_length(79);  // now only the rows reach the end, so there is one record
    write(*open(), "", entry);
  }
  ASSERT_EQ(state_files().size(), 1u);
  const std::string name = state_files()[0];
  const std::string sound = read_file_of(name);
  size_t n_quarantined = 0;
  // kv_state_file_test.cc flips every bit of a record. This test flips those of the fixed header and every ninth other.
  size_t n_flipped = 0;
  for (size_t bit = 0; bit < 8 * sound.size(); bit += bit < 8 * kKvRecordFixedBytes ? 1 : 9, ++n_flipped) {
    std::string bytes = sound;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    overwrite(name, bytes);
    const auto tier = open();  // may quarantine the file at once, or take it for one of another fingerprint or version
    ASSERT_EQ(found(*tier, "", ids.first(79)), 0u) << bit;
    n_quarantined += tier->stats().quarantined;
    ASSERT_FALSE(HasFailure()) << bit;
  }
  EXPECT_GT(n_quarantined, n_flipped / 2);
  overwrite(name, sound);
  EXPECT_EQ(found(*open(), "", ids.first(79)), 79u);
}

TEST_F(FileTierStates, StatesOfOtherModelsNamespacesLayoutsOrVersionsAreMisses) {
  write(*open(), "alice", turn(ids_, 20, 30));
  FileTierOptions other = options();
  other.fingerprint = fingerprint_of("another model");
  EXPECT_EQ(found(*open(other), "alice", ids_), 0u);
  EXPECT_EQ(found(*open(), "bob", ids_), 0u);
  {
    const KvLayout wide =
        KvLayout::make(std::vector(2, KvRowShape{2, 8}), KvDType::kF32, std::vector<StateShape>{{5, 3}, {70, 1}});
    KvPagePool pool(wide, size_t{1} << 24);
    const auto tier = *FileTier::open(options(), pool, *files_, *clock_);
    KvCacheEntry entry(pool);
    EXPECT_EQ(tier->extend("alice", ids_, entry), 0u);
  }
  const std::vector<std::string> names = state_files();
  ASSERT_EQ(names.size(), 2u) << "none is quarantined";
  for (const std::string& name : names) {
    std::string bytes = read_file_of(name);
    bytes[8] = 9;  // the version
    overwrite(name, bytes);
  }
  const auto tier = open();
  EXPECT_EQ(found(*tier, "alice", ids_), 0u);
  EXPECT_EQ(tier->stats().quarantined, 0u);
  EXPECT_EQ(state_files().size(), 2u) << "records of other versions are evicted in LRU order";
}

TEST_F(FileTierStates, CollidingFileNamesAreMissesAndNeverGiveWrongStates) {
  const PageNameRule all_alike = [](const Sha256Digest&) { return PageName(); };
  const Tokens a = random_tokens(21, 150), b = random_tokens(22, 150);
  const auto tier = open(options(), all_alike);
  for (const Tokens* ids : {&a, &b}) {
    tier->write_behind("", turn(*ids, 20, 30));
    (void)tier->flush();
    for (const Tokens* wanted : {&a, &b}) static_cast<void>(found(*tier, "", *wanted));
  }
  for (size_t same = 0; same < 150; same += 11) {
    static_cast<void>(found(*tier, "", concat(TokenSpan(a).first(same), TokenSpan(b).subspan(same))));
  }
}

TEST_F(FileTierStates, StatesUseHalfOfTheBudgetAndTheOldestIsEvictedFirst) {
  FileTierOptions wanted = options(20);  // space for ten pages, and for fewer states than the sequence keeps
  const Tokens ids = random_tokens(30, 600);
  const auto tier = open(wanted);
  KvCacheEntry entry(pool_);
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(feed(entry, TokenSpan(ids).subspan(i, 1)).ok());
    entry.state().keep_here(i + 1);
  }
  write(*tier, "", entry);
  size_t state_bytes = 0;
  for (const std::string& name : state_files()) state_bytes += read_file_of(name).size();
  EXPECT_LE(state_bytes, wanted.budget_bytes / 2);
  EXPECT_GT(state_bytes, wanted.budget_bytes / 4);
  EXPECT_LE(tier->stats().bytes, wanted.budget_bytes);
  EXPECT_EQ(tier->stats().pages, 10u);
  EXPECT_GT(tier->stats().evicted, 100u);
  EXPECT_EQ(found(*tier, "", ids), 600u);
  EXPECT_EQ(found(*tier, "", TokenSpan(ids).first(100)), 0u);
}

TEST_F(FileTierStates, StateLargerThanHalfTheBudgetIsNotWritten) {
  FileTierOptions wanted = options();
  wanted.budget_bytes = kv_state_record_bytes(layout_, 40, 0);
  const auto tier = open(wanted);
  tier->write_behind("", fed(TokenSpan(ids_).first(40)));
  EXPECT_EQ(tier->flush().code(), ErrorCode::kLimitExceeded);
  EXPECT_EQ(tier->stats().states, 0u);
}

// Evicts the records of two sequences one by one. Each remaining state must have the pages that it needs.
TEST_F(FileTierStates, StatesAreEvictedBeforeThePagesTheyNeed) {
  const Tokens a = random_tokens(31, 130), b = random_tokens(32, 130);
  FileTierOptions wanted = options();
  auto tier = open(wanted);
  write(*tier, "", turn(a, 20, 0));
  manual_clock_.advance(1000);
  write(*tier, "", turn(b, 20, 0));
  EXPECT_EQ(tier->stats().pages, 6u);
  EXPECT_EQ(tier->stats().states, 4u);
  while (tier->stats().pages + tier->stats().states > 0) {
    wanted.budget_bytes = tier->stats().bytes - 1;
    tier.reset();
    tier = open(wanted);
    for (const size_t position : {110u, 130u}) {
      size_t n_found = 0, n_files = 0;
      for (const Tokens* ids : {&a, &b}) {
        n_found += found(*tier, "", TokenSpan(*ids).first(position)) == position ? 1 : 0;
      }
      for (const std::string& name : state_files()) n_files += header_of(name).first_position == position ? 1 : 0;
      EXPECT_GE(n_found, n_files) << position;
    }
  }
}

// The state of a sequence is evicted alone. It is written again while the pages of the sequence are the oldest files.
TEST_F(FileTierStates, WritingAStateDoesNotEvictThePagesOfItsSequence) {
  const Tokens a = random_tokens(33, 150), b = random_tokens(34, 150);
  FileTierOptions wanted = options();
  {
    const auto tier = open(wanted);
    write(*tier, "", fed(a));
    write(*tier, "", fed(b));
    wanted.budget_bytes = tier->stats().bytes - 1;
  }
  const auto tier = open(wanted);
  EXPECT_EQ(tier->stats().pages, 6u);
  EXPECT_EQ(tier->stats().states, 1u);
  EXPECT_EQ(found(*tier, "", a), 0u);
  write(*tier, "", fed(a));
  EXPECT_EQ(found(*tier, "", a), 150u);
}

// As above, for a page whose file was lost.
TEST_F(FileTierStates, WritingAPageDoesNotEvictTheStateOfItsSequence) {
  const Tokens a = random_tokens(35, 150), b = random_tokens(36, 20);
  FileTierOptions wanted = options();
  {
    const auto tier = open(wanted);
    write(*tier, "", fed(a));
    write(*tier, "", fed(b));
    wanted.budget_bytes = tier->stats().bytes - 1;
  }
  for (const std::string& name : page_files()) {
    if (header_of(name).first_position != 128) continue;
    ASSERT_TRUE(files_->remove(directory_ + "/" + name).ok());
  }
  const auto tier = open(wanted);
  write(*tier, "", fed(a));
  EXPECT_EQ(found(*tier, "", a), 150u);
}

TEST_F(FileTierStates, PoolReclaimsPagesQueuedForWriting) {
  const auto tier = open();
  tier->write_behind("", turn(ids_, 20, 30));
  EXPECT_EQ(tier->stats().waiting, 5u);
  EXPECT_GT(tier->stats().waiting_bytes, 3 * layout_.page_bytes());
  const size_t n_all = pool_.budget_bytes() / layout_.page_bytes();
  EXPECT_TRUE(pool_.allocate(n_all).ok());
  EXPECT_EQ(tier->stats().waiting, 0u);
  EXPECT_EQ(tier->stats().dropped, 5u);
  EXPECT_EQ(pool_.bytes_in_use(), 0u);
}

TEST_F(FileTierStates, ClearRemovesStates) {
  const auto tier = open();
  write(*tier, "alice", turn(ids_, 20, 30));
  write(*tier, "bob", turn(ids_, 20, 30));
  tier->write_behind("alice", turn(random_tokens(8, 150), 20, 30));
  ASSERT_TRUE(tier->clear("alice").ok());
  EXPECT_EQ(tier->stats().waiting, 0u);
  EXPECT_EQ(found(*tier, "alice", ids_), 0u);
  EXPECT_EQ(found(*tier, "bob", ids_), 150u);
  EXPECT_EQ(state_files().size(), 2u);
}

// Random conversations share prefixes and are restarted. Everything found must equal a cold pass.
TEST_F(FileTierStates, FoundStatesEqualRecomputedStatesAfterRandomTurnsAndRestarts) {
  std::mt19937_64 rng(7);
  size_t n_found = 0;
  for (size_t round = 0; round < 10; ++round) {
    MemoryFileOps memory;
    files_ = &memory;
    auto tier = open(options(4 + rng() % 30));
    for (size_t step = 0; step < 40; ++step) {
      const Tokens all = random_tokens(rng() % 3, 1 + rng() % 400, 2);
      KvCacheEntry entry(pool_);
      n_found += tier->extend("", all, entry);
      ASSERT_EQ(read_rows(entry), fresh_rows(layout_, entry.tokens()));
      ASSERT_EQ(read_states(entry), fresh_states(layout_, entry.tokens()));
      ASSERT_EQ(common_prefix_length(entry.tokens(), all), entry.length());
      while (entry.length() < all.size()) {
        const size_t n = std::min<size_t>(all.size() - entry.length(), 1 + rng() % 90);
        ASSERT_TRUE(feed(entry, TokenSpan(all).subspan(entry.length(), n)).ok());
        if (rng() % 3 == 0) entry.state().keep_last_pass(entry.length());
      }
      ASSERT_EQ(read_states(entry), fresh_states(layout_, all));
      tier->write_behind("", entry);
      if (rng() % 2 == 0) static_cast<void>(tier->flush());
      if (rng() % 8 == 0) {
        tier.reset();
        tier = open(options(4 + rng() % 30));
        ASSERT_EQ(tier->stats().quarantined, 0u);
      }
    }
  }
  EXPECT_GT(n_found, 10'000u);
}

}  // namespace
}  // namespace ibid
