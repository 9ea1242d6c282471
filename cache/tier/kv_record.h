// A record: rows of keys and values, or a recurrent state, as bytes. A file of the cold tier holds one, a saved session
// several; docs/kv_cache.md draws them. A record says completely what it is: the fingerprint of the computation, the
// namespace (as a digest, because names may be keys of users), and all ids that it depends on. Behind the header lie
// blocks, each with a checksum of its own.
//
// Here is what the two kinds have in common; cache/tier/kv_page_file.h and cache/tier/kv_state_file.h know what their
// blocks are.
//
// Records are bytes from outside. Nothing of a record is used before everything that it says about itself was
// verified and found to be what was wanted. Every error is typed and changes nothing. Checksums find accidents, not
// forgers: whoever may write the file may forge it.
//
// Pure functions of bytes: no files, no locks. They throw nothing but std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/tier/fingerprint.h"
#include "ibid/token.h"
#include "kernels/kernels.h"

namespace ibid {

// Whose rows these are: rows of equal identity and equal ids are the same bits.
struct KvPageIdentity {
  Fingerprint fingerprint;
  Sha256Digest name_space{};
  bool operator==(const KvPageIdentity&) const = default;
};

Sha256Digest digest_of_namespace(std::string_view name_space);

enum class KvRecordKind : uint8_t {
  kPage,   // keys and values of n_rows positions from first_position on
  kState,  // the recurrent state of first_position ids, and what the n_rows ids behind them gave to it
};

// The fixed beginning of a record, checked against itself but not against its checksum.
struct KvRecordHeader {
  KvRecordKind kind = KvRecordKind::kPage;
  KvPageIdentity identity;
  size_t first_position = 0;  // of the rows; of a page: a multiple of 64
  size_t n_rows = 0;          // a page: 1..64; a state: 0..64
  size_t n_blocks = 0;
  uint64_t block_bytes = 0;   // of each; 0: they differ
  uint64_t header_bytes = 0;  // up to the first block
  uint64_t record_bytes = 0;  // header and blocks
  uint64_t checksum = 0;      // of the header

  size_t n_ids() const { return first_position + n_rows; }
  // Where the page begins that has the first position.
  size_t page_begin() const { return first_position / kPagePositions * kPagePositions; }
  uint64_t ids_offset() const;  // of the id at position 0
};

inline constexpr size_t kKvRecordFixedBytes = 136;

// bytes: at least the first kKvRecordFixedBytes of a record. Errors: kTruncated, kBadMagic, kUnsupportedVersion,
// kBadHeader, kOverflow.
Result<KvRecordHeader> parse_kv_record_header(std::span<const std::byte> bytes);

size_t kv_record_header_bytes(size_t n_ids, size_t n_blocks);

// What a record begins with; its blocks follow. Of `what` the kind, the identity, first_position, n_rows and
// block_bytes count. ids: all n_ids() of them.
std::vector<std::byte> encode_kv_record_header(const KvRecordHeader& what, TokenSpan ids,
                                               std::span<const std::span<const std::byte>> blocks);

// The header of a record, after it was verified and found to be the wanted one, but for what its blocks are. It
// verifies these in turn.
class KvRecordCheck {
 public:
  // header: the whole header. ids: what the record's first ids must be; the record may have more.
  // Errors: those of parse_kv_record_header; kCorrupt when the checksum disagrees; kUnsupportedVersion when it was
  // computed by another version of the numerics; kMismatch when all is well, but it is of another kind, computation,
  // namespace or text.
  static Result<KvRecordCheck> open(std::span<const std::byte> header, KvRecordKind kind,
                                    const KvPageIdentity& identity, TokenSpan ids);

  const KvRecordHeader& header() const { return header_; }
  // Error: kCorrupt when these are not the bytes that were written as this block of this record.
  // REQUIRES: the bytes of open() still live; index < n_blocks.
  Status check_block(size_t index, std::span<const std::byte> block) const;

 private:
  KvRecordHeader header_;
  uint64_t identity_hash_ = 0;
  std::span<const std::byte> checksums_;  // [n_blocks] uint64_t, not aligned
};

// kMismatch: the record is of another `what`.
Status kv_record_mismatch(const char* what);
// kUnsupportedVersion, naming both: the record was computed by another version of the numerics.
Status kv_record_of_other_numerics(uint32_t found, uint32_t own);

}  // namespace ibid
