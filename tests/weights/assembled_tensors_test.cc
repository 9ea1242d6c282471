#include "weights/assembled_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "tests/support/temp_dir.h"
#include "tests/weights/safetensors_bytes.h"
#include "weights/block_formats.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using testing::HasSubstr;

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string shape(const std::vector<size_t>& dims) {
  std::string text = "[";
  for (const size_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

std::vector<uint16_t> halves(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) bits.push_back(float_to_fp16(value));
  return bits;
}

std::vector<uint16_t> bfloats(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  return bits;
}

class AssembledTensors : public testing::Test {
 protected:
  Result<std::unique_ptr<ModelFile>> open(const std::vector<SafetensorsPart>& parts, const std::string& config) {
    dir_.write("model.safetensors", safetensors_bytes(parts));
    dir_.write("config.json", "{\"quantization_config\": " + config + "}");
    return open_model_file(dir_.path());
  }
  void expect_refused(const std::vector<SafetensorsPart>& parts, const std::string& config, ErrorCode code,
                      const std::string& words) {
    const Status status = open(parts, config).status();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(words));
    EXPECT_THAT(status.message(), HasSubstr(dir_.path()));
  }

  TempDir dir_;
};

// Reads all values of the tensor, in another order than that of the file.
std::vector<float> values_of(const TensorView& view) {
  const uint64_t n_cols = view.shape[view.shape.rank - 1], n_rows = view.shape.elements() / n_cols;
  std::vector<float> values(view.shape.elements());
  std::vector<std::byte> row(view.row_bytes());
  for (uint64_t i = 0; i < n_rows; ++i) {
    const uint64_t index = (i * 7 + 3) % n_rows;  // visits all rows: 7 is coprime to their numbers
    view.source->read_rows({&index, 1}, row.data());
    dequantize_row(view.dtype, row, std::span(values).subspan(index * n_cols, n_cols));
  }
  return values;
}

// A matrix of 4-bit integers with a scale and a zero point per group, and the values that it encodes.
struct Int4Matrix {
  Int4Matrix(size_t n_out, size_t n_in, size_t group_size, bool with_zeros, unsigned seed = 1)
      : out(n_out), in(n_in), group(group_size), q(n_out * n_in), z(n_out * (n_in / group), 8), s(z.size()) {
    std::mt19937 rng(seed);
    for (int& value : q) value = static_cast<int>(rng() % 16);
    for (int& value : z) value = with_zeros ? 1 + static_cast<int>(rng() % 15) : 8;
    for (float& value : s) value = std::ldexp(static_cast<float>(128 + rng() % 128), -14);  // exact in BF16 and FP16
    for (size_t k = 0; k < in; ++k) group_of.push_back(static_cast<int32_t>(k / group));
  }
  size_t groups() const { return in / group; }
  std::vector<float> values() const {
    std::vector<float> all;
    for (size_t r = 0; r < out; ++r) {
      for (size_t k = 0; k < in; ++k) {
        const size_t at = r * groups() + static_cast<size_t>(group_of[k]);
        all.push_back(s[at] * static_cast<float>(q[r * in + k] - z[at]));
      }
    }
    return all;
  }
  // Scales as [groups, out], the layout of GPTQ and AWQ.
  std::vector<float> turned_scales() const {
    std::vector<float> turned;
    for (size_t g = 0; g < groups(); ++g) {
      for (size_t r = 0; r < out; ++r) turned.push_back(s[r * groups() + g]);
    }
    return turned;
  }

  size_t out, in, group;
  std::vector<int> q, z;  // [out, in], [out, groups]
  std::vector<float> s;   // [out, groups]
  std::vector<int32_t> group_of;
};

// Returns words of eight integers each; at(word, i) is the integer at bits 4 i of a word.
std::string words_of(size_t n, const std::function<int(size_t, size_t)>& at) {
  std::vector<uint32_t> words(n, 0);
  for (size_t w = 0; w < n; ++w) {
    for (size_t i = 0; i < 8; ++i) words[w] |= static_cast<uint32_t>(at(w, i) & 15) << (4 * i);
  }
  return bytes_of(words);
}

