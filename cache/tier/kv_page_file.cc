#include "cache/tier/kv_page_file.h"

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/checked.h"

namespace ibid {

namespace {

constexpr std::array<char, 8> kMagic = {'i', 'b', 'i', 'd', 'K', 'V', '\r', '\n'};
constexpr uint32_t kVersion = 2;  // 1: layers with windows stood among the others
constexpr uint32_t kEndianMark = 0x01020304;

// The beginning of a record, in the byte order of the machine that wrote it.
struct Fixed {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t endian_mark;
  uint64_t header_bytes;
  Sha256Digest fingerprint;
  Sha256Digest name_space;
  uint64_t first_position;
  uint32_t n_rows;
  uint32_t n_blocks;
  uint64_t block_bytes;
  uint64_t record_bytes;
  uint64_t checksum;  // of the whole header, with this field zero
};
static_assert(sizeof(Fixed) == kKvPageFixedBytes && offsetof(Fixed, checksum) == 120);

Status bad_header(const std::string& what) { return {ErrorCode::kBadHeader, "KV page: " + what}; }

// Ids are padded to 8 bytes, so that the block table is aligned within the record.
std::optional<uint64_t> header_bytes_of(uint64_t n_ids, uint64_t n_blocks) {
  const auto ids = checked_mul<uint64_t>(n_ids, sizeof(TokenId));
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

// What binds a block to its page: everything that the header says but for the block table.
uint64_t identity_hash_of(std::span<const std::byte> header, size_t table_offset) {
  Fixed fixed = load_fixed(header);
  fixed.checksum = 0;
  const uint64_t seed = XXH3_64bits(&fixed, sizeof fixed);
  return XXH3_64bits_withSeed(header.data() + sizeof fixed, table_offset - sizeof fixed, seed);
}

uint64_t checksum_of(std::span<const std::byte> header, size_t table_offset, uint64_t identity_hash) {
  return XXH3_64bits_withSeed(header.data() + table_offset, header.size() - table_offset, identity_hash);
}

uint64_t block_checksum(uint64_t identity_hash, size_t layer, std::span<const std::byte> block) {
  return XXH3_64bits_withSeed(block.data(), block.size(), identity_hash + layer);
}

size_t table_offset_of(const KvPageHeader& header) {
  return static_cast<size_t>(header.header_bytes) - header.n_blocks * sizeof(uint64_t);
}

Status check_counts(const Fixed& fixed) {
  if (fixed.first_position % kPagePositions != 0 || fixed.n_rows < 1 || fixed.n_rows > kPagePositions) {
    return bad_header(std::to_string(fixed.n_rows) + " rows at position " + std::to_string(fixed.first_position) +
                      ", a page has 1 to 64 at a multiple of 64");
  }
  if (fixed.n_blocks == 0) return bad_header("no blocks");
  const auto n_ids = checked_add<uint64_t>(fixed.first_position, fixed.n_rows);
  const auto header = n_ids ? header_bytes_of(*n_ids, fixed.n_blocks) : std::nullopt;
  // Blocks that differ have no common size: then the record says how long they are together, and the layout of whoever
  // reads it whether that is right.
  const bool alike = fixed.block_bytes != 0;
  const uint64_t together = fixed.record_bytes - std::min(fixed.header_bytes, fixed.record_bytes);
  const auto blocks = alike ? checked_mul<uint64_t>(fixed.n_blocks, fixed.block_bytes) : std::optional(together);
  if (!alike && together < fixed.n_blocks) return bad_header("blocks without bytes");
  constexpr uint64_t kTooMany = std::numeric_limits<uint64_t>::max();
  const uint64_t in_front = header.value_or(kTooMany);
  const uint64_t record = checked_add(in_front, blocks.value_or(kTooMany)).value_or(kTooMany);
  if (record > std::numeric_limits<ptrdiff_t>::max()) {
    return {ErrorCode::kOverflow, "KV page: its counts give more bytes than there can be"};
  }
  if (in_front != fixed.header_bytes || record != fixed.record_bytes) {
    return bad_header("says " + std::to_string(fixed.header_bytes) + " and " + std::to_string(fixed.record_bytes) +
                      " bytes, its counts give " + std::to_string(in_front) + " and " + std::to_string(record));
  }
  return {};
}

uint64_t block_bytes_of(const KvLayout& layout) {
  return layout.layers_are_alike() ? layout.layer(0).bytes() : 0;
}

Status mismatch(const char* what) { return {ErrorCode::kMismatch, std::string("KV page: is of another ") + what}; }

}  // namespace

Sha256Digest digest_of_namespace(std::string_view name_space) {
  Sha256 hash;
  hash.update(name_space);
  return hash.finish();
}

uint64_t KvPageHeader::ids_offset() const { return sizeof(Fixed); }

Result<KvPageHeader> parse_kv_page_header(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Fixed)) {
    return Status(ErrorCode::kTruncated, "KV page: " + std::to_string(bytes.size()) + " bytes, a header has " +
                                             std::to_string(sizeof(Fixed)) + " at least");
  }
  const Fixed fixed = load_fixed(bytes);
  if (fixed.magic != kMagic) return Status(ErrorCode::kBadMagic, "KV page: does not begin as one");
  if (fixed.endian_mark != kEndianMark) {
    return Status(ErrorCode::kUnsupportedVersion, "KV page: written in another byte order");
  }
  if (fixed.version != kVersion) {
    return Status(ErrorCode::kUnsupportedVersion, "KV page: format version " + std::to_string(fixed.version) +
                                                      ", this program reads version " + std::to_string(kVersion));
  }
  TRY(check_counts(fixed));
  return KvPageHeader{.identity = {{fixed.fingerprint}, fixed.name_space},
                      .first_position = static_cast<size_t>(fixed.first_position),
                      .n_rows = fixed.n_rows,
                      .n_blocks = fixed.n_blocks,
                      .block_bytes = fixed.block_bytes,
                      .header_bytes = fixed.header_bytes,
                      .record_bytes = fixed.record_bytes,
                      .checksum = fixed.checksum};
}

