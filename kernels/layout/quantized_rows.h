// Input rows of a linear layer in int8, in the layout that its kernels read. A view: the buffers of the pass own the
// memory (model/forward/activations.h, model/forward/moe_block.h). Has no lock: the threads of a pass fill it, and all
// threads read it after a barrier.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/layout/panel.h"

namespace ibid {

// Each block of 32 columns of a row has one scale:
//   x[k] ~ scale * q[k],  scale = max|x| / 127 over the block, q = round to nearest even
// Columns are padded with zeros to a multiple of 64, so that kernels get whole chunks only. The rows of a group are
// interleaved block by block, in the order in which a tile of rows is read. A group has 16 rows; if there are fewer
// than 9 rows, the next power of two instead, because the blocks of one row would be 512 bytes apart and evict each
// other from the L1 cache. Kernels may read the missing rows of the last group, but drop the results.
inline constexpr size_t kRowGroup = 16;  // size of the largest group; LinearInput::rows() starts at multiples of it

struct QuantizedRows {
  size_t n_rows = 0;
  size_t n_cols = 0;            // columns of the layer, a multiple of 32; padded_cols() columns are stored
  size_t group = kRowGroup;     // G: rows interleaved in a group; a power of two
  int8_t* q = nullptr;          // [row groups, blocks, G, 32]  -127..127
  float* scale = nullptr;       // [row groups, blocks, G]
  float* scaled_sum = nullptr;  // [row groups, blocks, G]  scale * float(sum of q): the factor of a min of 32 columns
  int32_t* offset32 = nullptr;  // [row groups, blocks, G]  -128 * sum of q over 32 columns: removes the codes' offset
  int32_t* offset16 = nullptr;  // [row groups, blocks, 2, G]  as offset32, over 16 columns

  [[gnu::always_inline]] size_t padded_cols() const { return (n_cols + kChunkCols - 1) / kChunkCols * kChunkCols; }
  [[gnu::always_inline]] size_t blocks() const { return padded_cols() / kQuantBlock; }
  // Index of a row's block in scale, scaled_sum and offset32. The block's numbers in q start at 32 times this index.
  [[gnu::always_inline]] size_t at(size_t row, size_t block) const {
    const size_t in_group = row & (group - 1);
    return (row - in_group) * blocks() + block * group + in_group;
  }
  // Index of half 0 or 1 of a row's block in offset16.
  [[gnu::always_inline]] size_t half_at(size_t row, size_t block, size_t half) const {
    const size_t in_group = row & (group - 1);
    return (row - in_group) * 2 * blocks() + (2 * block + half) * group + in_group;
  }

  // Sets the number of rows to n, with undefined contents. REQUIRES: the memory was sized for at least n rows.
  void set_rows(size_t n);

  // from() returns a view of `memory` as the arrays of n_rows rows. REQUIRES: `memory` is 64-byte aligned and has
  // bytes(n_rows, n_cols) bytes.
  static size_t bytes(size_t n_rows, size_t n_cols);
  static QuantizedRows from(std::byte* memory, size_t n_rows, size_t n_cols);
};

}  // namespace ibid
