// The GGUF tensors attn_k_b and attn_v_b, presented as one matrix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/gguf_tensors.h"
#include "tests/support/temp_dir.h"
#include "weights/block_formats.h"
#include "weights/block_quantize.h"
#include "weights/gguf_reader.h"
#include "weights/gguf_writer.h"

namespace ibid {
namespace {

using testing::HasSubstr;

constexpr uint64_t kHeads = 3, kRank = 64, kNope = 96, kValue = 5, kOfHead = kNope + kValue;
constexpr const char* kKeys = "blk.7.attn_k_b.weight";
constexpr const char* kValues = "blk.7.attn_v_b.weight";
constexpr const char* kBoth = "blk.7.attn_kv_b.weight";

std::vector<float> numbers(size_t n, float first) {
  std::vector<float> all(n);
  for (size_t i = 0; i < n; ++i) all[i] = first + static_cast<float>(i % 97) / 64.0f - static_cast<float>(i % 11);
  return all;
}

// Returns `values` after encoding them to blocks and decoding these.
std::vector<float> rounded(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> blocks(values.size() / dtype_block(dtype).values * dtype_block(dtype).bytes);
  quantize_row(dtype, values, blocks);
  std::vector<float> decoded(values.size());
  dequantize_row(dtype, blocks, decoded);
  return decoded;
}

class SplitKvRows : public testing::Test {
 protected:
  Result<std::unique_ptr<ModelFile>> open(GgufWriter& writer) {
    writer.add_string("general.architecture", "deepseek2");
    return GgufFile::open(dir_.write("m.gguf", writer.bytes()));
  }
  TempDir dir_;
};

TEST_F(SplitKvRows, JoinsRowsOfKeysAndValuesByHead) {
  const std::vector<float> keys = numbers(kHeads * kRank * kNope, 0.5f), values = numbers(kHeads * kValue * kRank, -2);
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},  {DType::kBF16, DType::kBF16},
                                           {DType::kF16, DType::kF16},  {DType::kQ8_0, DType::kQ8_0},
                                           {DType::kQ4_0, DType::kF16}, {DType::kF16, DType::kBF16}};
  for (const auto& [of_keys, of_values] : types) {
    SCOPED_TRACE(std::string(dtype_name(of_keys)) + " " + std::string(dtype_name(of_values)));
    GgufWriter writer;
    add_tensor_of(writer, kKeys, of_keys, {{kHeads, kRank, kNope}, 3}, keys);
    add_tensor_of(writer, kValues, of_values, {{kHeads, kValue, kRank}, 3}, values);
    const auto file = open(writer);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const TensorView* both = (*file)->find_tensor(kBoth);
    ASSERT_NE(both, nullptr);
    EXPECT_THAT((*file)->tensor_names(), testing::ElementsAre(kKeys, kValues));
    const bool alike = of_keys == of_values && of_keys != DType::kQ8_0;
    EXPECT_EQ(both->dtype, alike ? of_keys : DType::kF32);
    EXPECT_EQ(both->shape, (Shape{{kHeads * kOfHead, kRank}, 2}));
    const std::vector<float> k = rounded(of_keys, keys), v = rounded(of_values, values);
    // Read rows in an order that jumps between heads, from keys to values, and within and across blocks.
    std::vector<uint64_t> rows;
    for (uint64_t i = 0; i < kHeads * kOfHead; ++i) rows.push_back(i * 37 % (kHeads * kOfHead));
    for (uint64_t i = 0; i < kHeads * kOfHead; ++i) rows.push_back(i);
    std::vector<std::byte> bytes(rows.size() * both->row_bytes());
    both->source->read_rows(rows, bytes.data());
    std::vector<float> got(rows.size() * kRank);
    dequantize_row(both->dtype, bytes, got);
    size_t n_different = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      const uint64_t head = rows[r] / kOfHead, row = rows[r] % kOfHead;
      for (uint64_t j = 0; j < kRank; ++j) {
        const float wanted =
            row < kNope ? k[(head * kRank + j) * kNope + row] : v[(head * kValue + row - kNope) * kRank + j];
        n_different += got[r * kRank + j] != wanted;
      }
    }
    EXPECT_EQ(n_different, 0u);
  }
}

TEST_F(SplitKvRows, AcceptsAMissingHeadDimension) {
  GgufWriter writer;
  add_tensor_of(writer, kKeys, DType::kF32, {{2, 3}, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  add_tensor_of(writer, kValues, DType::kF32, {{1, 2}, 2}, std::vector<float>{7, 8});
  const auto file = open(writer);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TensorView* both = (*file)->find_tensor(kBoth);
  ASSERT_NE(both, nullptr);
  EXPECT_EQ(both->shape, (Shape{{4, 2}, 2}));
  const uint64_t rows[] = {0, 1, 2, 3};
  float got[8];
  both->source->read_rows(rows, reinterpret_cast<std::byte*>(got));
  EXPECT_THAT(got, testing::ElementsAre(1, 4, 2, 5, 3, 6, 7, 8));
}

TEST_F(SplitKvRows, InconsistentShapesAreRefused) {
  const Shape fitting = Shape{{kHeads, kValue, kRank}, 3};
  for (const Shape& wrong :
       {Shape{{kHeads + 1, kValue, kRank}, 3}, Shape{{kHeads, kValue, kRank + 1}, 3}, Shape{{kHeads * kRank}, 1}}) {
    GgufWriter writer;
    add_tensor_of(writer, kKeys, DType::kF32, {{kHeads, kRank, kNope}, 3}, numbers(kHeads * kRank * kNope, 0));
    add_tensor_of(writer, kValues, DType::kF32, wrong, numbers(wrong.elements(), 0));
    const auto file = open(writer);
    EXPECT_EQ(file.status().code(), ErrorCode::kBadShape) << file.status().to_string();
    EXPECT_THAT(file.status().message(), HasSubstr(kKeys));
  }
  // If a file has only one of the two, it is ignored. A stored attn_kv_b is used instead of an assembled one.
  GgufWriter alone, stored;
  add_tensor_of(alone, kKeys, DType::kF32, {{1, 2, 2}, 3}, numbers(4, 0));
  EXPECT_EQ((*open(alone))->find_tensor(kBoth), nullptr);
  add_tensor_of(stored, kKeys, DType::kF32, {{1, 2, 2}, 3}, numbers(4, 0));
  add_tensor_of(stored, kValues, DType::kF32, fitting, numbers(fitting.elements(), 0));
  add_tensor_of(stored, kBoth, DType::kF32, {{4, 2}, 2}, numbers(8, 0));
  EXPECT_EQ((*open(stored))->find_tensor(kBoth)->source, nullptr);
}

}  // namespace
}  // namespace ibid
