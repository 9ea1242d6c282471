// Invalid numbers in config.json: each gets a typed error that names file, field, value and allowed range, before
// tensors are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json_limits.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "tests/support/temp_dir.h"
#include "weights/model_file.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

using testing::HasSubstr;

// Returns a valid configuration of an architecture with windows, two ropes and scaling.
Json gemma3() {
  return Json::parse(R"({"model_type": "gemma3_text", "vocab_size": 8, "hidden_size": 64, "intermediate_size": 80,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 24,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_local_base_freq": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window": 16, "query_pre_attn_scalar": 24,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]})");
}

Json llama(const Json& rope_scaling) {
  Json config = gemma3();
  config["model_type"] = "llama";
  config["rope_scaling"] = rope_scaling;
  return config;
}

// Returns the status of reading a directory with this config.json and an embedding.
Status read(const std::string& config) {
  const TempDir dir;
  std::ofstream(dir.file("config.json")) << config;
  const std::vector<float> values(8 * 64);
  const TensorView embed{DType::kF32, {{8, 64}, 2}, std::as_bytes(std::span(values))};
  const NamedTensor tensor{"model.embed_tokens.weight", embed};
  EXPECT_TRUE(write_safetensors(dir.file("model.safetensors"), std::span(&tensor, 1)).ok());
  const auto file = open_model_file(dir.path());
  if (!file.ok()) return file.status();
  return read_config(**file).status();
}

void expect_error(const Json& config, ErrorCode code, const std::string& text) {
  const Status status = read(config.dump());
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr(text));
}

TEST(BadConfigs, ValidConfigIsRead) { EXPECT_TRUE(read(gemma3().dump()).ok()) << read(gemma3().dump()).to_string(); }

TEST(BadConfigs, WindowOutOfRangeIsRefused) {
  for (const int64_t window : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    Json config = gemma3();
    config["sliding_window"] = window;
    expect_error(config, ErrorCode::kBadHyperparameter, "sliding_window is " + std::to_string(window));
  }
}

TEST(BadConfigs, LayerTypesOfWrongLengthOrKindAreRefused) {
  Json config = gemma3();
  config["layer_types"].push_back("full_attention");
  expect_error(config, ErrorCode::kBadHyperparameter, "layer_types has 5 elements, expected 4");
  config["layer_types"] = Json::array();
  expect_error(config, ErrorCode::kBadHyperparameter, "layer_types has 0 elements, expected 4");
  config["layer_types"] = {"sliding_attention", "chunked_attention", "full_attention", "full_attention"};
  expect_error(config, ErrorCode::kUnsupported, "layer type 'chunked_attention'");
  config["layer_types"] = "full_attention";
  expect_error(config, ErrorCode::kBadType, "layer_types");
}

TEST(BadConfigs, HeadCountsThatAreNotMultiplesOfKvHeadsAreRefused) {
  Json config = gemma3();
  config["num_key_value_heads"] = 3;
  expect_error(config, ErrorCode::kBadHyperparameter, "num_key_value_heads is 3, expected a divisor of n_heads, 4");
  config = gemma3();
  config.erase("head_dim");
  config["num_attention_heads"] = 5;
  config["num_key_value_heads"] = 5;
  expect_error(config, ErrorCode::kBadHyperparameter, "num_attention_heads is 5, expected a divisor of dim, 64");
}

// Tests a head_dim in the file, and one that is computed from other numbers.
TEST(BadConfigs, TooLargeHeadDimIsRefused) {
  Json config = gemma3();
  config.erase("head_dim");
  config["hidden_size"] = 8192;
  expect_error(config, ErrorCode::kBadHyperparameter, "head_dim is 2048, expected 1..1024");
}

TEST(BadConfigs, ConfigMembersWithoutEffectAreIgnored) {
  const std::pair<const char*, Json> kMembers[] = {
      {"rope_scaling", nullptr},
      {"rope_scaling", Json::object()},
      {"rope_scaling", {{"type", nullptr}}},
      {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}},
      {"rope_parameters", nullptr},
      {"quantization_config", nullptr},
      {"quantization_config", Json::object()},
      {"architectures", nullptr},
      {"torch_dtype", 7},
      {"eos_token_id", {1, 2}},
      {"pad_token_id", -1},
      {"layer_types", nullptr},
      {"sliding_window", nullptr},
      {"attention_bias", nullptr},
      {"head_dim", nullptr},
      {"hidden_act", nullptr},
  };
  for (const auto& [name, value] : kMembers) {
    Json config = llama(nullptr);
    config[name] = value;
    const Status status = read(config.dump());
    EXPECT_TRUE(status.ok()) << name << " " << value.dump() << ": " << status.to_string();
  }
}

