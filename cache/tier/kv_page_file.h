// The record of one page (cache/tier/kv_record.h). It has a block for each layer that keeps keys and values: first the
// layers with full attention, then the sliding-window layers. The checksums are in layer order. If the page's window
// part was evicted, the record has only the blocks of the layers with full attention.
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

// Parts of a page that a record contains. kFirst: all but the window part.
enum class KvPageParts : uint8_t { kBoth, kFirst };

// n_rows: positions of the page, 1 to 64.
size_t kv_page_header_bytes(const KvLayout& layout, size_t n_rows, KvPageParts parts = KvPageParts::kBoth);
size_t kv_page_record_bytes(const KvLayout& layout, size_t n_rows, KvPageParts parts = KvPageParts::kBoth);

// Offset of a layer's block from the end of the header.
size_t kv_page_block_offset(const KvLayout& layout, const KvLayer& layer);
// Returns the bytes of `page` that follow the header in a record. REQUIRES: `page` is one block of memory, with its
// parts in the order of the file.
std::span<const std::byte> kv_page_blocks(const KvLayout& layout, const std::byte* page,
                                          KvPageParts parts = KvPageParts::kBoth);

// Returns the header of a record; kv_page_blocks() follow it. REQUIRES: positions after the last are zero in `page`
// (they would belong to another text); the page has tokens.
std::vector<std::byte> encode_kv_page_header(const KvLayout& layout, const KvRecordInfo& info, const std::byte* page,
                                             KvPageParts parts = KvPageParts::kBoth);

// A verified header that matches the wanted identity; read_blocks() verifies the blocks.
class KvPageCheck {
 public:
  // header: the whole header. text: as in KvRecordCheck::open(), with at least one token of the page.
  // Errors: those of KvRecordCheck::open(); kMismatch if the record is of another layout.
  static Result<KvPageCheck> open(std::span<const std::byte> header, const KvLayout& layout,
                                  const KvPageIdentity& identity, const KvRecordText& text);

  const KvRecordHeader& header() const { return record_.header(); }
  KvPageParts parts() const { return parts_; }

  // Reads the blocks in order into `page` and verifies them: read(offset, bytes) fills `bytes` from an offset of the
  // record. Errors: those of read(); kCorrupt. REQUIRES: the header bytes that were passed to open() still exist.
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

// Result of decode_kv_page().
struct DecodedPage {
  size_t record_bytes = 0;
  KvPageParts parts = KvPageParts::kBoth;
};
// Verifies the whole record at the start of `bytes`, and then copies its data to `page`, which has both parts. Errors:
// those of KvPageCheck, kTruncated; `page` is then unchanged.
Result<DecodedPage> decode_kv_page(std::span<const std::byte> bytes, const KvLayout& layout,
                                   const KvPageIdentity& identity, const KvRecordText& text, const PageMemory& page);

}  // namespace ibid
