#include "cache/tier/kv_record.h"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/checked.h"

namespace ibid {

namespace {

void add_sized(Sha256& hash, std::span<const std::byte> bytes) {
  const uint64_t size = bytes.size();
  hash.update(std::as_bytes(std::span(&size, 1)));
  hash.update(bytes);
}

}  // namespace

FingerprintBuilder& FingerprintBuilder::add(std::string_view name, std::span<const std::byte> value) {
  add_sized(hash_, std::as_bytes(std::span(name)));
  add_sized(hash_, value);
  return *this;
}

FingerprintBuilder& FingerprintBuilder::add(std::string_view name, std::string_view value) {
  return add(name, std::as_bytes(std::span(value)));
}

FingerprintBuilder& FingerprintBuilder::add(std::string_view name, uint64_t value) {
  return add(name, std::as_bytes(std::span(&value, 1)));
}

namespace {

// Indexed by record kind.
constexpr std::array<std::array<char, 8>, 2> kMagics = {
    {{'i', 'b', 'i', 'd', 'K', 'V', '\r', '\n'}, {'i', 'b', 'i', 'd', 'S', 'T', '\r', '\n'}}};
// Format version of both kinds. Records of earlier versions held all tokens from position 0.
constexpr uint32_t kVersion = 4;
constexpr uint32_t kEndianMark = 0x01020304;
// So many tokens have an address: every count of their bytes fits.
constexpr uint64_t kMostTokens = std::numeric_limits<ptrdiff_t>::max() / sizeof(TokenId);

// The fixed beginning of a record, in the byte order of the machine that wrote it.
struct Fixed {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t endian_mark;
  uint64_t header_bytes;
  Sha256Digest fingerprint;
  Sha256Digest name_space;
  KvTextDigest before;
  KvWriterId writer;
  uint64_t epoch;
  uint64_t first_position;
  uint32_t n_rows;
  uint32_t n_blocks;
  uint64_t block_bytes;
  uint64_t record_bytes;
  uint32_t numerics_version;
  uint32_t zero;
  uint64_t checksum;  // checksum of the whole header, with this field zero
};
static_assert(sizeof(Fixed) == kKvRecordFixedBytes && offsetof(Fixed, checksum) == 184);

Status bad_header(const std::string& what) { return {ErrorCode::kBadHeader, "KV record: " + what}; }

// The tokens are padded to 8 bytes, so that the table of block checksums is aligned within the record.
std::optional<uint64_t> header_bytes_of(uint64_t n_page_ids, uint64_t n_blocks) {
  const auto ids = checked_mul<uint64_t>(n_page_ids, sizeof(TokenId));
  const auto padded = ids ? checked_align<uint64_t>(*ids, 8) : std::nullopt;
  const auto table = checked_mul<uint64_t>(n_blocks, sizeof(uint64_t));
  if (!padded || !table) return std::nullopt;
  const auto sum = checked_add(*padded, *table);
  return sum ? checked_add<uint64_t>(*sum, sizeof(Fixed)) : std::nullopt;
}

Fixed load_fixed(std::span<const std::byte> bytes) {
  Fixed fixed;
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  return fixed;
}

// Hash of all header fields except the table of block checksums. Each block checksum covers this hash, which binds the
// blocks to their record.
uint64_t identity_hash_of(std::span<const std::byte> header, size_t table_offset) {
  Fixed fixed = load_fixed(header);
  fixed.checksum = 0;
  const uint64_t seed = XXH3_64bits(&fixed, sizeof fixed);
  return XXH3_64bits_withSeed(header.data() + sizeof fixed, table_offset - sizeof fixed, seed);
}

uint64_t checksum_of(std::span<const std::byte> header, size_t table_offset, uint64_t identity_hash) {
  return XXH3_64bits_withSeed(header.data() + table_offset, header.size() - table_offset, identity_hash);
}

uint64_t block_checksum(uint64_t identity_hash, size_t index, std::span<const std::byte> block) {
  return XXH3_64bits_withSeed(block.data(), block.size(), identity_hash + index);
}

size_t table_offset_of(const KvRecordHeader& header) {
  return static_cast<size_t>(header.header_bytes) - header.n_blocks * sizeof(uint64_t);
}

Status check_positions(KvRecordKind kind, const Fixed& fixed) {
  const bool is_page = kind == KvRecordKind::kPage;
  const bool begins_well = !is_page || fixed.first_position % kPagePositions == 0;
  if (!begins_well || fixed.n_rows < (is_page ? 1 : 0) || fixed.n_rows > kPagePositions) {
    return bad_header(
        std::to_string(fixed.n_rows) + " rows at position " + std::to_string(fixed.first_position) +
        (is_page ? "; a page has 1 to 64 rows, from a multiple of 64 on" : "; a state has at most 64 rows"));
  }
  if (!is_page && fixed.n_blocks == 0) return bad_header("a state without blocks");
  return {};
}

Status check_counts(KvRecordKind kind, const Fixed& fixed) {
  TRY(check_positions(kind, fixed));
  const auto n_tokens = checked_add<uint64_t>(fixed.first_position, fixed.n_rows);
  const uint64_t n_page_ids = fixed.first_position % kPagePositions + fixed.n_rows;
  const auto header = n_tokens && *n_tokens <= kMostTokens ? header_bytes_of(n_page_ids, fixed.n_blocks) : std::nullopt;
  // If blocks have different sizes, the record has only their total, which the reader compares with its layout.
  const bool alike = fixed.block_bytes != 0;
  const uint64_t together = saturating_sub(fixed.record_bytes, fixed.header_bytes);
  const auto blocks = alike ? checked_mul<uint64_t>(fixed.n_blocks, fixed.block_bytes) : std::optional(together);
  if (!alike && together < fixed.n_blocks) return bad_header("has more blocks than bytes for them");
  constexpr uint64_t kTooMany = std::numeric_limits<uint64_t>::max();
  const uint64_t in_front = header.value_or(kTooMany);
  const uint64_t record = checked_add(in_front, blocks.value_or(kTooMany)).value_or(kTooMany);
  if (record > std::numeric_limits<ptrdiff_t>::max()) {
    return {ErrorCode::kOverflow, "KV record: its tokens and blocks would have more bytes than a file can have"};
  }
  if (in_front != fixed.header_bytes || record != fixed.record_bytes) {
    return bad_header("says that the header has " + std::to_string(fixed.header_bytes) + " bytes and the record " +
                      std::to_string(fixed.record_bytes) + ", but for its numbers of tokens and blocks these are " +
                      std::to_string(in_front) + " and " + std::to_string(record));
  }
  return {};
}

}  // namespace

Status kv_record_mismatch(const char* what) {
  return {ErrorCode::kMismatch, std::string("KV record: belongs to another ") + what};
}

Status kv_record_of_other_numerics(uint32_t found, uint32_t own) {
  return {ErrorCode::kUnsupportedVersion, "KV record: computed by version " + std::to_string(found) +
                                              " of the numerics, this program has version " + std::to_string(own)};
}

Sha256Digest digest_of_namespace(std::string_view name_space) {
  Sha256 hash;
  hash.update(name_space);
  return hash.finish();
}

Result<KvRecordHeader> parse_kv_record_header(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Fixed)) {
    return Status(ErrorCode::kTruncated, "KV record: has " + std::to_string(bytes.size()) +
                                             " bytes, but a header has at least " + std::to_string(sizeof(Fixed)));
  }
  const Fixed fixed = load_fixed(bytes);
  const auto magic = std::find(kMagics.begin(), kMagics.end(), fixed.magic);
  if (magic == kMagics.end()) return Status(ErrorCode::kBadMagic, "KV record: unknown magic number");
  const auto kind = static_cast<KvRecordKind>(magic - kMagics.begin());
  if (fixed.endian_mark != kEndianMark) {
    return Status(ErrorCode::kUnsupportedVersion, "KV record: written in another byte order");
  }
  if (fixed.version != kVersion) {
    return Status(ErrorCode::kUnsupportedVersion, "KV record: format version " + std::to_string(fixed.version) +
                                                      ", this program reads version " + std::to_string(kVersion));
  }
  TRY(check_counts(kind, fixed));
  return KvRecordHeader{.kind = kind,
                        .identity = {{fixed.fingerprint, fixed.numerics_version}, fixed.name_space, fixed.epoch},
                        .first_position = static_cast<size_t>(fixed.first_position),
                        .n_rows = fixed.n_rows,
                        .n_blocks = fixed.n_blocks,
                        .block_bytes = fixed.block_bytes,
                        .header_bytes = fixed.header_bytes,
                        .record_bytes = fixed.record_bytes,
                        .checksum = fixed.checksum,
                        .before = fixed.before,
                        .writer = fixed.writer};
}

