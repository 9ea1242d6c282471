// The record of one page (cache/tier/kv_record.h): a block for each layer that keeps rows. First lie those of layers
// that read everything, then those with a window; their checksums are in the order of the layers. Of a page whose rows
// behind a window are gone the record has the blocks of the first part alone.
//
// Pure functions of bytes: no files, no locks. They throw nothing but std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "cache/tier/kv_record.h"
#include "ibid/token.h"

namespace ibid {

// Which parts of a page a record has.
enum class KvPageParts : uint8_t { kBoth, kFirst };

size_t kv_page_header_bytes(const KvLayout& layout, size_t n_ids, KvPageParts parts = KvPageParts::kBoth);
size_t kv_page_record_bytes(const KvLayout& layout, size_t n_ids, KvPageParts parts = KvPageParts::kBoth);

// Where the block of a layer begins, behind the header.
size_t kv_page_block_offset(const KvLayout& layout, const KvLayer& layer);
// What of `page`, both parts one behind the other, stands in a record behind the header.
std::span<const std::byte> kv_page_blocks(const KvLayout& layout, const std::byte* page,
                                          KvPageParts parts = KvPageParts::kBoth);

// What a record begins with; kv_page_blocks() follow.
//   ids: all from position 0 to the last row of the page. REQUIRES: not empty; rows behind the last are zero in
//   `page` (they would be another text's).
std::vector<std::byte> encode_kv_page_header(const KvLayout& layout, const KvPageIdentity& identity, TokenSpan ids,
                                             const std::byte* page, KvPageParts parts = KvPageParts::kBoth);

// The header of a record, after it was verified and found to be the wanted one. It verifies the blocks in turn.
class KvPageCheck {
 public:
  // header: the whole header. ids: what the record's first ids must be; they reach beyond its first_position, and
  // the record may have more.
  // Errors: those of KvRecordCheck::open(); kMismatch when it is of another layout.
  static Result<KvPageCheck> open(std::span<const std::byte> header, const KvLayout& layout,
                                  const KvPageIdentity& identity, TokenSpan ids);

  const KvRecordHeader& header() const { return record_.header(); }
  KvPageParts parts() const { return parts_; }

  // Reads the blocks one after the other, each into its place in `page`, and verifies it: read(offset, bytes) fills
  // `bytes` with what stands at an offset of the record. Errors: read's; kCorrupt.
  // REQUIRES: the bytes of open() still live.
  template <typename Read>
  Status read_blocks(const KvLayout& layout, const PageMemory& page, Read&& read) const {
    size_t index = 0;
    for (const KvLayer& layer : layout.layers()) {
      if (parts_ == KvPageParts::kFirst && layer.part == PagePart::kWindow) continue;
      const std::span<std::byte> block(page.layer(layer), layer.bytes());
      TRY(read(header().header_bytes + kv_page_block_offset(layout, layer), block));
      TRY(record_.check_block(index++, block));
    }
    return {};
  }

 private:
  KvRecordCheck record_;
  KvPageParts parts_ = KvPageParts::kBoth;
};

// What was read of a record.
struct DecodedPage {
  size_t record_bytes = 0;
  KvPageParts parts = KvPageParts::kBoth;
};
// Verifies the record that `bytes` begins with, all of it, and then copies its page to `page`, which has both parts.
// Errors: those of KvPageCheck, kTruncated; `page` was then not touched.
Result<DecodedPage> decode_kv_page(std::span<const std::byte> bytes, const KvLayout& layout,
                                   const KvPageIdentity& identity, TokenSpan ids, const PageMemory& page);

}  // namespace ibid