std::vector<SafetensorsPart> gptq(const Int4Matrix& m, int less) {
  const auto q = [&](size_t w, size_t i) { return m.q[w % m.out * m.in + w / m.out * 8 + i]; };
  const size_t per_group = m.out / 8;
  const auto z = [&](size_t w, size_t i) { return m.z[(w % per_group * 8 + i) * m.groups() + w / per_group] - less; };
  return {{"l.qweight", "I32", shape({m.in / 8, m.out}), words_of(m.in / 8 * m.out, q)},
          {"l.qzeros", "I32", shape({m.groups(), per_group}), words_of(m.groups() * per_group, z)},
          {"l.scales", "F16", shape({m.groups(), m.out}), bytes_of(halves(m.turned_scales()))},
          {"l.g_idx", "I32", shape({m.in}), bytes_of(m.group_of)}};
}

std::vector<SafetensorsPart> awq(const Int4Matrix& m) {
  constexpr size_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const size_t per_row = m.out / 8;
  const auto q = [&](size_t w, size_t i) { return m.q[(w % per_row * 8 + kOrder[i]) * m.in + w / per_row]; };
  const auto z = [&](size_t w, size_t i) { return m.z[(w % per_row * 8 + kOrder[i]) * m.groups() + w / per_row]; };
  return {{"l.qweight", "I32", shape({m.in, per_row}), words_of(m.in * per_row, q)},
          {"l.qzeros", "I32", shape({m.groups(), per_row}), words_of(m.groups() * per_row, z)},
          {"l.scales", "F16", shape({m.groups(), m.out}), bytes_of(halves(m.turned_scales()))}};
}

std::vector<SafetensorsPart> compressed(const Int4Matrix& m, bool with_zeros) {
  const auto q = [&](size_t w, size_t i) { return m.q[w * 8 + i]; };
  const auto z = [&](size_t w, size_t i) { return m.z[(w / m.groups() * 8 + i) * m.groups() + w % m.groups()]; };
  std::vector<SafetensorsPart> parts = {
      {"l.weight_packed", "I32", shape({m.out, m.in / 8}), words_of(m.out * m.in / 8, q)},
      {"l.weight_scale", "BF16", shape({m.out, m.groups()}), bytes_of(bfloats(m.s))},
      {"l.weight_shape", "I64", "[2]", std::string(16, '\0')}};
  if (with_zeros) {
    parts.push_back(
        {"l.weight_zero_point", "I32", shape({m.out / 8, m.groups()}), words_of(m.out / 8 * m.groups(), z)});
  }
  return parts;
}

constexpr char kGptq[] = R"({"quant_method": "gptq", "bits": 4})";
constexpr char kGptq2[] = R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"})";
constexpr char kAwq[] = R"({"quant_method": "awq", "bits": 4, "version": "gemm"})";
constexpr char kPacked[] = R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
                              "config_groups": {"group_0": {"weights": {"num_bits": 4}}}})";

TEST_F(AssembledTensors, PackedIntegersDecodeExactly) {
  const Int4Matrix even(16, 128, 64, false), uneven(16, 128, 64, true);
  const struct {
    const char* name;
    std::vector<SafetensorsPart> parts;
    const char* config;
    const Int4Matrix& matrix;
    DType dtype;
  } kCases[] = {
      {"gptq", gptq(uneven, 1), kGptq, uneven, DType::kQ5_0},
      {"gptq, symmetric", gptq(even, 1), kGptq, even, DType::kQ4_0},
      {"gptq, version 2", gptq(uneven, 0), kGptq2, uneven, DType::kQ5_0},
      {"awq", awq(uneven), kAwq, uneven, DType::kQ5_0},
      {"compressed-tensors", compressed(uneven, true), kPacked, uneven, DType::kQ5_0},
      {"compressed-tensors, symmetric", compressed(even, false), kPacked, even, DType::kQ4_0},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto file = open(c.parts, c.config);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const TensorView* view = (*file)->find_tensor("l.weight");
    ASSERT_NE(view, nullptr);
    EXPECT_EQ(view->dtype, c.dtype);
    EXPECT_EQ(view->shape, (Shape{{16, 128}, 2}));
    EXPECT_EQ(values_of(*view), c.matrix.values());
    (*file)->release(*view);
  }
}

