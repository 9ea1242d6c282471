#include "kernels/layout/panel.h"

#include <gtest/gtest.h>

#include <vector>

namespace ibid {
namespace {

TEST(Panel, PanelBytesFollowTheLayout) {
  EXPECT_EQ(panel_bytes(PanelType::kP4, 64), 64u + 512u);
  EXPECT_EQ(panel_bytes(PanelType::kP4m, 64), 128u + 512u);
  EXPECT_EQ(panel_bytes(PanelType::kP4k, 256), 320u + 2048u);
  EXPECT_EQ(panel_bytes(PanelType::kP5, 64), 64u + 512u + 128u);
  EXPECT_EQ(panel_bytes(PanelType::kP5m, 64), 128u + 512u + 128u);
  EXPECT_EQ(panel_bytes(PanelType::kP5k, 256), 320u + 2048u + 512u);
  EXPECT_EQ(panel_bytes(PanelType::kP8, 64), 64u + 1024u);
  EXPECT_EQ(panel_bytes(PanelType::kP6k, 256), 320u + 3072u);
  EXPECT_EQ(panel_bytes(PanelType::kP2k, 256), 576u + 1024u);
  EXPECT_EQ(panel_bytes(PanelType::kP4e, 64), 64u + 512u);
  EXPECT_EQ(panel_bytes(PanelType::kP4f, 64), 128u + 512u);
  EXPECT_EQ(panel_bytes(PanelType::kP4nk, 256), 192u + 2048u);
  EXPECT_EQ(panel_bytes(PanelType::kP2s, 256), 320u + 2048u);
  EXPECT_EQ(panel_bytes(PanelType::kPH, 5), 192u);  // 160 padded
  EXPECT_EQ(panel_bytes(PanelType::kPF, 5), 320u);
  EXPECT_EQ(panel_bytes(PanelType::kP4k, 32), panel_bytes(PanelType::kP4k, 256));
  EXPECT_EQ(panel_bytes(PanelType::kP8, 96), panel_bytes(PanelType::kP8, 128));
  EXPECT_EQ(packed_bytes(PanelType::kP8, 17, 64), 2 * panel_bytes(PanelType::kP8, 64));
}

TEST(Panel, EveryWeightTypeHasAPanel) {
  EXPECT_EQ(panel_type_for(DType::kQ4_1), PanelType::kP4m);
  EXPECT_EQ(panel_type_for(DType::kQ3_K), PanelType::kP6k);
  EXPECT_EQ(panel_type_for(DType::kQ2_K), PanelType::kP2k);
  EXPECT_EQ(panel_type_for(DType::kBF16), PanelType::kPB);
  EXPECT_EQ(panel_type_for(DType::kF64), PanelType::kPF);
  EXPECT_EQ(panel_type_for(DType::kF8E4M3Scaled), PanelType::kPE4);
  EXPECT_EQ(panel_type_for(DType::kF8E5M2Scaled), PanelType::kPE5);
  EXPECT_EQ(panel_type_for(DType::kMXFP4), PanelType::kP4e);
  EXPECT_EQ(panel_type_for(DType::kNVFP4), PanelType::kP4f);
  EXPECT_EQ(panel_type_for(DType::kIQ4_NL), PanelType::kP4n);
  EXPECT_EQ(panel_type_for(DType::kIQ4_XS), PanelType::kP4nk);
  EXPECT_EQ(panel_type_for(DType::kIQ3_S), PanelType::kP3s);
  EXPECT_EQ(panel_type_for(DType::kIQ3_XXS), PanelType::kP3x);
  EXPECT_EQ(panel_type_for(DType::kIQ2_XXS), PanelType::kP2x);
  EXPECT_EQ(panel_type_for(DType::kIQ2_XS), PanelType::kP2s);
  EXPECT_EQ(panel_type_for(DType::kIQ2_S), PanelType::kP2s);
  EXPECT_EQ(panel_type_for(DType::kIQ1_S), PanelType::kP1s);
  EXPECT_EQ(panel_type_for(DType::kIQ1_M), PanelType::kP1m);
  EXPECT_EQ(panel_type_for(DType::kTQ1_0), PanelType::kP4);
  EXPECT_EQ(panel_type_for(DType::kTQ2_0), PanelType::kP4);
  EXPECT_STREQ(panel_type_name(PanelType::kP4m), "P4m");
}

// llama.cpp's converter permutes q and k as reshape(heads, 2, half, cols).swapaxes(1, 2); this undoes it.
TEST(Panel, UnpermuteUndoesThePermutationOfTheConverter) {
  const size_t heads = 3, head_dim = 8, half = head_dim / 2;
  std::vector<size_t> permuted;  // permuted[i] is the original row that is at row i of the file
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < half; ++i) {
      for (size_t s = 0; s < 2; ++s) permuted.push_back(h * head_dim + s * half + i);
    }
  }
  const RowOrder order = RowOrder::halves_of_pairs(head_dim, head_dim);
  for (size_t row = 0; row < heads * head_dim; ++row) EXPECT_EQ(permuted[order.source_row(row)], row);
  EXPECT_EQ(RowOrder{}.source_row(13), 13u);
}

// Only the rotated dimensions of a head are stored as pairs.
TEST(Panel, RowOrderReordersOnlyRotatedDimensions) {
  const RowOrder order = RowOrder::halves_of_pairs(6, 4);
  const size_t want[] = {0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11};
  for (size_t row = 0; row < 12; ++row) EXPECT_EQ(order.source_row(row), want[row]) << row;
}

// A fused tensor with two KV heads of three query heads each: q q q k v, q q q k v, of two rows each. Rows of k are
// pairs.
TEST(Panel, RowOrderSelectsPartsOfAFusedTensor) {
  RowOrder q{.first = 0, .block = 6, .stride = 10};
  RowOrder k{.first = 6, .block = 2, .stride = 10};
  EXPECT_EQ(q.source_row(5), 5u);
  EXPECT_EQ(q.source_row(6), 10u);
  EXPECT_EQ(q.source_row(11), 15u);
  EXPECT_EQ(k.source_row(1), 7u);
  EXPECT_EQ(k.source_row(2), 16u);
  RowOrder pairs{.first = 0, .block = 4, .stride = 12, .head_dim = 4, .rotary_dim = 4};
  const size_t want[] = {0, 2, 1, 3, 12, 14, 13, 15};
  for (size_t row = 0; row < 8; ++row) EXPECT_EQ(pairs.source_row(row), want[row]) << row;
}

}  // namespace
}  // namespace ibid