Tokens kv_record_page_ids(std::span<const std::byte> record, const KvRecordHeader& header) {
  Tokens ids(header.n_page_ids());
  CHECK_LE(sizeof(Fixed) + ids.size() * sizeof(TokenId), record.size());
  if (!ids.empty()) std::memcpy(ids.data(), record.data() + sizeof(Fixed), ids.size() * sizeof(TokenId));
  return ids;
}

size_t kv_record_header_bytes(size_t n_page_ids, size_t n_blocks) {
  return static_cast<size_t>(header_bytes_of(n_page_ids, n_blocks).value());
}

std::vector<std::byte> encode_kv_record_header(const KvRecordHeader& what, TokenSpan page_ids,
                                               std::span<const std::span<const std::byte>> blocks) {
  CHECK_EQ(page_ids.size(), what.n_page_ids());
  std::vector<std::byte> header(kv_record_header_bytes(page_ids.size(), blocks.size()));
  Fixed fixed{.magic = kMagics[static_cast<size_t>(what.kind)],
              .version = kVersion,
              .endian_mark = kEndianMark,
              .header_bytes = header.size(),
              .fingerprint = what.identity.fingerprint.bytes,
              .name_space = what.identity.name_space,
              .before = what.before,
              .writer = what.writer,
              .epoch = what.identity.epoch,
              .first_position = what.first_position,
              .n_rows = static_cast<uint32_t>(what.n_rows),
              .n_blocks = static_cast<uint32_t>(blocks.size()),
              .block_bytes = what.block_bytes,
              .record_bytes = header.size(),
              .numerics_version = what.identity.fingerprint.numerics_version,
              .zero = 0,
              .checksum = 0};
  for (const std::span<const std::byte> block : blocks) fixed.record_bytes += block.size();
  std::memcpy(header.data(), &fixed, sizeof fixed);
  if (!page_ids.empty()) std::memcpy(header.data() + sizeof fixed, page_ids.data(), page_ids.size_bytes());
  const size_t table = header.size() - blocks.size() * sizeof(uint64_t);
  const uint64_t identity_hash = identity_hash_of(header, table);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t checksum = block_checksum(identity_hash, i, blocks[i]);
    std::memcpy(header.data() + table + i * sizeof checksum, &checksum, sizeof checksum);
  }
  fixed.checksum = checksum_of(header, table, identity_hash);
  std::memcpy(header.data(), &fixed, sizeof fixed);
  return header;
}

