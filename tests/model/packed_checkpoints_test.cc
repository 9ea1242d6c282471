// Checkpoints that store a matrix in several tensors (weights/assembled_tensors.h), compared with independent values.
// Each directory of tests/golden/packed has a model as published and, in values.json, what make_packed_goldens.py
// computed by the definition of the quantisation method.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/json_limits.h"
#include "model/load_model.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/block_formats.h"
#include "weights/model_file.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

// The type that represents each model's matrices exactly.
const std::map<std::string, DType> kPresented = {
    {"awq", DType::kQ5_0},
    {"compressed_actorder", DType::kF32},
    {"compressed_channel", DType::kQ4_0},
    {"compressed_channel_zeros", DType::kQ5_0},
    {"compressed_symmetric", DType::kQ4_0},
    {"compressed_zeros", DType::kQ5_0},
    {"f8_blocks", DType::kF8E4M3Scaled},
    {"f8_e5m2", DType::kF8E5M2Scaled},
    {"f8_e5m2_no_scale", DType::kF16},
    {"f8_rows", DType::kF8E4M3Scaled},
    {"f8_small_blocks", DType::kF32},
    {"f8_tensor", DType::kF8E4M3Scaled},
    {"gptq_channel", DType::kQ5_0},
    {"gptq_desc_act", DType::kF32},
    {"gptq_desc_act_symmetric", DType::kF32},
    {"gptq_symmetric", DType::kQ4_0},
    {"gptq_v2", DType::kQ5_0},
    {"gptq_zeros", DType::kQ5_0},
};

std::unique_ptr<ModelFile> open(const std::string& path) {
  auto file = open_model_file(path);
  CHECK(file.ok()) << file.status().to_string();
  return *std::move(file);
}

std::string packed_dir() { return golden_dir() + "/packed/"; }

// zlib's CRC-32, bit by bit.
uint32_t crc32(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

std::vector<float> values_of(const TensorView& view) {
  std::vector<float> values(view.shape.elements());
  std::vector<std::byte> made;
  std::span<const std::byte> bytes = view.data;
  if (view.source != nullptr) {
    std::vector<uint64_t> rows(view.shape[0]);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    made.resize(rows.size() * view.row_bytes());
    view.source->read_rows(rows, made.data());
    bytes = made;
  }
  dequantize_row(view.dtype, bytes, values);
  return values;
}

Json values_json(const std::string& name) {
  std::ifstream stream(packed_dir() + name + "/values.json");
  return Json::parse(stream);
}

TEST(PackedCheckpoints, WeightsMatchTheDefinitionOfTheQuantisationMethod) {
  for (const auto& [name, presented] : kPresented) {
    SCOPED_TRACE(name);
    const auto file = open(packed_dir() + name);
    size_t n_matrices = 0;
    const Json matrices = values_json(name);
    for (const auto& [tensor, about] : matrices.items()) {
      SCOPED_TRACE(tensor);
      ++n_matrices;
      const TensorView* view = file->find_tensor(tensor);
      ASSERT_NE(view, nullptr);
      // With a single group the order of columns has no effect.
      const bool one_group = name == "gptq_desc_act" && view->shape[1] == 32;
      EXPECT_EQ(dtype_name(view->dtype), dtype_name(one_group ? DType::kQ5_0 : presented));
      ASSERT_EQ(view->shape, (Shape{{about["shape"][0].get<uint64_t>(), about["shape"][1].get<uint64_t>()}, 2}));
      const std::vector<float> values = values_of(*view);
      const size_t n_cols = view->shape[1];
      EXPECT_EQ(values[0], about["values"]["0,0"].get<float>());
      EXPECT_EQ(values[1], about["values"]["0,1"].get<float>());
      EXPECT_EQ(values[n_cols], about["values"]["1,0"].get<float>());
      EXPECT_EQ(values.back(), about["values"]["last"].get<float>());
      EXPECT_EQ(crc32(std::as_bytes(std::span(values))), about["crc32"].get<uint32_t>());
    }
    EXPECT_EQ(n_matrices, 7u);
  }
  size_t n_directories = 0;
  for (const auto& entry : std::filesystem::directory_iterator(packed_dir())) n_directories += entry.is_directory();
  EXPECT_EQ(n_directories, kPresented.size());
}

std::vector<Row> logits_of(const std::string& path, const Tokens& tokens) {
  const auto file = open(path);
  const auto model =
      load_language_model(*file, {.numerics = Numerics::kReference, .kv_dtype = KvDType::kF32, .n_threads = 1});
  CHECK(model.ok()) << model.status().to_string();
  KvPagePool pool((*model)->kv_layout(), size_t{16} << 20);
  KvCacheEntry entry(pool);
  Logits logits;
  const SequenceChunk chunk{&entry, tokens, WantLogits::kAll};
  const Status status = (*model)->forward(std::span(&chunk, 1), {}, logits);
  CHECK(status.ok()) << status.to_string();
  std::vector<Row> rows;
  for (size_t i = 0; i < logits.n_rows(); ++i) rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  return rows;
}

// Writes the same model with these values, as floats.
void write_as_floats(const ModelFile& file, const std::string& name, const TempDir& dir) {
  Json config = *file.config_json();
  config.erase("quantization_config");
  dir.write("config.json", config.dump());
  std::vector<NamedTensor> tensors;
  std::vector<std::vector<float>> kept;
  const Json matrices = values_json(name);
  for (const auto& [tensor, about] : matrices.items()) {
    const TensorView& view = *file.find_tensor(tensor);
    kept.push_back(values_of(view));
    tensors.push_back({tensor, TensorView{DType::kF32, view.shape, std::as_bytes(std::span(kept.back()))}});
  }
  for (const char* plain : {"model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight",
                            "model.layers.0.post_attention_layernorm.weight"}) {
    tensors.push_back({plain, *file.find_tensor(plain)});
  }
  const Status status = write_safetensors(dir.file("model.safetensors"), tensors);
  CHECK(status.ok()) << status.to_string();
}

TEST(PackedCheckpoints, LogitsEqualThoseOfExpandedFloats) {
  const Tokens tokens = random_tokens(30, 24, 5);
  for (const auto& [name, presented] : kPresented) {
    SCOPED_TRACE(name);
    const TempDir dir;
    write_as_floats(*open(packed_dir() + name), name, dir);
    const std::vector<Row> got = logits_of(packed_dir() + name, tokens), wanted = logits_of(dir.path(), tokens);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(same_bits(got[i], wanted[i])) << "position " << i;
  }
}

}  // namespace
}  // namespace ibid