TEST_F(AssembledTensors, Int4MatrixWithReorderedColumnsBecomesF32) {
  Int4Matrix m(16, 128, 64, true);
  std::shuffle(m.group_of.begin(), m.group_of.end(), std::mt19937(3));
  const auto file = open(gptq(m, 1), kGptq);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TensorView* view = (*file)->find_tensor("l.weight");
  EXPECT_EQ(view->dtype, DType::kF32);
  EXPECT_EQ(values_of(*view), m.values());
}

TEST_F(AssembledTensors, ScalesBeyondF16BecomeF32) {
  Int4Matrix m(16, 128, 64, false);
  m.s[5] = 0x1p-40f;
  const auto file = open(compressed(m, false), kPacked);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TensorView* view = (*file)->find_tensor("l.weight");
  EXPECT_EQ(view->dtype, DType::kF32);
  EXPECT_EQ(values_of(*view), m.values());
}

TEST_F(AssembledTensors, InconsistentPackedIntegersAreRefused) {
  const Int4Matrix m(16, 128, 64, true);
  const auto with = [&](size_t part, const std::string& dtype, const std::string& dims, const std::string& data) {
    std::vector<SafetensorsPart> parts = gptq(m, 1);
    parts[part] = {parts[part].name, dtype, dims, data};
    return parts;
  };
  std::vector<int32_t> order = m.group_of;
  order[77] = 2;
  expect_refused(with(3, "I32", "[128]", bytes_of(order)), kGptq, ErrorCode::kBadNumber,
                 "tensor 'l.weight' has g_idx 2 for column 77, expected 0 to 1");
  order[77] = -1;
  expect_refused(with(3, "I32", "[128]", bytes_of(order)), kGptq, ErrorCode::kBadNumber, "has g_idx -1");
  expect_refused(with(3, "I32", "[64]", std::string(256, '\0')), kGptq, ErrorCode::kBadShape, "g_idx of shape [64]");
  expect_refused(with(1, "I32", "[1, 2]", std::string(8, '\0')), kGptq, ErrorCode::kBadShape, "zero points of shape");
  expect_refused(with(2, "F16", "[3, 16]", std::string(96, '\0')), kGptq, ErrorCode::kBadShape, "in 3 groups");
  expect_refused(with(2, "F16", "[0, 16]", ""), kGptq, ErrorCode::kBadShape, "in 0 groups");
  expect_refused(with(2, "I32", "[2, 16]", std::string(128, '\0')), kGptq, ErrorCode::kBadType, "scales of type I32");
  expect_refused(with(0, "I16", "[16, 16]", std::string(512, '\0')), kGptq, ErrorCode::kBadShape, "of type I16");
  std::vector<float> scales = m.turned_scales();
  scales[9] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(with(2, "F16", "[2, 16]", bytes_of(halves(scales))), kGptq, ErrorCode::kNonFinite,
                 "a scale that is not finite");
  expect_refused({gptq(m, 1)[0], gptq(m, 1)[1]}, kGptq, ErrorCode::kMissingTensor, "has no scales");
  expect_refused({gptq(m, 1)[0], gptq(m, 1)[2]}, kGptq, ErrorCode::kMissingTensor, "has no zero points");
}

// --- one-byte floats

std::vector<uint8_t> finite_e4m3(size_t n) {
  std::mt19937 rng(4);
  std::vector<uint8_t> bytes(n);
  for (uint8_t& byte : bytes) {
    do byte = static_cast<uint8_t>(rng());
    while ((byte & 0x7f) == 0x7f);
  }
  return bytes;
}

TEST_F(AssembledTensors, OneByteFloatsDecodeExactly) {
  // The definition: sign, 4-bit exponent with a bias of 7, 3-bit mantissa.
  for (int byte = 0; byte < 256; ++byte) {
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    if ((byte & 0x80) != 0) value = -value;
    const float got = e4m3_to_float(static_cast<uint8_t>(byte));
    if ((byte & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(got));
    } else {
      EXPECT_EQ(static_cast<double>(got), value) << byte;
    }
  }
  EXPECT_EQ(e5m2_to_float(0x3c), 1.0f);
  EXPECT_EQ(e5m2_to_float(0x81), -0x1p-16f);
  EXPECT_TRUE(std::isinf(e5m2_to_float(0x7c)));
}

