#include "cache/tier/kv_page_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "cache/tier/writer_id.h"
#include "tests/cache/tier_fixture.h"

namespace ibid {
namespace {

using Bytes = std::vector<std::byte>;

const KvPageIdentity kPagesOfAlice = {fingerprint_of("model"), digest_of_namespace("alice")};

// Returns the record of the last page of `ids`.
class KvPageFileLaws : public testing::TestWithParam<KvDType> {
 protected:
  const KvLayout layout_ = tiny_layout(GetParam());
  KvPagePool pool_{layout_, size_t{1} << 22};
  KvCacheEntry entry_{pool_};

  Bytes record(TokenSpan ids, const KvPageIdentity& identity = kPagesOfAlice) {
    entry_.slice_to_length(0);
    EXPECT_TRUE(feed(entry_, ids).ok());
    const std::byte* page = entry_.page_data()[entry_.pages().size() - 1];
    Bytes bytes = encode_kv_page_header(layout_, {identity, text_of(identity, ids)}, page);
    bytes.insert(bytes.end(), page, page + layout_.page_bytes());
    return bytes;
  }
  static size_t rows_of(size_t n) { return (n - 1) % kPagePositions + 1; }  // of the last page of n tokens
  // Decodes the bytes and returns the error code. On failure the page must be unchanged; else it must equal the
  // entry's.
  ErrorCode decoded(std::span<const std::byte> bytes, TokenSpan ids, const KvPageIdentity& identity = kPagesOfAlice) {
    const Bytes untouched(layout_.page_bytes(), std::byte{0x5a});
    Bytes page = untouched;
    // A copy of exactly this length, so that a sanitizer detects reads beyond the bytes.
    const Bytes exact(bytes.begin(), bytes.end());
    const Result<DecodedPage> read = decode_kv_page(exact, layout_, identity, text_of(identity, ids), page.data());
    if (read.ok()) {
      EXPECT_EQ(read->record_bytes, kv_page_record_bytes(layout_, rows_of(entry_.length())));
      EXPECT_EQ(std::memcmp(page.data(), entry_.page_data()[entry_.pages().size() - 1], page.size()), 0);
      return ErrorCode::kOk;
    }
    EXPECT_EQ(page, untouched);
    return read.status().code();
  }
};

INSTANTIATE_TEST_SUITE_P(AllTypes, KvPageFileLaws, testing::ValuesIn(kEveryKvDType));

TEST_P(KvPageFileLaws, RecordsRoundTripBitForBit) {
  for (const size_t n : {1, 2, 63, 64, 65, 128, 200}) {
    const Tokens ids = random_tokens(n, n);
    const Bytes bytes = record(ids);
    EXPECT_EQ(bytes.size(), kv_page_record_bytes(layout_, rows_of(n)));
    EXPECT_EQ(decoded(bytes, ids), ErrorCode::kOk) << n;
    const size_t first = (n - 1) / 64 * 64;
    EXPECT_EQ(decoded(bytes, TokenSpan(ids).first(first + 1)), ErrorCode::kOk) << "the first row alone";
    EXPECT_EQ(decoded(bytes, TokenSpan(ids).first(first)), ErrorCode::kMismatch) << "none of its rows";
  }
}

TEST_P(KvPageFileLaws, ConsecutiveUnalignedRecordsAreDecoded) {
  const Tokens ids = random_tokens(1, 100);
  const Bytes first = record(TokenSpan(ids).first(64));
  Bytes bytes(3);
  bytes.insert(bytes.end(), first.begin(), first.end());
  const Bytes second = record(ids);
  bytes.insert(bytes.end(), second.begin(), second.end());
  Bytes page(layout_.page_bytes());
  const std::span<const std::byte> all = std::span(bytes).subspan(3);
  const Result<DecodedPage> read =
      decode_kv_page(all, layout_, kPagesOfAlice, text_of(kPagesOfAlice, TokenSpan(ids).first(64)), page.data());
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->record_bytes, first.size());
  EXPECT_EQ(decoded(all.subspan(read->record_bytes), ids), ErrorCode::kOk);
}

TEST_P(KvPageFileLaws, RecordsOfAnotherModelNamespaceOrTextAreMismatches) {
  const Tokens ids = random_tokens(2, 100);
  const Bytes bytes = record(ids);
  EXPECT_EQ(decoded(bytes, ids, {fingerprint_of("other"), kPagesOfAlice.name_space}), ErrorCode::kMismatch);
  EXPECT_EQ(decoded(bytes, ids, {kPagesOfAlice.fingerprint, digest_of_namespace("bob")}), ErrorCode::kMismatch);
  KvPageIdentity later_life = kPagesOfAlice;
  ++later_life.epoch;
  EXPECT_EQ(decoded(bytes, ids, later_life), ErrorCode::kMismatch);
  EXPECT_EQ(decoded(bytes, concat(ids, ids)), ErrorCode::kMismatch);
  for (size_t i = 0; i < ids.size(); ++i) {
    Tokens other = ids;
    ++other[i];
    EXPECT_EQ(decoded(bytes, other), ErrorCode::kMismatch) << i;
  }
  for (const KvLayout& layout : {KvLayout::make(1, 2, 8, GetParam()), KvLayout::make(2, 1, 8, GetParam())}) {
    Bytes page(layout_.page_bytes());
    EXPECT_EQ(decode_kv_page(bytes, layout, kPagesOfAlice, text_of(kPagesOfAlice, ids), page.data()).status().code(),
              ErrorCode::kMismatch);
  }
}

TEST_P(KvPageFileLaws, TruncatedRecordsAreRefused) {
  const Tokens ids = random_tokens(3, 70);
  const Bytes bytes = record(ids);
  for (size_t n = 0; n < bytes.size(); n += n < 600 ? 1 : 97) {
    const ErrorCode code = decoded(std::span(bytes).first(n), ids);
    EXPECT_EQ(code, ErrorCode::kTruncated) << n;
  }
}

TEST_P(KvPageFileLaws, EveryFlippedBitIsDetected) {
  const Tokens ids = random_tokens(4, 70);
  const Bytes sound = record(ids);
  std::mt19937_64 rng(5);
  const auto expect_found = [&](size_t bit) {
    Bytes bytes = sound;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_NE(decoded(bytes, ids), ErrorCode::kOk) << "bit " << bit;
  };
  const size_t header = kv_page_header_bytes(layout_, rows_of(ids.size()));
  for (size_t bit = 0; bit < 8 * header; ++bit) expect_found(bit);
  for (int i = 0; i < 10'000; ++i) expect_found(rng() % (8 * sound.size()));
}

TEST_P(KvPageFileLaws, EveryChangedHeaderByteIsDetected) {
  const Tokens ids = random_tokens(6, 70);
  const Bytes sound = record(ids);
  for (size_t at = 0; at < kv_page_header_bytes(layout_, rows_of(ids.size())); ++at) {
    for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
      Bytes bytes = sound;
      if (bytes[at] == static_cast<std::byte>(value)) continue;
      bytes[at] = static_cast<std::byte>(value);
      EXPECT_NE(decoded(bytes, ids), ErrorCode::kOk) << at;
    }
  }
}

// Even if all layers have different sizes, a record is bound to its layout: bytes in another order are refused.
TEST_P(KvPageFileLaws, RecordWithLayersInAnotherOrderIsRefused) {
  const KvRowShape shapes[] = {{1, 8}, {2, 24}, {3, 8}}, swapped[] = {{3, 8}, {2, 24}, {1, 8}};
  const KvLayout layout = KvLayout::make(shapes, GetParam()), other = KvLayout::make(swapped, GetParam());
  KvPagePool pool(layout, 2 * layout.page_bytes());
  KvCacheEntry entry(pool);
  const Tokens ids = random_tokens(11, 50);
  ASSERT_TRUE(feed(entry, ids).ok());
  const std::byte* written = entry.page_data()[0];
  const KvRecordText text = text_of(kPagesOfAlice, ids);
  Bytes bytes = encode_kv_page_header(layout, {kPagesOfAlice, text}, written);
  bytes.insert(bytes.end(), written, written + layout.page_bytes());
  Bytes page(layout.page_bytes());
  ASSERT_TRUE(decode_kv_page(bytes, layout, kPagesOfAlice, text, page.data()).ok());
  EXPECT_EQ(std::memcmp(page.data(), written, page.size()), 0);
  ASSERT_EQ(other.page_bytes(), layout.page_bytes());
  EXPECT_EQ(decode_kv_page(bytes, other, kPagesOfAlice, text, page.data()).status().code(), ErrorCode::kCorrupt);
  const KvLayout alike = KvLayout::make(3, 2, 8, GetParam());
  EXPECT_EQ(decode_kv_page(bytes, alike, kPagesOfAlice, text, page.data()).status().code(), ErrorCode::kMismatch);
  bytes.back() ^= std::byte{1};
  EXPECT_EQ(decode_kv_page(bytes, layout, kPagesOfAlice, text, page.data()).status().code(), ErrorCode::kCorrupt);
}

// Counts that overflow must be detected before anything is computed from them, even if the checksums are right.
TEST_P(KvPageFileLaws, CountsThatOverflowAreRefused) {
  const Tokens ids = random_tokens(7, 70);
  const Bytes sound = record(ids);
  constexpr size_t kHeaderBytes = 16, kFirstPosition = 144, kRows = 152, kBlocks = 156, kBlockBytes = 160,
                   kRecordBytes = 168;
  const auto expect_code = [&](std::vector<std::pair<size_t, uint64_t>> fields, ErrorCode code) {
    Bytes bytes = sound;
    for (const auto& [offset, value] : fields) {
      const size_t width = offset == kRows || offset == kBlocks ? 4 : 8;
      std::memcpy(bytes.data() + offset, &value, width);
    }
    EXPECT_EQ(error_code_name(decoded(bytes, ids)), error_code_name(code));
  };
  const uint64_t most = ~uint64_t{0};
  expect_code({{kFirstPosition, most - 63}}, ErrorCode::kOverflow);
  expect_code({{kFirstPosition, uint64_t{1} << 62}}, ErrorCode::kOverflow);
  expect_code({{kFirstPosition, most}}, ErrorCode::kBadHeader);
  expect_code({{kRows, 0}}, ErrorCode::kBadHeader);
  expect_code({{kRows, 65}}, ErrorCode::kBadHeader);
  expect_code({{kBlocks, 0}}, ErrorCode::kBadHeader);
  expect_code({{kBlocks, 0xffffffff}}, ErrorCode::kBadHeader);
  expect_code({{kBlocks, 0xffffffff}, {kBlockBytes, uint64_t{1} << 40}}, ErrorCode::kOverflow);
  expect_code({{kBlockBytes, most}}, ErrorCode::kOverflow);
  expect_code({{kBlockBytes, 0}}, ErrorCode::kCorrupt);  // 0 is for layouts with unequal blocks
  expect_code({{kBlockBytes, 0}, {kRecordBytes, 217}}, ErrorCode::kBadHeader);
  expect_code({{kBlockBytes, 0}, {kRecordBytes, most}}, ErrorCode::kOverflow);
  expect_code({{kHeaderBytes, 0}}, ErrorCode::kBadHeader);
  expect_code({{kHeaderBytes, most}}, ErrorCode::kBadHeader);
  expect_code({{kRecordBytes, 0}}, ErrorCode::kBadHeader);
  // These numbers agree with each other, but exceed the available bytes by far.
  const uint64_t n_blocks = 1'000'000, header = kKvRecordFixedBytes + 24 + 8 * n_blocks;
  expect_code({{kBlocks, n_blocks}, {kHeaderBytes, header}, {kBlockBytes, 1}, {kRecordBytes, header + n_blocks}},
              ErrorCode::kTruncated);
  expect_code({{0, 0}}, ErrorCode::kBadMagic);
  expect_code({{8, uint64_t{0x0102030400000003}}}, ErrorCode::kUnsupportedVersion);
  expect_code({{8, uint64_t{0x0102030400000005}}}, ErrorCode::kUnsupportedVersion);
  expect_code({{8, uint64_t{0x0403020100000004}}}, ErrorCode::kUnsupportedVersion);
}

// A record whose checksums are right is not used at another position, or after tokens with another digest.
TEST_P(KvPageFileLaws, PositionAndTokensBeforeThePageAreChecked) {
  const Tokens ids = random_tokens(12, 100);
  const Bytes bytes = record(ids);
  const KvRecordText sound = text_of(kPagesOfAlice, ids);
  Bytes page(layout_.page_bytes());
  const auto code_of = [&](const KvRecordText& text) {
    return decode_kv_page(bytes, layout_, kPagesOfAlice, text, page.data()).status().code();
  };
  EXPECT_EQ(code_of(sound), ErrorCode::kOk);
  for (size_t i = 0; i < sound.before.size(); ++i) {
    KvRecordText other = sound;
    other.before[i] ^= std::byte{1};
    EXPECT_EQ(code_of(other), ErrorCode::kMismatch) << i;
  }
  for (const size_t begin : {0, 128}) {
    KvRecordText other = sound;
    other.page_begin = begin;
    EXPECT_EQ(code_of(other), ErrorCode::kMismatch) << begin;
  }
}

TEST_P(KvPageFileLaws, RecordNamesItsWriterAndIsReadByOthers) {
  const Tokens ids = random_tokens(13, 64);
  const Bytes page(layout_.page_bytes());
  const KvWriterId writer{std::byte{1}, std::byte{2}};
  Bytes bytes = encode_kv_page_header(layout_, {kPagesOfAlice, text_of(kPagesOfAlice, ids), writer}, page.data());
  EXPECT_EQ(parse_kv_record_header(bytes)->writer, writer);
  bytes.insert(bytes.end(), page.begin(), page.end());
  Bytes read(page.size());
  EXPECT_TRUE(decode_kv_page(bytes, layout_, kPagesOfAlice, text_of(kPagesOfAlice, ids), read.data()).ok());
}

TEST(KvWriterIds, IdIsConstantAndNotZero) {
  EXPECT_EQ(own_writer_id(), own_writer_id());
  EXPECT_NE(own_writer_id(), KvWriterId{});
}

// A valid block of another layer, position or text is refused.
TEST_P(KvPageFileLaws, BlocksOfAnotherLayerOrRecordAreRefused) {
  const Tokens ids = random_tokens(8, 64), other_ids = random_tokens(9, 64);
  const Bytes other = record(other_ids);
  const Bytes sound = record(ids);
  const size_t header = kv_page_header_bytes(layout_, 64);
  const auto block = [&](size_t layer) { return static_cast<ptrdiff_t>(header + layout_.layer(layer).offset); };
  Bytes swapped = sound;
  std::swap_ranges(swapped.begin() + block(0), swapped.begin() + block(1), swapped.begin() + block(1));
  EXPECT_EQ(decoded(swapped, ids), ErrorCode::kCorrupt);
  Bytes foreign = sound;
  std::copy(other.begin() + block(0), other.end(), foreign.begin() + block(0));
  EXPECT_EQ(decoded(foreign, ids), ErrorCode::kCorrupt);
}

// Blocks of equal bytes have different checksums in each layer, at each position, in each text and namespace.
TEST_P(KvPageFileLaws, ChecksumsOfEqualBlocksDiffer) {
  const Bytes page(layout_.page_bytes());
  const Tokens ids = random_tokens(10, 128);
  std::set<uint64_t> checksums;
  const auto add = [&](TokenSpan of, const KvPageIdentity& identity) {
    const Bytes header = encode_kv_page_header(layout_, {identity, text_of(identity, of)}, page.data());
    for (size_t i = 0; i < layout_.n_layers(); ++i) {
      uint64_t checksum = 0;
      std::memcpy(&checksum, header.data() + header.size() - (i + 1) * sizeof checksum, sizeof checksum);
      EXPECT_TRUE(checksums.insert(checksum).second);
    }
  };
  add(ids, kPagesOfAlice);
  add(TokenSpan(ids).first(64), kPagesOfAlice);
  add(TokenSpan(ids).first(100), kPagesOfAlice);
  add(random_tokens(11, 128), kPagesOfAlice);
  add(ids, {kPagesOfAlice.fingerprint, digest_of_namespace("bob")});
  add(ids, {fingerprint_of("other"), kPagesOfAlice.name_space});
}

TEST(Fingerprint, DifferentFieldsGiveDifferentFingerprints) {
  const auto of = [](std::string_view name, std::string_view value, std::string_view next) {
    return FingerprintBuilder().add(name, value).add(next, uint64_t{7}).finish();
  };
  EXPECT_EQ(of("a", "b", "c"), of("a", "b", "c"));
  EXPECT_NE(of("a", "b", "c"), of("ab", "", "c"));
  EXPECT_NE(of("a", "b", "c"), of("a", "bc", ""));
  EXPECT_NE(of("a", "b", "c"), FingerprintBuilder().add("a", "b").finish());
  EXPECT_NE(FingerprintBuilder().add("a", uint64_t{1}).finish(), FingerprintBuilder().add("a", uint64_t{2}).finish());
}

}  // namespace
}  // namespace ibid
