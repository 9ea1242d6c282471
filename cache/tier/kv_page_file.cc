#include "cache/tier/kv_page_file.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace ibid {

namespace {

size_t n_blocks_of(const KvLayout& layout, KvPageParts parts) {
  if (parts == KvPageParts::kBoth) return layout.n_layers();
  return static_cast<size_t>(
      std::ranges::count(layout.layers(), PagePart::kAll, [](const KvLayer& layer) { return layer.part; }));
}

// Returns the bytes of a page's first part if no layer has data in it: the part is then a placeholder, which records
// omit. Returns 0 if a layer has data in it.
size_t place_holder_bytes(const KvLayout& layout) {
  return n_blocks_of(layout, KvPageParts::kFirst) > 0 ? 0 : layout.part_bytes(PagePart::kAll);
}

size_t blocks_bytes(const KvLayout& layout, KvPageParts parts) {
  const size_t bytes = parts == KvPageParts::kBoth ? layout.page_bytes() : layout.part_bytes(PagePart::kAll);
  return bytes - place_holder_bytes(layout);
}

uint64_t block_bytes_of(const KvLayout& layout, KvPageParts parts) {
  return parts == KvPageParts::kBoth && layout.n_layers() > 0 && layout.layers_are_alike() ? layout.layer(0).bytes()
                                                                                           : 0;
}

}  // namespace

size_t kv_page_header_bytes(const KvLayout& layout, size_t n_rows, KvPageParts parts) {
  return kv_record_header_bytes(n_rows, n_blocks_of(layout, parts));
}

size_t kv_page_record_bytes(const KvLayout& layout, size_t n_rows, KvPageParts parts) {
  return kv_page_header_bytes(layout, n_rows, parts) + blocks_bytes(layout, parts);
}

size_t kv_page_block_offset(const KvLayout& layout, const KvLayer& layer) {
  return layer.record_offset - place_holder_bytes(layout);
}

std::span<const std::byte> kv_page_blocks(const KvLayout& layout, const std::byte* page, KvPageParts parts) {
  return {page + place_holder_bytes(layout), blocks_bytes(layout, parts)};
}

std::vector<std::byte> encode_kv_page_header(const KvLayout& layout, const KvRecordInfo& info, const std::byte* page,
                                             KvPageParts parts) {
  CHECK(!info.text.page_ids.empty());
  std::vector<std::span<const std::byte>> blocks;
  for (const KvLayer& layer : layout.layers()) {
    if (parts == KvPageParts::kFirst && layer.part == PagePart::kWindow) continue;
    blocks.emplace_back(page + layer.record_offset, layer.bytes());
  }
  const KvRecordHeader what{.kind = KvRecordKind::kPage,
                            .identity = info.identity,
                            .first_position = info.text.page_begin,
                            .n_rows = info.text.page_ids.size(),
                            .block_bytes = block_bytes_of(layout, parts),
                            .before = info.text.before,
                            .writer = info.writer};
  return encode_kv_record_header(what, info.text.page_ids, blocks);
}

Result<KvPageCheck> KvPageCheck::open(std::span<const std::byte> header, const KvLayout& layout,
                                      const KvPageIdentity& identity, const KvRecordText& text) {
  KvPageCheck check;
  TRY_ASSIGN(check.record_, KvRecordCheck::open(header, KvRecordKind::kPage, identity, text));
  const KvRecordHeader& found = check.header();
  const auto is_of = [&](KvPageParts parts) {
    return found.n_blocks == n_blocks_of(layout, parts) && found.block_bytes == block_bytes_of(layout, parts) &&
           found.record_bytes - found.header_bytes == blocks_bytes(layout, parts);
  };
  if (!is_of(KvPageParts::kBoth)) {
    if (layout.window() == 0 || !is_of(KvPageParts::kFirst)) return kv_record_mismatch("layout");
    check.parts_ = KvPageParts::kFirst;
  }
  if (text.page_ids.empty()) return kv_record_mismatch("text");
  return check;
}

Result<DecodedPage> decode_kv_page(std::span<const std::byte> bytes, const KvLayout& layout,
                                   const KvPageIdentity& identity, const KvRecordText& text, const PageMemory& page) {
  TRY_ASSIGN(const KvPageCheck check, KvPageCheck::open(bytes, layout, identity, text));
  const auto n_bytes = static_cast<size_t>(check.header().record_bytes);
  if (bytes.size() < n_bytes) return Status(ErrorCode::kTruncated, "KV page: ends inside its blocks");
  // Verify everything in a copy, so that `page` is unchanged after an error.
  std::vector<std::byte> copy(layout.page_bytes());
  const PageMemory parts = layout.parts_of(copy.data());
  TRY(check.read_blocks(layout, parts, [&](uint64_t offset, std::span<std::byte> block) {
    std::memcpy(block.data(), bytes.data() + offset, block.size());
    return Status();
  }));
  std::memcpy(page.all, parts.all, layout.part_bytes(PagePart::kAll));
  if (check.parts() == KvPageParts::kBoth && layout.window() > 0) {
    std::memcpy(page.window, parts.window, layout.part_bytes(PagePart::kWindow));
  }
  return DecodedPage{n_bytes, check.parts()};
}

}  // namespace ibid
