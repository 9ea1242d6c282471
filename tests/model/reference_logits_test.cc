// Logits of tiny checkpoints, compared with those of independent implementations (tests/golden/logits and, if the
// reference data is available, Hugging Face), and with the oracle (tests/oracle/transformer.h) for every weight type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/json_limits.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "tests/oracle/transformer.h"
#include "tests/support/numerics_name.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/model_file.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

std::unique_ptr<ModelFile> open_checkpoint(const std::string& path) {
  auto file = open_model_file(path);
  CHECK(file.ok()) << file.status().to_string();
  return *std::move(file);
}

std::vector<std::vector<float>> all_logits(LanguageModel& model, TokenSpan tokens) {
  KvPagePool pool(model.kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  Logits logits;
  std::vector<std::vector<float>> rows;
  for (size_t at = 0; at < tokens.size(); at += model.max_chunk()) {
    const TokenSpan part = tokens.subspan(at, std::min(model.max_chunk(), tokens.size() - at));
    const SequenceChunk chunk{&entry, part, WantLogits::kAll};
    const Status status = model.forward(std::span(&chunk, 1), {}, logits);
    CHECK(status.ok()) << status.to_string();
    for (size_t i = 0; i < logits.n_rows(); ++i) rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  }
  return rows;
}

// Returns a tensor of a reference file as numbers of type T, row by row.
template <typename T>
std::vector<T> values_of(const ModelFile& file, const std::string& name) {
  const TensorView* tensor = file.find_tensor(name);
  CHECK(tensor != nullptr) << name;
  std::vector<T> values(tensor->shape.elements());
  CHECK(values.size() * sizeof(T) == tensor->data.size()) << name;
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

size_t context_for(const ModelConfig& config, size_t length);

double max_difference(const ModelFile& file, const ModelConfig& config, Numerics numerics, const ModelFile& reference) {
  double largest = 0;
  for (const std::string n : {"0", "1"}) {
    const auto ids = values_of<int64_t>(reference, "ids." + n);
    const auto wanted = values_of<float>(reference, "logits." + n);
    auto model = load_language_model(file, {.numerics = numerics,
                                            .kv_dtype = KvDType::kF32,
                                            .n_threads = 2,
                                            .max_seq_len = context_for(config, ids.size())});
    CHECK(model.ok()) << model.status().to_string();
    const auto got = all_logits(**model, Tokens(ids.begin(), ids.end()));
    const size_t vocab_size = (*model)->vocab_size();
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float value = got[i / vocab_size][i % vocab_size];
      largest = std::max(largest, std::abs(static_cast<double>(value) - static_cast<double>(wanted[i])));
    }
  }
  return largest;
}

bool has_quantized_weights(const ModelFile& file) {
  return std::ranges::any_of(
      file.tensor_names(), [&](const std::string& name) { return dtype_is_quantized(file.find_tensor(name)->dtype); });
}

// With float weights both modes compute in float and differ from the reference only by the order of sums. With
// quantised weights the exact mode has int8 inputs, which cost about 0.4 % of a value's size.
void expect_logits(const ModelFile& file, const ModelConfig& config, const ModelFile& reference, double bound) {
  double differences[2] = {};
  for (const Numerics numerics : {Numerics::kReference, Numerics::kExact}) {
    double& difference = differences[static_cast<size_t>(numerics)];
    difference = max_difference(file, config, numerics, reference);
    const bool int8_inputs = numerics == Numerics::kExact && has_quantized_weights(file);
    EXPECT_LE(difference, int8_inputs ? 0.3 : bound) << file.path() << " " << numerics_name(numerics);
  }
  const std::string name = std::filesystem::path(file.path()).filename();
  std::printf("%-18s max |dlogit| %.1e reference, %.1e exact\n", name.c_str(), differences[0], differences[1]);
}

// Compares with the logits that make_logits_goldens.py computed in double, for weights in safetensors and in GGUF.
TEST(ReferenceLogits, LogitsOfCommittedCheckpointsMatchGoldensInSafetensorsAndGguf) {
  const std::string goldens = golden_dir() + "/logits/";
  for (const std::string name : {"llama", "llama3", "llama_linear"}) {
    const auto reference = open_checkpoint(goldens + name + "/logits.safetensors");
    const auto directory = open_checkpoint(goldens + name);
    expect_logits(*directory, *read_config(*directory), *reference, 1e-4);
    if (name == "llama_linear") continue;
    const auto gguf = open_checkpoint(goldens + name + "/model.gguf");
    expect_logits(*gguf, *read_config(*gguf), *reference, 1e-4);
  }
}

// Covers features that the reference data lacks; make_family_goldens.py computed the logits with transformers.
TEST(ReferenceLogits, CommittedFamiliesMatchTransformers) {
  size_t n_models = 0;
  for (const auto& directory : std::filesystem::directory_iterator(golden_dir() + "/families")) {
    if (!directory.is_directory()) continue;
    SCOPED_TRACE(directory.path().string());
    ++n_models;
    const auto file = open_checkpoint(directory.path());
    const auto config = read_config(*file);
    ASSERT_TRUE(config.ok()) << config.status().to_string();
    expect_logits(*file, *config, *open_checkpoint(directory.path().string() + "/logits.safetensors"), 1e-4);
  }
  EXPECT_EQ(n_models, 29u);
}

// A vision model has the keys of its language model in a section, another prefix in its tensor names, and additional
// vision tensors. Its language model gives the same bits as that model alone.
TEST(ReferenceLogits, VisionModelsGiveTheLogitsOfTheirLanguageModel) {
  const std::string family = golden_dir() + "/families/gemma4_experts";
  const auto text = open_checkpoint(family);
  const Tokens tokens = random_tokens(30, 40, 1);
  const auto wanted = all_logits(**load_language_model(*text, {}), tokens);
  for (const std::string prefix : {"model.language_model.", "language_model.model."}) {
    SCOPED_TRACE(prefix);
    Json config = {{"model_type", "gemma4"}, {"text_config", *text->config_json()}, {"vision_config", Json::object()}};
    std::vector<NamedTensor> tensors;
    for (const std::string& name : text->tensor_names()) {
      tensors.push_back({prefix + name.substr(std::string("model.").size()), *text->find_tensor(name)});
    }
    const std::vector<float> eye(32, 1.0f);
    tensors.push_back({"model.vision_tower.patch_embedding.weight",
                       TensorView{DType::kF32, {{4, 8}, 2}, std::as_bytes(std::span(eye))}});
    const TempDir dir;
    std::ofstream(dir.file("config.json")) << config.dump();
    ASSERT_TRUE(write_safetensors(dir.file("model.safetensors"), tensors).ok());
    const auto file = open_checkpoint(dir.path());
    const auto model = load_language_model(*file, {});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    EXPECT_EQ(all_logits(**model, tokens), wanted);
  }
}

// Returns the logits of a model written with another config and other tensors.
std::vector<std::vector<float>> logits_written_as(const ModelFile& file, const Json& config,
                                                  const std::vector<NamedTensor>& tensors, const Tokens& tokens) {
  const TempDir dir;
  std::ofstream(dir.file("config.json")) << config.dump();
  CHECK(write_safetensors(dir.file("model.safetensors"), tensors).ok()) << file.path();
  const auto written = open_checkpoint(dir.path());
  const auto model = load_language_model(*written, {});
  CHECK(model.ok()) << model.status().to_string();
  return all_logits(**model, tokens);
}

std::vector<NamedTensor> tensors_of(const ModelFile& file) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : file.tensor_names()) tensors.push_back({name, *file.find_tensor(name)});
  return tensors;
}

