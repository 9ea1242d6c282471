#include "model/weights/packing_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/number_formats.h"
#include "kernels/layout/pack.h"
#include "weights/block_formats.h"

namespace ibid {
namespace {

struct Matrix {
  DType dtype;
  size_t n_rows, n_cols;
  RowOrder order;
  bool transposed = false;
};

// Matrices that cover many huge pages in total: matrices of many windows, many matrices in one window, and partly
// filled panels.
const Matrix kMatrices[] = {
    {DType::kQ4_K, 8200, 2048, {}},   {DType::kQ4_0, 16, 32, {}},
    {DType::kF32, 1, 5, {}},          {DType::kQ8_0, 64, 96, RowOrder::halves_of_pairs(16, 16)},
    {DType::kF16, 3000, 700, {}},     {DType::kQ6_K, 1000, 1024, RowOrder::halves_of_pairs(8, 8)},
    {DType::kBF16, 17, 64, {}},       {DType::kQ2_K, 33, 256, {}},
    {DType::kQ5_1, 40, 64, {}},       {DType::kF32, 40, 24, {}, true},
    {DType::kBF16, 33, 70, {}, true},
};

class PackingListTest : public testing::TestWithParam<int> {
 protected:
  PackingListTest() {
    std::mt19937 rng(3);
    for (const Matrix& m : kMatrices) {
      TensorView& tensor = tensors_.emplace_back();
      tensor.dtype = m.dtype;
      tensor.shape = {{m.n_rows, m.n_cols}, 2};
      if (m.transposed) std::swap(tensor.shape.dims[0], tensor.shape.dims[1]);
      std::vector<std::byte>& bytes = bytes_.emplace_back(tensor.shape[0] * tensor.row_bytes());
      // As floats and scales, such bytes are small and finite.
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng() % 0x3c);
      tensor.data = bytes;
    }
  }

  static std::vector<PackedMatrix> place(Arena& arena) {
    std::vector<PackedMatrix> packed;
    arena.allocate(100);  // so that the first matrix does not begin at a page boundary
    for (const Matrix& m : kMatrices) {
      PackedMatrix& matrix = packed.emplace_back();
      matrix.type = panel_type_for(m.dtype);
      matrix.n_rows = m.n_rows;
      matrix.n_cols = m.n_cols;
      const size_t bytes = packed_bytes(matrix.type, m.n_rows, m.n_cols);
      matrix.data = arena.allocate(bytes);
      std::memset(const_cast<std::byte*>(matrix.data), 0x5a, bytes);
    }
    return packed;
  }

  // Expects that the whole tensor was reported once, last, and before that all of it in parts, except for the rows that
  // are packed at once; so the file does not stay in memory.
  static void expect_reported_in_parts(std::span<const std::byte> whole,
                                       const std::vector<std::span<const std::byte>>& done) {
    constexpr size_t kAtOnceBytes = size_t{5} << 20;
    size_t n_whole = 0, left = whole.size();
    for (const std::span<const std::byte> part : done) {
      if (part.data() < whole.data() || part.data() >= whole.data() + whole.size()) continue;
      EXPECT_EQ(n_whole, 0u);
      if (part.size() == whole.size()) {
        ++n_whole;
      } else {
        left -= std::min(left, part.size());
      }
    }
    EXPECT_EQ(n_whole, 1u);
    EXPECT_LE(left, kAtOnceBytes);
  }