TEST(BadConfigs, InvalidRopeFactorsAreRefused) {
  for (const double factor : {0.0, -8.0, 1e300}) {
    expect_error(llama({{"rope_type", "linear"}, {"factor", factor}}), ErrorCode::kBadHyperparameter,
                 "rope_scaling.factor is");
  }
  // The words that Python writes for such floats are parsed, and then refused as factors.
  for (const char* word : {"NaN", "Infinity", "-Infinity", R"({"__float__": "Infinity"})"}) {
    std::string config = llama({{"rope_type", "linear"}, {"factor", 8192}}).dump();
    const Status status = read(config.replace(config.find("8192"), 4, word));
    EXPECT_EQ(status.code(), ErrorCode::kBadHyperparameter) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("rope_scaling.factor is")) << word;
  }
  Json config = gemma3();
  config["time_step_limit"] = {0.0, 8192};
  std::string text = config.dump();
  EXPECT_TRUE(read(text.replace(text.find("8192"), 4, "Infinity")).ok());
  expect_error(llama({{"rope_type", "linear"}, {"factor", "8"}}), ErrorCode::kBadType, "rope_scaling.factor");
  expect_error(llama({{"rope_type", "linear"}}), ErrorCode::kMissingKey, "rope_scaling.factor");
  expect_error(llama({{"rope_type", "spiral"}, {"factor", 8}}), ErrorCode::kUnsupported, "rope scaling 'spiral'");
  expect_error(llama({{"rope_type", "yarn"}, {"factor", 8}, {"beta_fast", -1}}), ErrorCode::kBadHyperparameter,
               "rope_scaling.beta_fast is -1");
}

TEST(BadConfigs, LongropeFactorsOfWrongLengthOrSignAreRefused) {
  Json rule = {{"rope_type", "longrope"}, {"short_factor", std::vector<double>(12, 1.0)}};
  expect_error(llama(rule), ErrorCode::kBadHyperparameter, "rope_scaling.long_factor is missing, expected 12 numbers");
  rule["long_factor"] = std::vector<double>(11, 1.0);
  expect_error(llama(rule), ErrorCode::kBadHyperparameter, "rope_scaling.long_factor has 11 elements, expected 12");
  rule["long_factor"] = std::vector<double>(12, -1.0);
  expect_error(llama(rule), ErrorCode::kBadHyperparameter, "rope_scaling.long_factor is an array with -1");
}

TEST(BadConfigs, InvalidPartialRotaryFactorIsRefused) {
  for (const double share : {0.0, 1.5, -0.5, 0.01, 0.13}) {
    Json config = gemma3();
    config["model_type"] = "stablelm";
    config["layer_norm_eps"] = 1e-5;
    config["partial_rotary_factor"] = share;
    config["rope_scaling"] = nullptr;
    expect_error(config, ErrorCode::kBadHyperparameter, "partial_rotary_factor is");
  }
}

TEST(BadConfigs, ZeroAndNegativeFactorsAreRefused) {
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier"}) {
    Json config = gemma3();
    config["model_type"] = "granite";
    config[key] = 0;
    expect_error(config, ErrorCode::kBadHyperparameter, std::string(key) + " is 0");
  }
  Json config = gemma3();
  config["final_logit_softcapping"] = -30;
  expect_error(config, ErrorCode::kBadHyperparameter, "final_logit_softcapping is -30");
}

TEST(BadConfigs, UnsupportedActivationsAndFlagsAreRefused) {
  Json config = llama(nullptr);
  config["hidden_act"] = "snake";
  expect_error(config, ErrorCode::kUnsupported, "hidden_act 'snake' is not supported (supported: silu");
  for (const char* key : {"alibi", "use_qk_norm", "qk_layernorm"}) {
    config = llama(nullptr);
    config[key] = true;
    expect_error(config, ErrorCode::kUnsupported, std::string(key) + " (");
  }
}

TEST(BadConfigs, InvalidNoRopeLayersAreRefused) {
  Json config = llama(nullptr);
  config["model_type"] = "smollm3";
  config["no_rope_layers"] = {1, 1, 0};
  expect_error(config, ErrorCode::kBadHyperparameter, "no_rope_layers has 3 elements, expected 4");
  config["no_rope_layers"] = {1, 1, 0, 2};
  expect_error(config, ErrorCode::kBadHyperparameter, "no_rope_layers is an array with 2, expected elements of 0..1");
}

}  // namespace
}  // namespace ibid
