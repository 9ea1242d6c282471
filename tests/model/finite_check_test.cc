// Weights that are not finite, in every kind of tensor and every type, are refused with the same message by loading and
// by a check that only reads the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/json_limits.h"
#include "base/number_formats.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "model/weights/finite_check.h"
#include "model/weights/unused_tensors.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/block_formats.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

bool decodes_to_finite(DType dtype, std::span<const std::byte> row, size_t n_values) {
  std::vector<float> values(n_values);
  dequantize_row(dtype, row, values);
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

// Writes bytes that occur in scales to every offset of a block.
TEST(FiniteValues, FiniteCheckOfBlocksAgreesWithTheirDecodedValues) {
  constexpr uint8_t kBytes[] = {0x00, 0x7b, 0x7c, 0x7e, 0x7f, 0x80, 0xf0, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
  std::mt19937 random(1);
  for (const NumberFormat& format : all_number_formats()) {
    if (!can_dequantize(format.dtype)) continue;
    SCOPED_TRACE(std::string(format.name));
    const size_t n_bytes = 3 * format.block.bytes, n_values = 3 * format.block.values;
    size_t n_finite = 0, n_other = 0;
    const auto expect_same = [&](const std::vector<std::byte>& row) {
      const bool wanted = decodes_to_finite(format.dtype, row, n_values);
      (wanted ? n_finite : n_other) += 1;
      ASSERT_EQ(all_finite(format.dtype, row), wanted);
    };
    for (size_t at = 0; at < format.block.bytes; ++at) {
      for (const uint8_t low : kBytes) {
        for (const uint8_t high : kBytes) {
          std::vector<std::byte> row(n_bytes, std::byte{0x11});
          row[format.block.bytes + at] = std::byte{low};
          row[format.block.bytes + at + 1] = std::byte{high};
          ASSERT_NO_FATAL_FAILURE(expect_same(row));
        }
      }
    }
    for (int i = 0; i < 3000; ++i) {
      std::vector<std::byte> row(n_bytes);
      for (std::byte& byte : row) byte = static_cast<std::byte>(random());
      ASSERT_NO_FATAL_FAILURE(expect_same(row));
    }
    EXPECT_GT(n_finite, 0u);
    EXPECT_EQ(n_other == 0, format.dtype == DType::kNVFP4);
  }
}

// Returns the result of only reading the file, after verifying that loading gives the same message.
Status verdict(const std::string& path) {
  const auto file = open_model_file(path);
  if (!file.ok()) return file.status();
  const auto config = read_config(**file);
  if (!config.ok()) return config.status();
  const auto team = ThreadTeam::create(2);
  CHECK(team.ok());
  Status read = check_finite_weights(**file, *config, **team);
  const Status loaded = load_language_model(**file, {.n_threads = 2}).status();
  EXPECT_EQ(loaded.to_string(), read.to_string());
  return read;
}

std::string element_text(const Shape& shape) {  // returns the index of the last value
  if (shape.rank < 2) return " at " + std::to_string(shape.elements() - 1);
  std::string text;
  for (size_t i = 0; i < shape.rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i] - 1);
  return " at [" + text + "]";
}

// Makes the last number of each tensor of a checkpoint NaN or infinite, one tensor at a time.
void expect_each_tensor_refused(const std::string& family, size_t& n_refused) {
  SCOPED_TRACE(family);
  const TempDir dir;
  const std::string original = golden_dir() + "/families/" + family;
  std::filesystem::copy_file(original + "/config.json", dir.file("config.json"));
  const auto sound = open_model_file(original);
  ASSERT_TRUE(sound.ok());
  const std::string bytes = read_whole_file(original + "/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto json = parse_json(bytes.substr(sizeof header, header), "header");
  ASSERT_TRUE(json.ok());
  const auto unused = unused_tensors(**sound, *read_config(**sound));
  for (const std::string& name : (*sound)->tensor_names()) {
    SCOPED_TRACE(name);
    const TensorView& tensor = *(*sound)->find_tensor(name);
    ASSERT_EQ(tensor.dtype, DType::kBF16);
    const size_t end = sizeof header + header + (*json)[name]["data_offsets"][1].get<size_t>();
    const uint16_t bad = end % 4 == 0 ? 0x7fc0 : 0xff80;
    std::string damaged = bytes;
    std::memcpy(&damaged[end - sizeof bad], &bad, sizeof bad);
    dir.write("model.safetensors", damaged);
    const Status status = verdict(dir.path());
    if (std::ranges::find(unused, name, &UnusedTensor::name) != unused.end()) {
      EXPECT_TRUE(status.ok()) << status.to_string();
      continue;
    }
    ++n_refused;
    EXPECT_EQ(status.code(), ErrorCode::kNonFinite) << status.to_string();
    EXPECT_EQ(status.message(),
              dir.path() + ": tensor " + name + " holds a value that is not finite" + element_text(tensor.shape));
  }
}

TEST(FiniteCheck, ReportsEachNonFiniteTensorOfACheckpoint) {
  size_t n_refused = 0;
  // These families cover fused and stacked tensors, experts, biases, adapters, recurrent layers, latents, scales.
  for (const char* family : {"gemma4_experts", "stablelm_qk_norm", "qwen3_vl_moe", "jamba_biases", "zamba2_adapters",
                             "nemotron_h_biases", "qwen3_5_biases", "deepseek_v3_halves"}) {
    expect_each_tensor_refused(family, n_refused);
  }
  EXPECT_GT(n_refused, 300u);
}

// Writes a GGUF of every quantised type in which one block, in the last row of a matrix, has all bits set.
TEST(FiniteCheck, ReportsNonFiniteBlockOfEveryQuantisedType) {
  TinyModel tiny;
  tiny.ffn_dim = 256;
  tiny.without = "blk.1.ffn_down.weight";
  size_t n_refused = 0;
  for (const NumberFormat& format : all_number_formats()) {
    if (!dtype_is_quantized(format.dtype) || format.gguf_number < 0) continue;
    SCOPED_TRACE(std::string(format.name));
    const size_t row_bytes = tiny.ffn_dim / format.block.values * format.block.bytes;
    for (const bool damaged : {false, true}) {
      std::vector<std::byte> rows(tiny.dim * row_bytes);
      if (damaged)
        std::fill_n(rows.end() - static_cast<std::ptrdiff_t>(row_bytes), format.block.bytes, std::byte{0xff});
      GgufWriter writer = tiny_model_writer(tiny);
      writer.add_tensor(tiny.without, format.dtype, Shape{{tiny.dim, tiny.ffn_dim}, 2}, rows);
      const TempDir dir;
      ASSERT_TRUE(writer.write(dir.file("m.gguf")).ok());
      const Status status = verdict(dir.file("m.gguf"));
      const bool finite = decodes_to_finite(format.dtype, std::span(rows).last(row_bytes), tiny.ffn_dim);
      EXPECT_EQ(status.ok(), finite) << status.to_string();
      if (finite) continue;
      ++n_refused;
      EXPECT_EQ(status.code(), ErrorCode::kNonFinite);
      EXPECT_EQ(status.message(), dir.file("m.gguf") +
                                      ": tensor blk.1.ffn_down.weight holds a scale that is not finite" + " at [" +
                                      std::to_string(tiny.dim - 1) + ", 0]");
    }
  }
  EXPECT_GE(n_refused, 20u);
}

// The scale is a finite power of two, but one code times it is infinite.
TEST(FiniteCheck, ReportsScaleWhoseProductWithACodeOverflows) {
  TinyModel tiny;
  tiny.without = "blk.1.ffn_down.weight";
  constexpr size_t kBlock = 17;
  for (const auto& [scale, code, finite] : {std::tuple(253, 0x77, false), {253, 0x55, true}, {252, 0x77, true}}) {
    std::vector<std::byte> rows(tiny.dim * tiny.ffn_dim / 32 * kBlock);
    rows[0] = static_cast<std::byte>(scale);
    rows[1] = static_cast<std::byte>(code);
    GgufWriter writer = tiny_model_writer(tiny);
    writer.add_tensor(tiny.without, DType::kMXFP4, Shape{{tiny.dim, tiny.ffn_dim}, 2}, rows);
    const TempDir dir;
    ASSERT_TRUE(writer.write(dir.file("m.gguf")).ok());
    EXPECT_EQ(verdict(dir.file("m.gguf")).code(), finite ? ErrorCode::kOk : ErrorCode::kNonFinite) << scale;
  }
}

}  // namespace
}  // namespace ibid