TEST_F(AssembledTensors, F8ScalesApplyPerTensorRowOrBlock) {
  constexpr size_t kRows = 40, kCols = 96;
  const std::vector<uint8_t> codes = finite_e4m3(kRows * kCols);
  const struct {
    const char* suffix;
    const char* type;
    std::vector<size_t> dims;
    size_t tile_rows, tile_cols;
    DType dtype;
  } kCases[] = {
      {"_scale", "F32", {1}, kRows, kCols, DType::kF8E4M3Scaled},
      {"_scale", "F32", {}, kRows, kCols, DType::kF8E4M3Scaled},
      {"_scale", "BF16", {kRows, 1}, 1, kCols, DType::kF8E4M3Scaled},
      {"_scale_inv", "F32", {2, 2}, 32, 64, DType::kF8E4M3Scaled},
      {"_scale_inv", "BF16", {2, 2}, 32, 64, DType::kF8E4M3Scaled},
      {"_scale_inv", "F32", {2, 5}, 32, 20, DType::kF32},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(shape(c.dims) + c.type);
    size_t n = 1;
    for (const size_t dim : c.dims) n *= dim;
    std::vector<float> scales;
    for (size_t i = 0; i < n; ++i) scales.push_back(std::ldexp(static_cast<float>(129 + i), -16));
    const bool wide = std::string(c.type) == "F32";
    const auto file =
        open({{"w.weight", "F8_E4M3", shape({kRows, kCols}), bytes_of(codes)},
              {std::string("w.weight") + c.suffix, c.type, shape(c.dims),
               wide ? bytes_of(scales) : bytes_of(bfloats(scales))}},
             R"({"quant_method": "fp8", "weight_block_size": [32, )" + std::to_string(c.tile_cols) + "]}");
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const TensorView* view = (*file)->find_tensor("w.weight");
    EXPECT_EQ(view->dtype, c.dtype);
    const size_t tiles_per_row = (kCols + c.tile_cols - 1) / c.tile_cols;
    std::vector<float> wanted;
    for (size_t i = 0; i < codes.size(); ++i) {
      const size_t tile = i / kCols / c.tile_rows * tiles_per_row + i % kCols / c.tile_cols;
      wanted.push_back(scales[tile] * e4m3_to_float(codes[i]));
    }
    EXPECT_EQ(values_of(*view), wanted);
  }
}

TEST_F(AssembledTensors, F8WithoutScaleBecomesF16) {
  std::vector<uint8_t> codes(33 * 3);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  const auto file = open({{"w", "F8_E5M2", "[3, 33]", bytes_of(codes)}}, R"({"quant_method": "fp8"})");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TensorView* view = (*file)->find_tensor("w");
  EXPECT_EQ(view->dtype, DType::kF16);
  const std::vector<float> values = values_of(*view);
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(values[i], e5m2_to_float(codes[i]));
}

TEST_F(AssembledTensors, InconsistentF8TensorsAreRefused) {
  const SafetensorsPart codes{"w", "F8_E4M3", "[4, 32]", std::string(128, '\1')};
  const std::string fp8 = R"({"quant_method": "fp8"})";
  expect_refused({codes, {"w_scale_inv", "F32", "[2, 2]", std::string(16, '\0')}}, fp8, ErrorCode::kBadShape,
                 "tensor 'w' has scales [2, 2], expected [1, 1]");
  expect_refused({codes, {"w_scale", "I32", "[1]", std::string(4, '\0')}}, fp8, ErrorCode::kBadType,
                 "scales of type I32");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_refused({codes, {"w_scale", "F32", "[4]", bytes_of(std::vector<float>{1, 2, nan, 4})}}, fp8,
                 ErrorCode::kNonFinite, "a scale that is not finite at 2");
  expect_refused({{"w", "F8_E4M3", "[128]", std::string(128, '\1')}}, fp8, ErrorCode::kBadShape, "expected a matrix");
  expect_refused({codes}, R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", ErrorCode::kBadNumber,
                 "weight_block_size");
}

