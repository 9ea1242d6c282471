// Input rows of a linear layer in int8, as its kernels read them. A view: the memory belongs to whoever gave it
// (model/forward/activations.h, model/forward/moe_block.h). No lock: one pass fills it, a barrier, then all threads
// read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/layout/panel.h"

namespace ibid {

// Per row and per block of 32 columns one scale:
//   x[k] ~ scale * q[k],  scale = max|x| / 127 over the block, q = round to nearest even
// Columns are padded with zeros to a multiple of 64, so that kernels never see a half chunk. Rows of one block lie side
// by side in groups, as a tile of rows reads them: sixteen, or where there are fewer than nine rows the next power of
// two, since one row's blocks 512 bytes apart would fall out of the first-level cache. Rows of the last group that are
// not there may be read (and what comes of them is dropped).
inline constexpr size_t kRowGroup = 16;  // the largest group: a part of the rows begins at a multiple of it

struct QuantizedRows {
  size_t n_rows = 0;
  size_t n_cols = 0;            // as in the layer, a multiple of 32; padded_cols() are there
  size_t group = kRowGroup;     // G, rows that lie side by side: a power of two
  int8_t* q = nullptr;          // [row groups, blocks, G, 32]  -127..127
  float* scale = nullptr;       // [row groups, blocks, G]
  float* scaled_sum = nullptr;  // [row groups, blocks, G]  scale * float(sum of q): what a min of 32 columns multiplies
  int32_t* offset32 = nullptr;  // [row groups, blocks, G]  -128 * sum of q over 32 columns: what codes that
  int32_t* offset16 = nullptr;  // [row groups, blocks, 2, G]  are stored as code + 128 count too much

  [[gnu::always_inline]] size_t padded_cols() const {
    return (n_cols + kChunkCols - 1) / kChunkCols * kChunkCols;
  }
  [[gnu::always_inline]] size_t blocks() const { return padded_cols() / kQuantBlock; }
  // Where a row's block is in scale, scaled_sum and offset32, and, times 32, in q.
  [[gnu::always_inline]] size_t at(size_t row, size_t block) const {
    const size_t in_group = row & (group - 1);
    return (row - in_group) * blocks() + block * group + in_group;
  }
  // In offset16: half 0 or 1 of the block.
  [[gnu::always_inline]] size_t half_at(size_t row, size_t block, size_t half) const {
    const size_t in_group = row & (group - 1);
    return (row - in_group) * 2 * blocks() + (2 * block + half) * group + in_group;
  }

  // Room for n rows, which nothing is known of yet. REQUIRES: n is at most what the memory was made for.
  void set_rows(size_t n);

  // The arrays of n_rows rows, one after another in memory: 64-byte aligned, bytes(n_rows, n_cols) long.
  static size_t bytes(size_t n_rows, size_t n_cols);
  static QuantizedRows from(std::byte* memory, size_t n_rows, size_t n_cols);
};

}  // namespace ibid
