// Forged records: with wrong bits and right checksums, as from a machine that computes wrongly.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/kv_state_file.h"

namespace ibid {

inline std::string to_string(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the record with one bit of its first block flipped.
inline std::string forged_page(const KvLayout& layout, const std::string& record) {
  const auto bytes = std::as_bytes(std::span(record));
  const KvRecordHeader header = parse_kv_record_header(bytes).value();
  const Tokens ids = kv_record_page_ids(bytes, header);
  const bool has_window = header.record_bytes == kv_page_record_bytes(layout, ids.size());
  const KvPageParts parts = has_window ? KvPageParts::kBoth : KvPageParts::kFirst;
  const size_t n_blocks = bytes.size() - header.header_bytes;
  std::vector<std::byte> page(layout.page_bytes());
  // The place of the blocks within a page.
  const size_t at = static_cast<size_t>(kv_page_blocks(layout, page.data(), parts).data() - page.data());
  std::memcpy(page.data() + at, bytes.data() + header.header_bytes, n_blocks);
  page[at] ^= std::byte{0x40};
  const KvRecordInfo info{header.identity, {header.before, header.page_begin(), ids}, header.writer};
  return to_string(encode_kv_page_header(layout, info, page.data(), parts)) +
         to_string(std::span(page).subspan(at, n_blocks));
}

// Returns the record with one bit of its state (or, at position 0, of its first row) flipped; with of_last_row, of its
// last row.
inline std::string forged_state(const KvLayout& layout, const std::string& record, bool of_last_row = false) {
  const auto bytes = std::as_bytes(std::span(record));
  const KvRecordHeader header = parse_kv_record_header(bytes).value();
  const Tokens ids = kv_record_page_ids(bytes, header);
  std::vector<std::byte> blocks(bytes.begin() + static_cast<ptrdiff_t>(header.header_bytes), bytes.end());
  const size_t row_bytes = layout.state_row_floats() * sizeof(float);
  blocks[of_last_row ? blocks.size() - row_bytes : 0] ^= std::byte{1};
  const size_t state_bytes = header.first_position == 0 ? 0 : layout.state_bytes();
  StateSnapshot snapshot{.position = header.first_position, .n_rows = header.n_rows};
  if (header.n_rows > 0) {
    const auto rows = std::make_shared<StateRows>(header.n_rows, layout.state_row_floats());
    CHECK_EQ(blocks.size() - state_bytes, header.n_rows * row_bytes);
    std::memcpy(rows->row(0), blocks.data() + state_bytes, header.n_rows * row_bytes);
    snapshot.rows = rows;
  }
  const KvRecordInfo info{header.identity, {header.before, header.page_begin(), ids}, header.writer};
  return to_string(encode_kv_state_header(layout, info, snapshot, blocks.data())) + to_string(blocks);
}

}  // namespace ibid
