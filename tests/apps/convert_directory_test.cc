// A Hugging Face directory and the GGUF that `ibid convert` makes of it give the same bits in every logit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "apps/convert/convert_model.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/model_file.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

std::vector<Row> logits_of(const std::string& path, KvDType kv_dtype = KvDType::kF16) {
  const auto file = open_model_file(path);
  CHECK(file.ok()) << file.status().to_string();
  const auto model = load_language_model(**file, {.kv_dtype = kv_dtype, .n_threads = 2});
  CHECK(model.ok()) << model.status().to_string();
  KvPagePool pool((*model)->kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  const Tokens tokens = random_tokens(100, (*model)->vocab_size(), 5);
  const SequenceChunk chunk{&entry, tokens, WantLogits::kAll};
  Logits logits;
  const Status status = (*model)->forward(std::span(&chunk, 1), {}, logits);
  CHECK(status.ok()) << status.to_string();
  std::vector<Row> rows;
  for (size_t i = 0; i < logits.n_rows(); ++i) rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  return rows;
}

std::set<std::filesystem::path> directories_in(const std::string& path) {
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_directory()) paths.insert(entry.path());
  }
  return paths;
}

const std::set<std::string> kWithoutName = {"qwen2_vl", "qwen2_5_vl"};
const std::set<std::string> kRecurrentWithoutName = {"minimax", "olmo_hybrid", "zamba2", "zamba2_adapters",
                                                     "zamba2_untied"};
// Models whose factors GGUF multiplies into the weights.
const std::set<std::string> kFolded = {"falcon_h1", "falcon_h1_norm"};
// Models with parameters for which GGUF has no keys.
const std::set<std::string> kOtherNumbers = {"llama4_text"};
// Models that GGUF cannot represent, with a part of the error.
const std::map<std::string, std::string> kRefused = {
    {"afmoe_unscaled", "this model's factors"},
    {"deepseek_v3_halves", "this model's latent attention"},
    {"gpt2_unscaled", "this model's attention scale"},
    {"falcon_h1_biases",
     "q_proj.bias cannot be converted: a GGUF file of this model has its multipliers inside its weights"}};

// Compares all models, and returns the number of those that were converted: they load and have a GGUF name.
size_t expect_same_bits(const std::set<std::filesystem::path>& paths) {
  const TempDir dir;
  const std::string out = dir.file("model.gguf");
  size_t n_converted = 0;
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.filename().string());
    const auto file = open_model_file(path.string());
    if (!file.ok() || !read_config(**file).ok()) continue;  // unsupported architecture
    const std::string name = path.filename().string();
    if (kWithoutName.contains(name) || kRecurrentWithoutName.contains(name) || kFolded.contains(name) ||
        kOtherNumbers.contains(name) || kRefused.contains(name)) {
      continue;
    }
    const Result<Conversion> converted = convert_model(path.string(), out, nullptr);
    EXPECT_TRUE(converted.ok()) << converted.status().to_string();
    if (!converted.ok()) continue;
    EXPECT_EQ(std::filesystem::file_size(out), converted->bytes);
    const std::vector<Row> wanted = logits_of(path.string()), got = logits_of(out);
    EXPECT_EQ(got.size(), wanted.size());
    size_t n_equal = 0;
    for (size_t i = 0; i < got.size(); ++i) n_equal += same_bits(got[i], wanted[i]) ? 1 : 0;
    EXPECT_EQ(n_equal, wanted.size());
    ++n_converted;
  }
  return n_converted;
}

TEST(ConvertDirectory, GgufOfEachTinyCheckpointGivesTheLogitBitsOfItsDirectory) {
  IBID_NEED_SHARED(shared);
  EXPECT_GE(expect_same_bits(directories_in(shared + "/reference/tiny")), 57u);
}

// The factors are multiplied into the weights, which become F32 and are rounded once.
TEST(ConvertDirectory, ScaleFactorsAreMultipliedIntoTheWeights) {
  IBID_NEED_SHARED(shared);
  const TempDir dir;
  const std::string out = dir.file("model.gguf");
  for (const std::string& name : kFolded) {
    SCOPED_TRACE(name);
    const std::string path = shared + "/reference/tiny/" + name;
    const Result<Conversion> converted = convert_model(path, out, nullptr);
    ASSERT_TRUE(converted.ok()) << converted.status().to_string();
    // The query, value and up matrices have no factors.
    EXPECT_EQ(converted->tensors_of.at("BF16"), 3 * size_t{2});
    const std::vector<Row> wanted = logits_of(path, KvDType::kF32), got = logits_of(out, KvDType::kF32);
    ASSERT_EQ(got.size(), wanted.size());
    float largest = 0, largest_logit = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      for (size_t j = 0; j < got[i].size(); ++j) {
        largest = std::max(largest, std::abs(got[i][j] - wanted[i][j]));
        largest_logit = std::max(largest_logit, std::abs(wanted[i][j]));
      }
    }
    std::printf("%-16s max |dlogit| %.1e of %.1f\n", name.c_str(), static_cast<double>(largest),
                static_cast<double>(largest_logit));
    EXPECT_LE(largest, 1e-4f);
    EXPECT_GT(largest_logit, 1.0f);
  }
}

