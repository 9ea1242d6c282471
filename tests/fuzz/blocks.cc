// Blocks of every number format, decoded in three ways that must be bit-identical: as floats, as codes with
// scales, and as codes with the factors of the scales.
#include <array>
#include <bit>
#include <vector>

#include "base/check.h"
#include "base/number_formats.h"
#include "tests/fuzz/script.h"
#include "weights/block_formats.h"

namespace ibid::fuzz {

namespace {

bool same_bits(float a, float b) {
  // The payload of a NaN depends on the processor, so any two NaN are equal here.
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

struct Row {
  std::vector<int8_t> codes;
  std::vector<float> scales, mins;
};

Row unpacked(DType dtype, std::span<const std::byte> blocks, size_t n_values) {
  const QuantLayout layout = quant_layout(dtype);
  Row row;
  row.codes.resize(n_values);
  row.scales.resize(n_values / layout.group_size);
  row.mins.resize(layout.has_mins ? row.scales.size() : 0);
  unpack_row(dtype, blocks, row.codes, row.scales, row.mins);
  return row;
}

void check_codes(DType dtype, const Row& row, const std::vector<float>& values) {
  const QuantLayout layout = quant_layout(dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t group = i / layout.group_size;
    CHECK(row.codes[i] >= layout.min_code && row.codes[i] <= layout.max_code) << dtype_name(dtype);
    float rebuilt = row.scales[group] * static_cast<float>(row.codes[i]);
    if (layout.has_mins) rebuilt += row.mins[group];
    CHECK(same_bits(rebuilt, values[i])) << dtype_name(dtype) << ' ' << i << ' ' << rebuilt << ' ' << values[i];
  }
}

void check_factors(DType dtype, std::span<const std::byte> blocks, const Row& row) {
  const QuantLayout layout = quant_layout(dtype);
  const size_t n_blocks = row.codes.size() / dtype_block(dtype).values;
  std::vector<int8_t> codes(row.codes.size()), scales(row.scales.size()), mins(row.mins.size());
  std::vector<uint16_t> d(n_blocks), dmin(layout.has_mins ? n_blocks : 0);
  unpack_super_row(dtype, blocks, codes, {d, dmin, scales, mins});
  CHECK(codes == row.codes) << dtype_name(dtype);
  const float factor = layout.scales == ScaleKind::kEighthByCode ? 0.125f : 1.0f;
  const size_t groups_per_block = row.scales.size() / n_blocks;
  for (size_t g = 0; g < row.scales.size(); ++g) {
    const size_t block = g / groups_per_block;
    CHECK(same_bits(fp16_to_float(d[block]) * static_cast<float>(scales[g]) * factor, row.scales[g]))
        << dtype_name(dtype);
    if (!layout.has_mins) continue;
    CHECK(same_bits(-(fp16_to_float(dmin[block]) * static_cast<float>(mins[g])), row.mins[g])) << dtype_name(dtype);
  }
}

}  // namespace

void blocks(Input input) {
  Script script(input);
  const NumberFormat& format = script.pick(all_number_formats());
  if (!can_dequantize(format.dtype)) return;
  const auto bytes = std::as_bytes(script.rest());
  const size_t n_blocks = std::min<size_t>(bytes.size() / format.block.bytes, 2);
  if (n_blocks == 0) return;
  const std::vector<std::byte> exact(bytes.begin(),
                                     bytes.begin() + static_cast<ptrdiff_t>(n_blocks * format.block.bytes));
  std::vector<float> values(n_blocks * format.block.values);
  dequantize_row(format.dtype, exact, values);
  if (!dtype_is_quantized(format.dtype)) return;
  const Row row = unpacked(format.dtype, exact, values.size());
  check_codes(format.dtype, row, values);
  if (has_super_scales(format.dtype)) check_factors(format.dtype, exact, row);
}

}  // namespace ibid::fuzz
