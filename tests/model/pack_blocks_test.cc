#include "model/weights/pack_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "kernels/layout/pack.h"
#include "weights/block_formats.h"

namespace ibid {
namespace {

constexpr DType kPackable[] = {
    DType::kQ4_0,    DType::kQ4_1,   DType::kQ5_0,  DType::kQ5_1,    DType::kQ8_0,  DType::kQ2_K,   DType::kQ3_K,
    DType::kQ4_K,    DType::kQ5_K,   DType::kQ6_K,  DType::kTQ1_0,   DType::kTQ2_0, DType::kIQ1_S,  DType::kIQ1_M,
    DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ4_XS, DType::kIQ4_NL,
    DType::kMXFP4,   DType::kNVFP4,  DType::kF16,   DType::kBF16,    DType::kF32};

size_t row_bytes(DType dtype, size_t n_cols) { return n_cols / dtype_block(dtype).values * dtype_block(dtype).bytes; }

// Codes and scales of consecutive rows, as the block decoders return them.
struct Decoded {
  Decoded(DType dtype, const std::vector<std::byte>& blocks, size_t n_rows, size_t n_cols)
      : n(n_rows), codes(n_rows * n_cols) {
    if (dtype_is_float(dtype)) {
      codes.clear();
      halves.resize(dtype == DType::kF32 ? 0 : n_rows * n_cols);
      floats.resize(dtype == DType::kF32 ? n_rows * n_cols : 0);
      std::memcpy(dtype == DType::kF32 ? static_cast<void*>(floats.data()) : halves.data(), blocks.data(),
                  blocks.size());
      return;
    }
    const QuantLayout layout = quant_layout(dtype);
    const size_t groups = codes.size() / layout.group_size;
    if (!has_super_scales(dtype)) {
      scales.resize(groups);
      mins.resize(layout.has_mins ? groups : 0);
      unpack_row(dtype, blocks, codes, scales, mins);
      return;
    }
    super_scales.resize(codes.size() / kMaxValuesPerBlock);
    super_mins.resize(layout.has_mins ? super_scales.size() : 0);
    scale_codes.resize(groups);
    min_codes.resize(layout.has_mins ? groups : 0);
    unpack_super_row(dtype, blocks, codes, {super_scales, super_mins, scale_codes, min_codes});
  }

  PanelRows rows() const {
    PanelRows rows;
    rows.n_rows = n;
    rows.codes = codes;
    rows.scales = scales;
    rows.mins = mins;
    rows.super_scales = super_scales;
    rows.super_mins = super_mins;
    rows.scale_codes = scale_codes;
    rows.min_codes = min_codes;
    rows.halves = halves;
    rows.floats = floats;
    return rows;
  }

  size_t n;
  std::vector<int8_t> codes, scale_codes, min_codes;
  std::vector<float> scales, mins, floats;
  std::vector<uint16_t> super_scales, super_mins, halves;
};

struct alignas(64) Line {
  std::byte bytes[64];
};

class PackBlocks : public testing::TestWithParam<std::tuple<DType, size_t, size_t>> {};

// Random bytes give blocks with every code and scale, and with scales that are not finite.
TEST_P(PackBlocks, BlocksPackedDirectlyEqualBlocksDecodedThenPacked) {
  const auto [dtype, n_rows, blocks_per_row] = GetParam();
  const size_t n_cols = blocks_per_row * dtype_block(dtype).values;
  const PanelType type = panel_type_for(dtype);
  const size_t n_lines = panel_bytes(type, n_cols) / sizeof(Line);
  std::mt19937 rng(static_cast<unsigned>(100 * n_rows + blocks_per_row));
  for (int round = 0; round < 8; ++round) {
    std::vector<std::byte> blocks(n_rows * row_bytes(dtype, n_cols));
    for (std::byte& byte : blocks) byte = static_cast<std::byte>(rng());
    std::vector<Line> want(n_lines), got(n_lines + 1);
    pack_panel(type, n_cols, Decoded(dtype, blocks, n_rows, n_cols).rows(), want[0].bytes);

    // Place the blocks at an odd address, with the last row at the end of an allocation.
    std::vector<std::byte> odd(blocks.size() + 1);
    std::memcpy(odd.data() + 1, blocks.data(), blocks.size());
    std::vector<const std::byte*> rows;
    for (size_t r = 0; r < n_rows; ++r) rows.push_back(odd.data() + 1 + r * row_bytes(dtype, n_cols));
    std::memset(static_cast<void*>(got.data()), 0x5a, got.size() * sizeof(Line));
    pack_blocks(dtype, rows, n_cols, got[0].bytes);
    for (size_t i = 0; i < n_lines * sizeof(Line); ++i) {
      ASSERT_EQ(got[0].bytes[i], want[0].bytes[i]) << "byte " << i << " of " << n_lines * sizeof(Line);
    }
    for (const std::byte behind : got[n_lines].bytes) ASSERT_EQ(behind, std::byte{0x5a});
  }
}

std::string name_of(const testing::TestParamInfo<PackBlocks::ParamType>& info) {
  return std::string(dtype_name(std::get<0>(info.param))) + "_" + std::to_string(std::get<1>(info.param)) + "rows" +
         std::to_string(std::get<2>(info.param)) + "blocks";
}

INSTANTIATE_TEST_SUITE_P(Types, PackBlocks,
                         testing::Combine(testing::ValuesIn(kPackable), testing::Values(1, 7, 15, 16),
                                          testing::Values(1, 2, 5, 13)),
                         name_of);

TEST(PackBlocksTypes, EightBitFloatsKeepTheirValues) {
  constexpr size_t kRows = 13, kCols = 96;
  for (const DType dtype : {DType::kF8E4M3Scaled, DType::kF8E5M2Scaled}) {
    std::mt19937 rng(5);
    std::vector<std::byte> blocks(kRows * row_bytes(dtype, kCols));
    for (size_t at = 0; at < blocks.size(); at += 36) {
      const float scale = static_cast<float>(rng() % 1000) * 1e-4f;
      std::memcpy(&blocks[at], &scale, sizeof scale);
      for (size_t i = 4; i < 36; ++i) blocks[at + i] = static_cast<std::byte>(rng() % 0x7b);  // finite in both types
    }
    std::vector<const std::byte*> rows;
    for (size_t r = 0; r < kRows; ++r) rows.push_back(&blocks[r * row_bytes(dtype, kCols)]);
    const PanelType type = panel_type_for(dtype);
    std::vector<Line> panel(panel_bytes(type, kCols) / sizeof(Line));
    pack_blocks(dtype, rows, kCols, panel[0].bytes);
    const PackedMatrix packed{type, kRows, kCols, panel[0].bytes};
    std::vector<float> wanted(kCols), got(kCols);
    for (size_t r = 0; r < kRows; ++r) {
      dequantize_row(dtype, {rows[r], row_bytes(dtype, kCols)}, wanted);
      unpack_row(packed, r, got.data());
      ASSERT_EQ(std::memcmp(got.data(), wanted.data(), kCols * sizeof(float)), 0) << "row " << r;
    }
  }
}

TEST(PackBlocksTypes, CasesCoverAllTypesThatAreNotExpanded) {
  for (size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!can_dequantize(dtype)) continue;
    EXPECT_EQ(can_pack_blocks(dtype), dtype == DType::kF32 || panel_type_for(dtype) != PanelType::kPF)
        << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace ibid