Result<KvRecordCheck> KvRecordCheck::open(std::span<const std::byte> header, KvRecordKind kind,
                                          const KvPageIdentity& identity, const KvRecordText& text) {
  KvRecordCheck check;
  TRY_ASSIGN(check.header_, parse_kv_record_header(header));
  const KvRecordHeader& found = check.header_;
  if (header.size() < found.header_bytes) {
    return Status(ErrorCode::kTruncated, "KV record: ends inside its header");
  }
  header = header.first(static_cast<size_t>(found.header_bytes));
  const size_t table = table_offset_of(found);
  check.identity_hash_ = identity_hash_of(header, table);
  check.checksums_ = header.subspan(table);
  if (checksum_of(header, table, check.identity_hash_) != found.checksum) {
    return Status(ErrorCode::kCorrupt, "KV record: the checksum of the header does not match");
  }
  if (found.kind != kind) return kv_record_mismatch("kind");
  const uint32_t version = found.identity.fingerprint.numerics_version;
  const uint32_t own = identity.fingerprint.numerics_version;
  if (version != own) return kv_record_of_other_numerics(version, own);
  if (found.identity.fingerprint != identity.fingerprint) return kv_record_mismatch("computation");
  if (found.identity.name_space != identity.name_space) return kv_record_mismatch("namespace");
  if (found.identity.epoch != identity.epoch) return kv_record_mismatch("epoch of its namespace");
  const TokenSpan ids = text.page_ids;
  if (found.before != text.before || found.page_begin() != text.page_begin || ids.size() > found.n_page_ids() ||
      (!ids.empty() && std::memcmp(header.data() + sizeof(Fixed), ids.data(), ids.size_bytes()) != 0)) {
    return kv_record_mismatch("text");
  }
  return check;
}

Status KvRecordCheck::check_block(size_t index, std::span<const std::byte> block) const {
  CHECK_LT(index, header_.n_blocks);
  uint64_t wanted = 0;
  std::memcpy(&wanted, checksums_.data() + index * sizeof wanted, sizeof wanted);
  if (block_checksum(identity_hash_, index, block) == wanted) return {};
  return {ErrorCode::kCorrupt, "KV record: the checksum of block " + std::to_string(index) + " does not match"};
}

}  // namespace ibid
