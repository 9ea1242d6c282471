// Loads the same four bytes of each of 16 rows into one Word of 16 lanes (lane r belongs to row r, as in a panel), and
// stores halves or bytes of all lanes. Packing (model/weights/pack_blocks.cc) uses these functions; its other steps are
// loops over the 16 lanes, which compilers vectorise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/layout/panel.h"

namespace ibid::lanes {

inline constexpr size_t kLanes = kPanelRows;

// One 32-bit word of each of 16 rows: lane r belongs to row r. The memory layout is that of a panel's codes.
using Word = uint32_t[kLanes];
// For each lane, the address of the current block of its row.
using Blocks = const std::byte* [kLanes];

// The rows that are being packed. Sixteen rows are too many streams for the processor to prefetch by itself, so while a
// panel is packed, the bytes after its rows are prefetched, in order: in a file these are the rows of the next panel.
struct RowCursor {
  Blocks blocks;
  uintptr_t ahead;  // address of the bytes to prefetch next, possibly after the end of the tensor

  // REQUIRES: 1 to kLanes rows of row_bytes bytes each; missing lanes repeat the last row.
  RowCursor(std::span<const std::byte* const> rows, size_t row_bytes)
      : ahead(reinterpret_cast<uintptr_t>(rows.front()) + kLanes * row_bytes) {
    for (size_t r = 0; r < kLanes; ++r) blocks[r] = rows[r < rows.size() ? r : rows.size() - 1];
  }

  // Moves every row to its next block: `bytes` is the size of a block.
  void advance(size_t bytes) {
    constexpr size_t kLineBytes = 64;
    for (const std::byte*& at : blocks) at += bytes;
    for (size_t i = 0; i < kLanes * bytes; i += kLineBytes) {
      __builtin_prefetch(reinterpret_cast<const void*>(ahead + i), 0, 2);
    }
    ahead += kLanes * bytes;
  }
};

inline uint32_t load_word(const std::byte* at) {
  uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

using FourWords [[gnu::vector_size(16)]] = uint32_t;

inline FourWords load_four(const std::byte* at) {
  FourWords four;
  std::memcpy(&four, at, sizeof four);
  return four;
}

// Transposes four words of four rows: writes word w of row first_row + i to words[w][first_row + i]. Uses shuffles,
// because compilers would move the words one by one.
[[gnu::always_inline]] inline void gather_4x4(const Blocks& blocks, size_t first_row, size_t offset,
                                              Word* __restrict words) {
  const FourWords a = load_four(blocks[first_row] + offset), b = load_four(blocks[first_row + 1] + offset);
  const FourWords c = load_four(blocks[first_row + 2] + offset), d = load_four(blocks[first_row + 3] + offset);
  const FourWords ab01 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab23 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const FourWords cd01 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd23 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const FourWords columns[] = {
      __builtin_shufflevector(ab01, cd01, 0, 1, 4, 5), __builtin_shufflevector(ab01, cd01, 2, 3, 6, 7),
      __builtin_shufflevector(ab23, cd23, 0, 1, 4, 5), __builtin_shufflevector(ab23, cd23, 2, 3, 6, 7)};
  for (size_t w = 0; w < 4; ++w) std::memcpy(&words[w][first_row], &columns[w], sizeof(FourWords));
}

// Loads kWords words from byte `offset` of each row's block; lane r of words[w] is word w of row r.
template <size_t kWords>
void gather(const Blocks& blocks, size_t offset, Word* __restrict words) {
  constexpr size_t kFours = kWords / 4 * 4;
  for (size_t r = 0; r < kLanes; r += 4) {
    for (size_t w = 0; w < kFours; w += 4) gather_4x4(blocks, r, offset + 4 * w, words + w);
  }
  for (size_t w = kFours; w < kWords; ++w) {
    for (size_t r = 0; r < kLanes; ++r) words[w][r] = load_word(blocks[r] + offset + 4 * w);
  }
}

inline void store_halves(const Word& halves, unsigned shift, std::byte* __restrict out) {
  uint16_t stored[kLanes];
  for (size_t r = 0; r < kLanes; ++r) stored[r] = static_cast<uint16_t>(halves[r] >> shift);
  std::memcpy(out, stored, sizeof stored);
}

// Stores the byte of each word that begins at bit `shift`.
inline void store_bytes(const Word& bytes, unsigned shift, std::byte* __restrict out) {
  uint8_t stored[kLanes];
  for (size_t r = 0; r < kLanes; ++r) stored[r] = static_cast<uint8_t>(bytes[r] >> shift);
  std::memcpy(out, stored, sizeof stored);
}

// Zeroes the lanes of missing rows (n_rows and above) in [begin, end), for elements of `bytes` bytes.
inline void clear_lanes(size_t n_rows, std::byte* begin, const std::byte* end, size_t bytes) {
  for (; begin < end; begin += kLanes * bytes) std::memset(begin + n_rows * bytes, 0, (kLanes - n_rows) * bytes);
}

}  // namespace ibid::lanes
