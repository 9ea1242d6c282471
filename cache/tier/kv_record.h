// Records: the keys and values of a page, or a recurrent state, as bytes. A file of the cold tier (the cache directory)
// holds one record, a saved session several; docs/kv_cache.md draws them. A record identifies itself completely: the
// fingerprint of the computation, the namespace (as a digest, because names may be user keys), and all tokens that it
// depends on. Blocks follow the header, each with its own checksum.
//
// This file has what the records of pages and of states have in common. cache/tier/kv_page_file.h and
// cache/tier/kv_state_file.h define their blocks.
//
// Records are untrusted input. No data is used before the whole header was verified and matches the wanted identity.
// Every error is typed and changes nothing. Checksums detect accidents, not forgery: a program that may write the file
// may forge it.
// Pure functions of bytes: no files, no locks. They throw nothing but std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "ibid/token.h"
#include "kernels/kernels.h"

namespace ibid {

// Identifies the computation of keys and values. Processes with equal fingerprints compute the same bits for the same
// tokens; data with another fingerprint is never used. The engine chooses the fields (weights, hyperparameters,
// tokenizer, template, KV type and layout, version of the numerics).
struct Fingerprint {
  Sha256Digest bytes{};
  // Version of the numerics (the arithmetic of the kernels). `bytes` is a hash, which covers it too; this copy is
  // readable, so that errors can name the version.
  uint32_t numerics_version = 0;
  bool operator==(const Fingerprint&) const = default;
};

// SHA-256 of all fields in the order of the calls. Names and values are hashed with their lengths, so that different
// lists of fields never hash the same bytes. For one thread. Only its constructor throws (std::bad_alloc).
class FingerprintBuilder {
 public:
  FingerprintBuilder& add(std::string_view name, std::span<const std::byte> value);
  FingerprintBuilder& add(std::string_view name, std::string_view value);
  FingerprintBuilder& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  FingerprintBuilder& add(std::string_view name, uint64_t value);
  // Returns the fingerprint, and empties the builder.
  Fingerprint finish(uint32_t numerics_version = 0) { return {hash_.finish(), numerics_version}; }

 private:
  Sha256 hash_;
};

// Identity of a record: records of equal identity and tokens hold the same bits.
struct KvPageIdentity {
  Fingerprint fingerprint;
  Sha256Digest name_space{};
  bool operator==(const KvPageIdentity&) const = default;
};

Sha256Digest digest_of_namespace(std::string_view name_space);

enum class KvRecordKind : uint8_t {
  kPage,   // keys and values of n_rows positions from first_position on
  kState,  // recurrent state after first_position tokens, and the rows of the next n_rows tokens
};

// Fixed beginning of a record. Its fields were checked against each other, but its checksum was not verified.
struct KvRecordHeader {
  KvRecordKind kind = KvRecordKind::kPage;
  KvPageIdentity identity;
  size_t first_position = 0;  // position of the first row; for a page a multiple of 64
  size_t n_rows = 0;          // number of rows: 1..64 in a page, 0..64 with a state
  size_t n_blocks = 0;
  uint64_t block_bytes = 0;   // size of each block; 0: the sizes differ
  uint64_t header_bytes = 0;  // bytes before the first block
  uint64_t record_bytes = 0;  // bytes of header and blocks
  uint64_t checksum = 0;      // checksum of the header

  size_t n_tokens() const { return first_position + n_rows; }
  // First position of the page that contains first_position.
  size_t page_begin() const { return first_position / kPagePositions * kPagePositions; }
  uint64_t ids_offset() const;  // offset of the token of position 0 within the record
};

inline constexpr size_t kKvRecordFixedBytes = 136;

// Parses the fixed beginning of a record, which must be at the start of `bytes` and has kKvRecordFixedBytes bytes.
// Errors: kTruncated, kBadMagic, kUnsupportedVersion, kBadHeader, kOverflow.
Result<KvRecordHeader> parse_kv_record_header(std::span<const std::byte> bytes);

size_t kv_record_header_bytes(size_t n_tokens, size_t n_blocks);

// Returns the header of a record; the blocks follow it. Uses kind, identity, first_position, n_rows and block_bytes of
// `what`. ids: all n_tokens() tokens.
std::vector<std::byte> encode_kv_record_header(const KvRecordHeader& what, TokenSpan ids,
                                               std::span<const std::span<const std::byte>> blocks);

// A verified header that matches the wanted identity. check_block() verifies the blocks.
class KvRecordCheck {
 public:
  // header: the whole header. ids: the tokens that the record must begin with; the record may have more.
  // Errors: those of parse_kv_record_header(); kCorrupt if the checksum differs; kUnsupportedVersion for another
  // version of the numerics; kMismatch if the record is valid, but of another kind, computation, namespace or text.
  static Result<KvRecordCheck> open(std::span<const std::byte> header, KvRecordKind kind,
                                    const KvPageIdentity& identity, TokenSpan ids);

  const KvRecordHeader& header() const { return header_; }
  // Error: kCorrupt if `block` does not have the bytes that were written as block `index`.
  // REQUIRES: the header bytes that were passed to open() still exist; index < n_blocks.
  Status check_block(size_t index, std::span<const std::byte> block) const;

 private:
  KvRecordHeader header_;
  uint64_t identity_hash_ = 0;
  std::span<const std::byte> checksums_;  // checksums of the blocks: [n_blocks] uint64_t, unaligned
};

// Returns kMismatch, whose message says that the record is of another `what`, for example "layout".
Status kv_record_mismatch(const char* what);
// Returns kUnsupportedVersion, with both versions of the numerics.
Status kv_record_of_other_numerics(uint32_t found, uint32_t own);

}  // namespace ibid