// --- blocks of 4-bit floats

TEST_F(AssembledTensors, FourBitFloatBlocksDecodeExactly) {
  std::mt19937 rng(6);
  std::vector<uint8_t> blocks(3 * 5 * 2 * 16), scales(3 * 5 * 2);
  for (uint8_t& byte : blocks) byte = static_cast<uint8_t>(rng());
  for (uint8_t& byte : scales) byte = static_cast<uint8_t>(rng() % 250);
  const auto file = open(
      {{"e.w_blocks", "U8", "[3, 5, 2, 16]", bytes_of(blocks)}, {"e.w_scales", "U8", "[3, 5, 2]", bytes_of(scales)}},
      R"({"quant_method": "mxfp4"})");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const TensorView* view = (*file)->find_tensor("e.w_blocks");
  EXPECT_EQ(view->dtype, DType::kMXFP4);
  EXPECT_EQ(view->shape, (Shape{{3, 5, 64}, 3}));
  constexpr double kFp4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
  const std::vector<float> values = values_of(*view);
  for (size_t i = 0; i < values.size(); ++i) {
    const unsigned code = blocks[i / 2] >> (i % 2 * 4) & 15u;
    EXPECT_EQ(static_cast<double>(values[i]), std::ldexp(kFp4[code], scales[i / 32] - 127)) << i;
  }
  // The rows of one expert.
  const TensorView second = view->row_range(5, 5);
  EXPECT_EQ(second.shape, (Shape{{5, 64}, 2}));
  EXPECT_EQ(second.first_row, 5u);
}

TEST_F(AssembledTensors, InconsistentFourBitFloatBlocksAreRefused) {
  const std::string mx = R"({"quant_method": "mxfp4"})";
  const SafetensorsPart blocks{"w_blocks", "U8", "[1, 2, 16]", std::string(32, '\1')};
  expect_refused({blocks, {"w_scales", "U8", "[1, 2]", std::string("\x10\xff", 2)}}, mx, ErrorCode::kNonFinite,
                 "tensor 'w_blocks' has a scale of 255, which is NaN");
  expect_refused({blocks, {"w_scales", "U8", "[2, 1]", std::string(2, '\1')}}, mx, ErrorCode::kBadShape,
                 "has scales U8 [2, 1], expected U8 [1, 2]");
  expect_refused({{"w_blocks", "U8", "[1, 2, 8]", std::string(16, '\1')}, {"w_scales", "U8", "[1, 2]", "ab"}}, mx,
                 ErrorCode::kBadShape, "expected blocks of 16 bytes");
}

TEST_F(AssembledTensors, UnsupportedQuantisationMethodsAreNamed) {
  const std::vector<SafetensorsPart> parts = {{"w", "F32", "[1]", std::string(4, '\0')}};
  expect_refused(parts, R"({"quant_method": "bitsandbytes", "load_in_4bit": true})", ErrorCode::kUnsupported,
                 "names the method 'bitsandbytes', which is not supported");
  expect_refused(parts, R"({"quant_method": "hqq"})", ErrorCode::kUnsupported, "'hqq'");
  expect_refused(parts, R"({"bits": 4})", ErrorCode::kUnsupported, "has no quant_method");
  expect_refused(parts, R"({"quant_method": "gptq", "bits": 3})", ErrorCode::kUnsupported, "gptq with 3 bits");
  expect_refused(parts, R"({"quant_method": "awq", "version": "gemv"})", ErrorCode::kUnsupported, "'gemv'");
  expect_refused(parts, R"({"quant_method": "compressed-tensors", "format": "int-quantized"})", ErrorCode::kUnsupported,
                 "'int-quantized'");
  expect_refused({{"l.qweight", "I32", "[1, 8]", std::string(32, '\0')}}, R"({"quant_method": "fp8"})",
                 ErrorCode::kUnsupported, "neither gptq nor awq");
}

}  // namespace
}  // namespace ibid
