#include "kernels/layout/quantized_rows.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ibid {

namespace {

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
size_t padded_rows(size_t n) { return (n + kRowGroup - 1) / kRowGroup * kRowGroup; }

}  // namespace

size_t QuantizedRows::bytes(size_t n_rows, size_t n_cols) {
  const QuantizedRows end = from(nullptr, n_rows, n_cols);
  return static_cast<size_t>(reinterpret_cast<uintptr_t>(end.offset16)) +
         aligned(2 * padded_rows(n_rows) * end.blocks() * sizeof(int32_t));
}

void QuantizedRows::set_rows(size_t n) {
  n_rows = n;
  group = std::min(std::bit_ceil(n), kRowGroup);
}

QuantizedRows QuantizedRows::from(std::byte* memory, size_t n_rows, size_t n_cols) {
  CHECK_EQ(n_cols % kQuantBlock, size_t{0});
  QuantizedRows rows;
  rows.set_rows(n_rows);
  rows.n_cols = n_cols;
  auto address = reinterpret_cast<uintptr_t>(memory);
  const auto take = [&address](size_t bytes) {
    const uintptr_t start = address;
    address += aligned(bytes);
    return start;
  };
  const size_t n_blocks = padded_rows(n_rows) * rows.blocks();
  rows.q = reinterpret_cast<int8_t*>(take(n_blocks * kQuantBlock));
  rows.scale = reinterpret_cast<float*>(take(n_blocks * sizeof(float)));
  rows.scaled_sum = reinterpret_cast<float*>(take(n_blocks * sizeof(float)));
  rows.offset32 = reinterpret_cast<int32_t*>(take(n_blocks * sizeof(int32_t)));
  rows.offset16 = reinterpret_cast<int32_t*>(take(2 * n_blocks * sizeof(int32_t)));
  return rows;
}

}  // namespace ibid
