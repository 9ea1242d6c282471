// The record of one page as bytes. A file of the cold tier holds one record, a saved session holds several;
// docs/kv_cache.md draws it. A record says completely what its rows are: the fingerprint of the computation, the
// namespace (as a digest, because names may be keys of users), and all ids from position 0 to the end of the page.
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
#include "base/types.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/fingerprint.h"

namespace ibid {

// Whose rows these are: rows of equal identity and equal ids are the same bits.
struct KvPageIdentity {
  Fingerprint fingerprint;
  Sha256Digest name_space{};
  bool operator==(const KvPageIdentity&) const = default;
};

Sha256Digest digest_of_namespace(std::string_view name_space);

// The fixed beginning of a record, checked against itself but not against its checksum.
struct KvPageHeader {
  KvPageIdentity identity;
  size_t first_position = 0;  // a multiple of 64
  size_t n_rows = 0;          // 1..64
  size_t n_blocks = 0;        // one per layer
  uint64_t block_bytes = 0;   // of each; 0: they differ
  uint64_t header_bytes = 0;  // up to the first block
  uint64_t record_bytes = 0;  // header and blocks
  uint64_t checksum = 0;      // of the header

  size_t n_ids() const { return first_position + n_rows; }
  uint64_t ids_offset() const;  // of the id at position 0
};

inline constexpr size_t kKvPageFixedBytes = 128;

// bytes: at least the first kKvPageFixedBytes of a record. Errors: kTruncated, kBadMagic, kUnsupportedVersion,
// kBadHeader, kOverflow.
Result<KvPageHeader> parse_kv_page_header(std::span<const std::byte> bytes);

size_t kv_page_header_bytes(const KvLayout& layout, size_t n_ids);
size_t kv_page_record_bytes(const KvLayout& layout, size_t n_ids);

// What a record begins with; `page` itself, page_bytes() long, follows: both parts, one behind the other.
//   ids: all from position 0 to the last row of the page. REQUIRES: not empty; rows behind the last are zero in
//   `page` (they would be another text's).
std::vector<std::byte> encode_kv_page_header(const KvLayout& layout, const KvPageIdentity& identity, TokenSpan ids,
                                             const std::byte* page);

// The header of a record, after it was verified and found to be the wanted one. It verifies the blocks in turn.
class KvPageCheck {
 public:
  // header: the whole header. ids: what the record's first ids must be; they reach beyond its first_position, and
  // the record may have more.
  // Errors: those of parse_kv_page_header; kCorrupt when the checksum disagrees; kMismatch when all is well, but it
  // is another computation's, namespace's, layout's or text's.
  static Result<KvPageCheck> open(std::span<const std::byte> header, const KvLayout& layout,
                                  const KvPageIdentity& identity, TokenSpan ids);

  const KvPageHeader& header() const { return header_; }
  // Error: kCorrupt when these are not the bytes that were written for this layer of this page.
  // REQUIRES: the bytes of open() still live; layer < n_blocks; block.size() is what the layout says.
  Status check_block(size_t layer, std::span<const std::byte> block) const;

 private:
  KvPageHeader header_;
  uint64_t identity_hash_ = 0;
  std::span<const std::byte> checksums_;  // [n_blocks] uint64_t, not aligned
};

// Verifies the record that `bytes` begins with, all of it, and then copies its page to `page`, which has both parts.
// Returns record_bytes. Errors: those of KvPageCheck, kTruncated; `page` was then not touched.
Result<size_t> decode_kv_page(std::span<const std::byte> bytes, const KvLayout& layout,
                              const KvPageIdentity& identity, TokenSpan ids, const PageMemory& page);

}  // namespace ibid