// Published configs of Qwen2-VL have the language model's keys at the top level, those of transformers 5 in a section.
TEST(ReferenceLogits, ConfigInATextSectionGivesTheSameModel) {
  const Tokens tokens = random_tokens(30, 40, 1);
  for (const std::string name : {"qwen2_vl", "qwen2_5_vl"}) {
    SCOPED_TRACE(name);
    const auto file = open_checkpoint(golden_dir() + "/families/" + name);
    Json config = *file->config_json();
    const Json text = config["text_config"];
    config.erase("text_config");
    for (const auto& [key, value] : text.items()) {
      if (!config.contains(key)) config[key] = value;
    }
    const auto wanted = all_logits(**load_language_model(*file, {}), tokens);
    EXPECT_EQ(logits_written_as(*file, config, tensors_of(*file), tokens), wanted);
  }
}

// Published files of Llama 4 have the language model in a section and its tensors under a prefix, have no list of layer
// types, and enable the scaling of queries by a number.
TEST(ReferenceLogits, PublishedLlama4LayoutGivesTheSameLogits) {
  const Tokens tokens = random_tokens(140, 40, 1);
  const auto file = open_checkpoint(golden_dir() + "/families/llama4_text");
  Json text = *file->config_json();
  for (const char* key : {"layer_types", "moe_layers"}) text.erase(key);
  text["attn_temperature_tuning"] = 4;
  std::vector<NamedTensor> tensors = tensors_of(*file);
  for (NamedTensor& tensor : tensors) tensor.name = "language_model." + tensor.name;
  const auto wanted = all_logits(**load_language_model(*file, {}), tokens);
  EXPECT_EQ(logits_written_as(*file, {{"model_type", "llama4"}, {"text_config", text}}, tensors, tokens), wanted);
  text["no_rope_layers"] = Json::array();  // an empty list means the default: every fourth layer
  EXPECT_NE(logits_written_as(*file, text, tensors_of(*file), tokens), wanted);

  text["attention_chunk_size"] = 100;
  const TempDir dir;
  std::ofstream(dir.file("config.json")) << text.dump();
  ASSERT_TRUE(write_safetensors(dir.file("model.safetensors"), tensors_of(*file)).ok());
  const Status status = load_language_model(*open_checkpoint(dir.path()), {}).status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(status.message(), testing::HasSubstr("attention_chunk_size is 100, supported are multiples of 64"));
}

