// Records: the keys and values of a page, or a recurrent state, as bytes. A file of the cold tier (the cache directory)
// holds one record, a saved session several; docs/kv_cache.md draws them. A record identifies itself completely: the
// fingerprint of the computation, the namespace (as a digest, because names may be user keys) with its epoch, its own
// tokens, and a SHA-256 that stands for all tokens before them (docs/decisions/0048). Blocks follow the header, each
// with its own checksum.
//
// This file has what the records of pages and of states have in common. cache/tier/kv_page_file.h and
// cache/tier/kv_state_file.h define their blocks.
//
// Records are untrusted input. No data is used before the whole header was verified and matches the wanted identity.
// Every error is typed and changes nothing. Checksums detect accidents, not forgery: a program that may write the file
// may forge it.
// Pure functions of bytes: no files, no locks. They throw nothing but std::bad_alloc.
#pragma once

#include <array>
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
  // A store that cannot delete all records of a namespace changes the epoch instead (KvTier::clear()), and no record of
  // another epoch is used. 0 in stores that delete.
  uint64_t epoch = 0;
  bool operator==(const KvPageIdentity&) const = default;
};

Sha256Digest digest_of_namespace(std::string_view name_space);

// Identifies the process that wrote a record, so that wrong records can be counted by writer: half of it is the same
// for all processes of a machine. Zero: unknown, as in saved sessions, which are the same bytes on every machine.
using KvWriterId = std::array<std::byte, 16>;

// Digest of fingerprint, namespace and tokens in whole pages (cache/tier/page_name.h computes it). Equal digests are
// taken for equal tokens.
using KvTextDigest = Sha256Digest;

// The text of a record: all tokens before its page, and its own tokens from the beginning of the page on.
struct KvRecordText {
  KvTextDigest before{};
  size_t page_begin = 0;  // number of tokens before; a multiple of 64
  TokenSpan page_ids = {};
};

// The parts of a header that the writer of a page or state chooses.
struct KvRecordInfo {
  KvPageIdentity identity;
  KvRecordText text;
  KvWriterId writer{};
};

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
  KvTextDigest before{};      // digest of the tokens before page_begin()
  KvWriterId writer{};

  size_t n_tokens() const { return first_position + n_rows; }
  // First position of the page that contains first_position.
  size_t page_begin() const { return first_position / kPagePositions * kPagePositions; }
  size_t n_page_ids() const { return n_tokens() - page_begin(); }  // tokens in the record: those from page_begin() on
};

inline constexpr size_t kKvRecordFixedBytes = 192;  // the tokens of the record follow them

// Parses the fixed beginning of a record, which must be at the start of `bytes` and has kKvRecordFixedBytes bytes.
// Errors: kTruncated, kBadMagic, kUnsupportedVersion, kBadHeader, kOverflow.
Result<KvRecordHeader> parse_kv_record_header(std::span<const std::byte> bytes);

// Returns the tokens of a record. REQUIRES: `record` has at least the whole header.
Tokens kv_record_page_ids(std::span<const std::byte> record, const KvRecordHeader& header);

size_t kv_record_header_bytes(size_t n_page_ids, size_t n_blocks);

// Returns the header of a record; the blocks follow it. Uses kind, identity, first_position, n_rows, block_bytes,
// before and writer of `what`. page_ids: all n_page_ids() tokens.
std::vector<std::byte> encode_kv_record_header(const KvRecordHeader& what, TokenSpan page_ids,
                                               std::span<const std::span<const std::byte>> blocks);

// A verified header that matches the wanted identity. check_block() verifies the blocks.
class KvRecordCheck {
 public:
  // header: the whole header. text: the record must have these tokens before its page, and begin with its page_ids; it
  // may have more.
  // Errors: those of parse_kv_record_header(); kCorrupt if the checksum differs; kUnsupportedVersion for another
  // version of the numerics; kMismatch if the record is valid, but of another kind, computation, namespace or text.
  static Result<KvRecordCheck> open(std::span<const std::byte> header, KvRecordKind kind,
                                    const KvPageIdentity& identity, const KvRecordText& text);

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
