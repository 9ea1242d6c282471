// HeadTiles: heads of values that stand in a checkpoint group by group, and in memory one of each group after the
// other, as GGUF has them: head h is of group h % n_groups. Plain data.
#pragma once

#include <cstddef>

namespace ibid {

struct HeadTiles {
  size_t n_groups = 0, of_group = 0;  // heads of a group; n_groups 0: what stands in the file stands so in memory
  size_t width = 0;                   // of a head, in rows or columns

  bool used() const { return n_groups != 0; }
  // Where the file has row (or column) `at`.
  size_t source(size_t at) const {
    if (!used()) return at;
    const size_t head = at / width;
    return ((head % n_groups) * of_group + head / n_groups) * width + at % width;
  }
  // One row, whose heads have head_bytes each, from the file's order into that of memory. REQUIRES: used().
  void take_heads(const std::byte* in, size_t head_bytes, std::byte* out) const;
};

// Of a matrix.
struct TiledHeads {
  HeadTiles rows, columns;
};

}  // namespace ibid