// Experts of published Qwen3-VL files are [in, out]; those that transformers 5 writes are [out, in].
TEST(ReferenceLogits, TransposedExpertsGiveTheSameLogits) {
  const Tokens tokens = random_tokens(30, 40, 1);
  const auto file = open_checkpoint(golden_dir() + "/families/qwen3_vl_moe");
  std::vector<NamedTensor> tensors = tensors_of(*file);
  std::vector<std::vector<uint16_t>> turned;
  for (NamedTensor& tensor : tensors) {
    if (tensor.name.find(".experts.") == std::string::npos) continue;
    const Shape shape = tensor.view.shape;
    const auto* values = reinterpret_cast<const uint16_t*>(tensor.view.data.data());
    std::vector<uint16_t>& to = turned.emplace_back(shape.elements());
    for (size_t e = 0, i = 0; e < shape[0]; ++e) {
      for (size_t r = 0; r < shape[1]; ++r) {
        for (size_t c = 0; c < shape[2]; ++c, ++i) to[(e * shape[2] + c) * shape[1] + r] = values[i];
      }
    }
    tensor.view.shape = Shape{{shape[0], shape[2], shape[1]}, 3};
    tensor.view.data = std::as_bytes(std::span(to));
  }
  EXPECT_EQ(turned.size(), 6u);
  const auto wanted = all_logits(**load_language_model(*file, {}), tokens);
  EXPECT_EQ(logits_written_as(*file, *file->config_json(), tensors, tokens), wanted);
}

// Returns the context for longrope: if the sequence is short enough, the one that selects the original frequencies.
size_t context_for(const ModelConfig& config, size_t length) {
  for (const RopeRule& rule : config.ropes) {
    const auto original = static_cast<size_t>(rule.original_max_positions);
    if (rule.kind == RopeRule::Kind::kLongrope && length <= original) return original;
  }
  return 0;
}

// Covers all rows of kArchitectures. A directory of another architecture must give kUnsupported.
TEST(ReferenceLogits, TinyCheckpointsMatchHuggingFace) {
  IBID_NEED_SHARED(shared);
  std::set<std::string> directories;
  for (const auto& directory : std::filesystem::directory_iterator(shared + "/reference/tiny")) {
    if (directory.is_directory()) directories.insert(directory.path());
  }
  size_t n_models = 0;
  for (const std::string& path : directories) {
    SCOPED_TRACE(path);
    const auto file = open_model_file(path);
    if (!file.ok()) {
      EXPECT_THAT(file.status().message(), testing::HasSubstr("config.json"));
      continue;
    }
    const auto config = read_config(**file);
    if (!config.ok()) {
      EXPECT_EQ(config.status().code(), ErrorCode::kUnsupported) << config.status().to_string();
      continue;
    }
    ++n_models;
    expect_logits(**file, *config, *open_checkpoint(path + "/logits.safetensors"), 1e-3);
  }
  std::printf("%zu models\n", n_models);
  EXPECT_GE(n_models, 62u);
}

struct Quality {
  double max_dlogit = 0;
  double mean_kl = 0;
};