size_t kv_page_header_bytes(const KvLayout& layout, size_t n_ids) {
  return static_cast<size_t>(header_bytes_of(n_ids, layout.n_layers()).value());
}

size_t kv_page_record_bytes(const KvLayout& layout, size_t n_ids) {
  return kv_page_header_bytes(layout, n_ids) + layout.page_bytes();
}

std::vector<std::byte> encode_kv_page_header(const KvLayout& layout, const KvPageIdentity& identity, TokenSpan ids,
                                             const std::byte* page) {
  CHECK(!ids.empty());
  const size_t first_position = (ids.size() - 1) / kPagePositions * kPagePositions;
  std::vector<std::byte> header(kv_page_header_bytes(layout, ids.size()));
  Fixed fixed{.magic = kMagic,
              .version = kVersion,
              .endian_mark = kEndianMark,
              .header_bytes = header.size(),
              .fingerprint = identity.fingerprint.bytes,
              .name_space = identity.name_space,
              .first_position = first_position,
              .n_rows = static_cast<uint32_t>(ids.size() - first_position),
              .n_blocks = static_cast<uint32_t>(layout.n_layers()),
              .block_bytes = block_bytes_of(layout),
              .record_bytes = header.size() + layout.page_bytes(),
              .checksum = 0};
  std::memcpy(header.data(), &fixed, sizeof fixed);
  std::memcpy(header.data() + sizeof fixed, ids.data(), ids.size_bytes());
  const size_t table = header.size() - layout.n_layers() * sizeof(uint64_t);
  const uint64_t identity_hash = identity_hash_of(header, table);
  for (size_t layer = 0; layer < layout.n_layers(); ++layer) {
    const uint64_t checksum =
        block_checksum(identity_hash, layer, {page + layout.layer(layer).record_offset, layout.layer(layer).bytes()});
    std::memcpy(header.data() + table + layer * sizeof checksum, &checksum, sizeof checksum);
  }
  fixed.checksum = checksum_of(header, table, identity_hash);
  std::memcpy(header.data(), &fixed, sizeof fixed);
  return header;
}

Result<KvPageCheck> KvPageCheck::open(std::span<const std::byte> header, const KvLayout& layout,
                                      const KvPageIdentity& identity, TokenSpan ids) {
  KvPageCheck check;
  TRY_ASSIGN(check.header_, parse_kv_page_header(header));
  const KvPageHeader& found = check.header_;
  if (header.size() < found.header_bytes) {
    return Status(ErrorCode::kTruncated, "KV page: ends in its header");
  }
  header = header.first(static_cast<size_t>(found.header_bytes));
  const size_t table = table_offset_of(found);
  check.identity_hash_ = identity_hash_of(header, table);
  check.checksums_ = header.subspan(table);
  if (checksum_of(header, table, check.identity_hash_) != found.checksum) {
    return Status(ErrorCode::kCorrupt, "KV page: the checksum of the header disagrees");
  }
  if (found.identity.fingerprint != identity.fingerprint) return mismatch("computation");
  if (found.identity.name_space != identity.name_space) return mismatch("namespace");
  if (found.n_blocks != layout.n_layers() || found.block_bytes != block_bytes_of(layout) ||
      found.record_bytes - found.header_bytes != layout.page_bytes()) {
    return mismatch("layout");
  }
  if (ids.size() <= found.first_position || ids.size() > found.n_ids() ||
      std::memcmp(header.data() + sizeof(Fixed), ids.data(), ids.size_bytes()) != 0) {
    return mismatch("text");
  }
  return check;
}

Status KvPageCheck::check_block(size_t layer, std::span<const std::byte> block) const {
  CHECK_LT(layer, header_.n_blocks);
  if (header_.block_bytes != 0) CHECK_EQ(block.size(), header_.block_bytes);
  uint64_t wanted = 0;
  std::memcpy(&wanted, checksums_.data() + layer * sizeof wanted, sizeof wanted);
  if (block_checksum(identity_hash_, layer, block) == wanted) return {};
  return {ErrorCode::kCorrupt, "KV page: the checksum of layer " + std::to_string(layer) + " disagrees"};
}

Result<size_t> decode_kv_page(std::span<const std::byte> bytes, const KvLayout& layout,
                              const KvPageIdentity& identity, TokenSpan ids, const PageMemory& page) {
  TRY_ASSIGN(const KvPageCheck check, KvPageCheck::open(bytes, layout, identity, ids));
  const KvPageHeader& header = check.header();
  if (bytes.size() < header.record_bytes) return Status(ErrorCode::kTruncated, "KV page: ends in its blocks");
  const auto blocks = bytes.subspan(static_cast<size_t>(header.header_bytes), layout.page_bytes());
  for (size_t layer = 0; layer < layout.n_layers(); ++layer) {
    TRY(check.check_block(layer, blocks.subspan(layout.layer(layer).record_offset, layout.layer(layer).bytes())));
  }
  const size_t n_all = layout.part_bytes(PagePart::kAll);
  std::memcpy(page.all, blocks.data(), n_all);
  if (blocks.size() > n_all) std::memcpy(page.window, blocks.data() + n_all, blocks.size() - n_all);
  return static_cast<size_t>(header.record_bytes);
}

}  // namespace ibid