TEST(ConvertDirectory, GgufOfEachGoldenFamilyGivesTheLogitBitsOfItsDirectory) {
  EXPECT_EQ(expect_same_bits(directories_in(golden_dir() + "/families")), 20u);
}

// Published Gemma 3n has fewer rows of per-layer embeddings than tokens.
TEST(ConvertDirectory, PerLayerEmbeddingIsPaddedToTheVocabulary) {
  IBID_NEED_SHARED(shared);
  constexpr uint64_t kRows = 150;
  const std::filesystem::path whole = shared + "/reference/tiny/gemma3n_text";
  const auto file = open_model_file(whole.string());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  std::vector<NamedTensor> tensors;
  for (const std::string& name : (*file)->tensor_names()) {
    const TensorView& view = *(*file)->find_tensor(name);
    const bool is_cut = name == "model.embed_tokens_per_layer.weight";
    tensors.push_back({name, is_cut ? view.row_range(0, kRows) : view});
  }
  const TempDir dir;
  ASSERT_TRUE(write_safetensors(dir.file("model.safetensors"), tensors).ok());
  std::filesystem::copy_file(whole / "config.json", dir.file("config.json"));
  EXPECT_EQ(expect_same_bits({dir.path()}), 1u);
  const std::string out = dir.file("out.gguf");
  ASSERT_TRUE(convert_model(dir.path(), out, nullptr).ok());
  const auto converted = open_model_file(out);
  ASSERT_TRUE(converted.ok()) << converted.status().to_string();
  EXPECT_EQ((*converted)->find_tensor("per_layer_token_embd.weight")->shape[0], 200u);
}

// llama.cpp hard-codes Llama 4's chunk length, layers without rope, and growth of queries.
TEST(ConvertDirectory, Llama4IsConvertedOnlyWithLlamaCppsConstants) {
  const std::filesystem::path checkpoint = golden_dir() + "/families/llama4_text";
  const TempDir dir;
  const Status refused = convert_model(checkpoint.string(), dir.file("model.gguf"), nullptr).status();
  EXPECT_EQ(refused.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(refused.message(), testing::HasSubstr("GGUF cannot represent this model's query growth"));
  std::ifstream in(checkpoint / "config.json");
  std::string config((std::istreambuf_iterator<char>(in)), {});
  const auto set = [&](std::string_view key, std::string_view value) {
    const size_t at = config.find("\"" + std::string(key) + "\":");
    ASSERT_NE(at, std::string::npos) << key;
    const bool is_list = config[config.find_first_not_of(" ", config.find(':', at) + 1)] == '[';
    const size_t end = is_list ? config.find(']', at) + 1 : config.find_first_of(",\n", at);
    config.replace(at, end - at, "\"" + std::string(key) + "\": " + std::string(value));
  };
  set("attention_chunk_size", "8192");
  set("floor_scale", "8192");
  set("attn_scale", "0.1");
  set("no_rope_layers", "[1, 1, 1, 0]");
  set("layer_types", R"(["chunked_attention", "chunked_attention", "chunked_attention", "full_attention"])");
  dir.write("config.json", config);
  std::filesystem::copy_file(checkpoint / "model.safetensors", dir.file("model.safetensors"));
  EXPECT_EQ(expect_same_bits({dir.path()}), 1u);
  set("attention_chunk_size", "4096");
  dir.write("config.json", config);
  EXPECT_THAT(convert_model(dir.path(), dir.file("model.gguf"), nullptr).status().message(),
              testing::HasSubstr("GGUF cannot represent this model's windows"));
}

TEST(ConvertDirectory, ArchitectureWithoutAGgufNameIsRefused) {
  const TempDir dir;
  for (const std::string& name : kWithoutName) {
    const Result<Conversion> converted =
        convert_model(golden_dir() + "/families/" + name, dir.file("model.gguf"), nullptr);
    EXPECT_EQ(converted.status().code(), ErrorCode::kUnsupported) << converted.status().to_string();
    EXPECT_THAT(converted.status().message(), testing::HasSubstr("has no name in GGUF"));
    EXPECT_FALSE(std::filesystem::exists(dir.file("model.gguf")));
  }
}

TEST(ConvertDirectory, ParametersThatGgufLacksAreRefusedByName) {
  const TempDir dir;
  for (const auto& [name, what] : kRefused) {
    SCOPED_TRACE(name);
    const Status status = convert_model(golden_dir() + "/families/" + name, dir.file("model.gguf"), nullptr).status();
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << status.to_string();
    EXPECT_THAT(status.message(), testing::HasSubstr(what));
    EXPECT_FALSE(std::filesystem::exists(dir.file("model.gguf")));
  }
}

}  // namespace
}  // namespace ibid