// Returns how far a model is from the oracle on the same file.
Quality against_oracle(const TinyModel& tiny, const ModelOptions& options) {
  const TempDir dir;
  const std::string path = dir.file("tiny.gguf");
  write_tiny_model(tiny, path);
  const auto file = open_checkpoint(path);
  const Tokens tokens = random_tokens(90, tiny.vocab_size, 3);
  const oracle::Matrix wanted = oracle::logits(*file, *read_config(*file), tokens);
  const auto got = all_logits(**load_language_model(*file, options), tokens);
  Quality quality;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const oracle::Vector row = wanted.row(static_cast<oracle::Index>(i));
    double z_wanted = 0;
    double z_got = 0;
    for (size_t j = 0; j < tiny.vocab_size; ++j) {
      const double logit = row[static_cast<oracle::Index>(j)];
      quality.max_dlogit = std::max(quality.max_dlogit, std::abs(static_cast<double>(got[i][j]) - logit));
      z_wanted += std::exp(logit);
      z_got += std::exp(static_cast<double>(got[i][j]));
    }
    for (size_t j = 0; j < tiny.vocab_size; ++j) {
      const double log_p = row[static_cast<oracle::Index>(j)] - std::log(z_wanted);
      quality.mean_kl += std::exp(log_p) * (log_p - (static_cast<double>(got[i][j]) - std::log(z_got)));
    }
  }
  quality.mean_kl /= static_cast<double>(tokens.size());
  return quality;
}

TEST(ReferenceLogits, ReferenceModeMatchesOracleForEveryWeightType) {
  for (const DType dtype :
       {DType::kF32,   DType::kF16,    DType::kBF16,   DType::kQ8_0,    DType::kQ4_0,   DType::kQ4_1,  DType::kQ5_0,
        DType::kQ5_1,  DType::kQ2_K,   DType::kQ3_K,   DType::kQ4_K,    DType::kQ5_K,   DType::kQ6_K,  DType::kTQ1_0,
        DType::kTQ2_0, DType::kIQ1_S,  DType::kIQ1_M,  DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS,
        DType::kIQ3_S, DType::kIQ4_XS, DType::kIQ4_NL, DType::kMXFP4,   DType::kNVFP4}) {
    SCOPED_TRACE(std::string(dtype_name(dtype)));
    TinyModel tiny;
    tiny.matrix_dtype = tiny.embed_dtype = tiny.head_dtype = dtype;
    if (dtype_block(dtype).values > 32) tiny.n_layers = 2, tiny.dim = 256, tiny.ffn_dim = 256, tiny.head_dim = 64;
    const Quality reference = against_oracle(tiny, {.numerics = Numerics::kReference, .kv_dtype = KvDType::kF32});
    const Quality exact = against_oracle(tiny, {.kv_dtype = KvDType::kF32});
    std::printf("%-5s reference max |dlogit| %.1e, exact %.1e, mean KL %.1e\n", std::string(dtype_name(dtype)).c_str(),
                reference.max_dlogit, exact.max_dlogit, exact.mean_kl);
    EXPECT_LE(reference.max_dlogit, 1e-4);
    // int8 activations cost about 0.4 % of a value's size; float weights do not use them.
    EXPECT_LE(exact.max_dlogit, dtype_is_float(dtype) ? 1e-4 : 0.3);
    EXPECT_LE(exact.mean_kl, dtype_is_float(dtype) ? 1e-8 : 2e-3);
  }
}

TEST(ReferenceLogits, OddShapesBiasesAndTiedHeadsMatchOracle) {
  TinyModel biased;
  biased.biases = true;
  TinyModel tied;
  tied.tied = true;
  TinyModel odd;  // its sizes are not multiples of a vector
  odd.n_heads = 6, odd.n_kv_heads = 3, odd.head_dim = 10, odd.dim = 52, odd.ffn_dim = 70, odd.vocab_size = 77;
  TinyModel single_kv_head;
  single_kv_head.n_kv_heads = 1;
  TinyModel ungrouped;
  ungrouped.n_kv_heads = ungrouped.n_heads;
  for (const TinyModel& tiny : {biased, tied, odd, single_kv_head, ungrouped}) {
    EXPECT_LE(against_oracle(tiny, {.numerics = Numerics::kReference, .kv_dtype = KvDType::kF32}).max_dlogit, 1e-4);
    EXPECT_LE(against_oracle(tiny, {.kv_dtype = KvDType::kF32}).max_dlogit, 1e-4);
  }
}

TEST(ReferenceLogits, SmallKvTypesAddLittleError) {
  const double f16 = against_oracle({}, {.kv_dtype = KvDType::kF16}).mean_kl;
  const double int8 = against_oracle({}, {.kv_dtype = KvDType::kInt8}).mean_kl;
  std::printf("mean KL of F16 rows %.1e, of INT8 rows %.1e\n", f16, int8);
  EXPECT_LE(f16, 1e-6);
  EXPECT_LE(int8, 1e-3);
}

TEST(ReferenceLogits, FastModeIsCloseToReferenceForFloatWeights) {
  EXPECT_LE(against_oracle({}, {.numerics = Numerics::kFast, .kv_dtype = KvDType::kF32}).max_dlogit, 1e-4);
}

}  // namespace
}  // namespace ibid
