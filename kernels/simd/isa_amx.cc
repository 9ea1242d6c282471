// The kernel table of AVX-512, with AMX versions of quantised linear layers and INT8 attention of many rows. Only
// fill_amx() has external linkage.

// Vector types are included first, because the kernel bodies use them.
// clang-format off
#include "kernels/simd/vec_avx512.h"
#include "kernels/simd/attend_amx-inl.h"
#include "kernels/simd/linear_amx-inl.h"
// clang-format on
#include "kernels/reference/ref.h"

namespace ibid {

namespace avx512 {
namespace {

// Minimum rows for AMX: with fewer rows a tile is not full, and unpacking a panel costs more than multiplying it.
constexpr size_t kAmxMinRows = kRowGroup;

// Minimum rows for AMX in attention: with fewer rows AVX-512 is as fast.
constexpr size_t kAmxMinQueries = 8;

// The AVX-512 kernels, for fewer rows and for other formats of keys and values.
Kernels vectors;

void linear_int8(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride,
                 std::byte* scratch) {
  if (x.n_rows < kAmxMinRows) return vectors.linear_int8(w, x, panels, y, y_stride, scratch);
  with_format(w.type, [&](auto format) { amx_format<decltype(format)>(w, x, panels, y, y_stride, scratch); });
}

void attend_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte* scratch) {
  const bool int8 = block.keys() == KvNumberFormat::kInt8 && block.values() == KvNumberFormat::kInt8;
  if (int8 && tile.n_rows >= kAmxMinQueries) return attend_int8_tile(block, tile, scratch);
  vectors.attend_tile(block, tile, scratch);
}

}  // namespace
}  // namespace avx512

void fill_amx(Kernels& table) {
  fill_avx512(table);
  avx512::vectors = table;
  table.name = "amx";
  table.linear_int8 = avx512::linear_int8;
  table.attend_tile = avx512::attend_tile;
}

}  // namespace ibid