  std::vector<std::vector<std::byte>> bytes_;
  std::vector<TensorView> tensors_;
};

TEST_P(PackingListTest, EveryRowIsPackedOnceForAnyNumberOfThreads) {
  Result<Arena> arena = Arena::create(size_t{64} << 20);
  ASSERT_TRUE(arena.ok());
  const std::vector<PackedMatrix> packed = place(*arena);
  PackingList list;
  for (size_t i = 0; i < packed.size(); ++i) {
    list.add("m" + std::to_string(i), tensors_[i], kMatrices[i].order, kMatrices[i].transposed, packed[i]);
  }
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(GetParam()).value();
  std::mutex mutex;
  std::vector<std::span<const std::byte>> done;
  const Status status = list.run(*team, [&](const TensorView& tensor) {
    const std::lock_guard lock(mutex);
    done.push_back(tensor.data);
  });
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (size_t i = 0; i < packed.size(); ++i) {
    expect_reported_in_parts(tensors_[i].data, done);
    const size_t row_bytes = tensors_[i].row_bytes();
    std::vector<float> got(packed[i].n_cols), want(packed[i].n_cols);
    for (size_t row = 0; row < packed[i].n_rows; ++row) {
      unpack_row(packed[i], row, got.data());
      const size_t source = kMatrices[i].order.source_row(row);
      if (kMatrices[i].transposed) {
        const size_t value_bytes = dtype_block(tensors_[i].dtype).bytes;
        for (size_t k = 0; k < want.size(); ++k) {
          const auto value = tensors_[i].data.subspan(k * row_bytes + source * value_bytes, value_bytes);
          dequantize_row(tensors_[i].dtype, value, std::span(want).subspan(k, 1));
        }
      } else {
        dequantize_row(tensors_[i].dtype, tensors_[i].data.subspan(source * row_bytes, row_bytes), want);
      }
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
          << "matrix " << i << " row " << row;
    }
  }
}

TEST(EmptyPackingList, RunSucceedsWithoutMatrices) {
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(2).value();
  EXPECT_TRUE(PackingList().run(*team, [](const TensorView&) { FAIL(); }).ok());
}

// Sets all bits of one block, in every quantised type. If the block then decodes to numbers that are not finite, the
// error must name its tensor, for both packed and expanded panels.
TEST(BadScales, NonFiniteBlockErrorNamesTensor) {
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(2).value();
  constexpr size_t kRows = 20, kCols = 512;
  size_t n_refused = 0;
  for (const NumberFormat& format : all_number_formats()) {
    if (!dtype_is_quantized(format.dtype)) continue;
    SCOPED_TRACE(std::string(format.name));
    TensorView good;
    good.dtype = format.dtype;
    good.shape = {{kRows, kCols}, 2};
    std::vector<std::byte> zeros(good.bytes()), bytes = zeros;
    good.data = zeros;
    TensorView bad = good;
    bad.data = bytes;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(17 * bad.row_bytes()), format.block.bytes, std::byte{0xff});
    std::vector<float> decoded(kCols);
    dequantize_row(format.dtype, bad.data.subspan(17 * bad.row_bytes(), bad.row_bytes()), decoded);
    const bool finite = std::ranges::all_of(decoded, [](float x) { return std::isfinite(x); });
    n_refused += finite ? 0 : 1;
    for (const PanelType type : {panel_type_for(format.dtype), PanelType::kPF}) {
      Result<Arena> arena = Arena::create(size_t{1} << 20);
      ASSERT_TRUE(arena.ok());
      PackingList list;
      for (const auto& [name, tensor] : {std::pair("good", &good), std::pair("bad", &bad), std::pair("last", &bad)}) {
        PackedMatrix packed{type, kRows, kCols, arena->allocate(packed_bytes(type, kRows, kCols))};
        list.add(name, *tensor, {}, false, packed);
      }
      const Status status = list.run(*team, [](const TensorView&) {});
      EXPECT_EQ(status.ok(), finite);
      if (!finite) {
        EXPECT_EQ(status.message(), "tensor bad holds a scale that is not finite");
      }
    }
  }
  EXPECT_GE(n_refused, 20u);
}

// Float rows, one with an infinity, as a RowSource that decodes blocks would produce them.
class MadeFloats : public RowSource {
 public:
  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override {
    for (const uint64_t row : rows) {
      const std::vector<float> values(8, row == 19 ? INFINITY : 1.0f);
      std::memcpy(out, values.data(), values.size() * sizeof(float));
      out += values.size() * sizeof(float);
    }
  }
  std::vector<std::span<const std::byte>> parts() const override { return {}; }
};

TEST(BadScales, NonFiniteValuesAreFoundInRowsOfARowSource) {
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(2).value();
  const MadeFloats rows;
  for (const size_t n_rows : {size_t{19}, size_t{20}}) {
    TensorView made;
    made.shape = {{n_rows, 8}, 2};
    made.source = &rows;
    Result<Arena> arena = Arena::create(size_t{1} << 20);
    ASSERT_TRUE(arena.ok());
    const PackedMatrix packed{PanelType::kPF, n_rows, 8, arena->allocate(packed_bytes(PanelType::kPF, n_rows, 8))};
    PackingList list;
    list.add("made", made, {}, false, packed);
    const Status status = list.run(*team, [](const TensorView&) {});
    EXPECT_EQ(status.code(), n_rows == 20 ? ErrorCode::kNonFinite : ErrorCode::kOk) << status.to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, PackingListTest, testing::Values(1, 2, 5));

}  // namespace
}  // namespace ibid
