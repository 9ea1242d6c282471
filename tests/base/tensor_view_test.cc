#include "base/tensor_view.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(Shape, ShapeCountsElementsAndIsFormatted) {
  EXPECT_EQ((Shape{{}, 0}.elements()), 1u);
  EXPECT_EQ((Shape{{}, 0}.to_string()), "[]");
  const Shape matrix{{49152, 576}, 2};
  EXPECT_EQ(matrix.elements(), 49152u * 576u);
  EXPECT_EQ(matrix.to_string(), "[49152, 576]");
  EXPECT_EQ(matrix, (Shape{{49152, 576}, 2}));
  EXPECT_FALSE((matrix == Shape{{576, 49152}, 2}));
}

TEST(TensorView, RowBytesCountWholeBlocks) {
  EXPECT_EQ((TensorView{DType::kF32, {{3, 5}, 2}, {}}.row_bytes()), 20u);
  EXPECT_EQ((TensorView{DType::kQ4_1, {{7, 576}, 2}, {}}.row_bytes()), 576u / 32 * 20);
  EXPECT_EQ((TensorView{DType::kQ6_K, {{2, 3, 512}, 3}, {}}.row_bytes()), 420u);
}

}  // namespace
}  // namespace ibid
