// Records of recurrent states keep every bit when written and read, and anything else is refused.
#include "cache/tier/kv_state_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/cache/tier_fixture.h"

namespace ibid {
namespace {

using Bytes = std::vector<std::byte>;

const KvPageIdentity kStatesOfAlice = {fingerprint_of("model"), digest_of_namespace("alice")};

class KvStateFileTest : public testing::Test {
 protected:
  // Returns the record of the state after the first ids.size() - n_rows tokens, with the last n_rows tokens as rows.
  Bytes record(TokenSpan ids, size_t n_rows, const KvPageIdentity& identity = kStatesOfAlice) {
    KvCacheEntry entry(pool_);
    if (n_rows < ids.size()) {
      EXPECT_TRUE(feed(entry, ids.first(ids.size() - n_rows)).ok());
    }
    if (n_rows > 0) {
      EXPECT_TRUE(feed(entry, ids.last(n_rows)).ok());
    }
    entry.state().keep_last_pass(entry.length());
    const StateSnapshot snapshot = n_rows > 0 ? entry.state().kept().back() : entry.state().now(entry.length());
    EXPECT_EQ(snapshot.n_rows, n_rows);
    const std::byte* state = snapshot.state ? snapshot.state.data() : nullptr;
    Bytes bytes =
        encode_kv_state_header(layout_, {identity, text_of(identity, ids, ids.size() - n_rows)}, snapshot, state);
    for (const auto& blocks : kv_state_blocks(layout_, snapshot, state)) {
      bytes.insert(bytes.end(), blocks.begin(), blocks.end());
    }
    return bytes;
  }
  // Decodes a record for these tokens, and checks the states after them.
  Status decode(const Bytes& bytes, TokenSpan ids, const KvPageIdentity& identity = kStatesOfAlice) {
    // If the header is invalid, the position does not matter.
    const Result<KvRecordHeader> parsed = parse_kv_record_header(bytes);
    const size_t position = parsed.ok() ? std::min(parsed->first_position, ids.size()) : 0;
    TRY_ASSIGN(const KvStateCheck check,
               KvStateCheck::open(bytes, layout_, identity, text_of(identity, ids, position)));
    const KvRecordHeader& header = check.header();
    TRY_ASSIGN(StateSnapshot snapshot, check.read_snapshot(pool_, ids.size() - header.first_position,
                                                           [&](uint64_t offset, std::span<std::byte> out) -> Status {
                                                             if (offset + out.size() > bytes.size())
                                                               return {ErrorCode::kTruncated, ""};
                                                             std::memcpy(out.data(), bytes.data() + offset, out.size());
                                                             return {};
                                                           }));
    EXPECT_EQ(snapshot.end(), ids.size());
    KvCacheEntry entry(pool_);
    EXPECT_TRUE(entry.adopt(*pool_.allocate(KvLayout::pages_for(ids.size())), ids, {snapshot}).ok());
    EXPECT_EQ(read_states(entry), fresh_states(layout_, ids));
    return {};
  }

  const KvLayout layout_ = tiny_recurrent_layout(KvDType::kF32);
  KvPagePool pool_{layout_, size_t{1} << 22};
};

TEST_F(KvStateFileTest, RecordsAreDecodedBitForBitUpToAnyRow) {
  for (const size_t position : {0, 1, 63, 64, 65, 200}) {
    for (const size_t n_rows : {0, 1, 17, 64}) {
      if (position + n_rows == 0) continue;
      const Tokens ids = random_tokens(position, position + n_rows);
      const Bytes bytes = record(ids, n_rows);
      EXPECT_EQ(bytes.size(), kv_state_record_bytes(layout_, position, n_rows));
      for (size_t n = std::max<size_t>(position, 1); n <= ids.size(); n += 7) {
        EXPECT_TRUE(decode(bytes, TokenSpan(ids).first(n)).ok()) << position << " " << n_rows << " " << n;
      }
      if (position > 0) {
        EXPECT_EQ(decode(bytes, TokenSpan(ids).first(position - 1)).code(), ErrorCode::kMismatch);
      }
    }
  }
}

TEST_F(KvStateFileTest, StatesOfAnotherModelNamespaceOrTextAreMismatches) {
  const Tokens ids = random_tokens(2, 100);
  const Bytes bytes = record(ids, 30);
  EXPECT_EQ(decode(bytes, ids, {fingerprint_of("other"), kStatesOfAlice.name_space}).code(), ErrorCode::kMismatch);
  EXPECT_EQ(decode(bytes, ids, {kStatesOfAlice.fingerprint, digest_of_namespace("bob")}).code(), ErrorCode::kMismatch);
  EXPECT_EQ(decode(bytes, concat(ids, ids)).code(), ErrorCode::kMismatch);
  for (size_t i = 0; i < ids.size(); ++i) {
    Tokens other = ids;
    ++other[i];
    EXPECT_EQ(decode(bytes, other).code(), ErrorCode::kMismatch) << i;
  }
  const std::vector<KvRowShape> rows(2, KvRowShape{2, 8});
  const KvRecordText text = text_of(kStatesOfAlice, ids, 70);
  for (const std::vector<StateShape>& states :
       {std::vector<StateShape>{{5, 3}}, {{5, 3}, {33, 17}}, {{5, 3}, {65, 1}}, {}}) {
    const KvLayout layout = KvLayout::make(rows, KvDType::kF32, states);
    EXPECT_EQ(KvStateCheck::open(bytes, layout, kStatesOfAlice, text).status().code(), ErrorCode::kMismatch);
  }
  // A page record is not a state record, and vice versa.
  EXPECT_EQ(KvPageCheck::open(bytes, layout_, kStatesOfAlice, text).status().code(), ErrorCode::kMismatch);
}

TEST_F(KvStateFileTest, EveryFlippedBitIsDetected) {
  const Tokens ids = random_tokens(4, 70);
  for (const size_t n_rows : {0, 6, 64}) {
    const Bytes sound = record(ids, n_rows);
    for (size_t bit = 0; bit < 8 * sound.size(); ++bit) {
      Bytes bytes = sound;
      bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      ASSERT_FALSE(decode(bytes, ids).ok()) << "bit " << bit;
    }
  }
}

TEST_F(KvStateFileTest, TruncatedRecordsAreRefused) {
  const Tokens ids = random_tokens(5, 70);
  const Bytes sound = record(ids, 6);
  for (size_t n = 0; n < sound.size(); ++n) {
    ASSERT_EQ(decode(Bytes(sound.begin(), sound.begin() + static_cast<ptrdiff_t>(n)), ids).code(),
              ErrorCode::kTruncated);
  }
}

TEST_F(KvStateFileTest, EveryChangedHeaderByteIsDetected) {
  const Tokens ids = random_tokens(6, 70);
  const Bytes sound = record(ids, 6);
  std::mt19937_64 rng(7);
  for (size_t i = 0; i < 20'000; ++i) {
    Bytes bytes = sound;
    for (size_t k = 0; k < 1 + i % 6; ++k) bytes[rng() % kKvRecordFixedBytes] = static_cast<std::byte>(rng());
    if (bytes != sound) {
      ASSERT_FALSE(decode(bytes, ids).ok()) << i;
    }
  }
}

}  // namespace
}  // namespace ibid
