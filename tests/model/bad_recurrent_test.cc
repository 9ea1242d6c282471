// Invalid numbers of recurrent layers in config.json: each gets a typed error that names file, field, value and allowed
// range, before anything is allocated for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "base/json_limits.h"
#include "model/architectures/architectures.h"
#include "tests/support/temp_dir.h"
#include "weights/model_file.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

using testing::HasSubstr;

Json shape(const std::string& model_type) {
  return {{"model_type", model_type}, {"vocab_size", 8},
          {"hidden_size", 64},        {"intermediate_size", 80},
          {"num_hidden_layers", 4},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 256},
          {"rms_norm_eps", 1e-6}};
}

Json bamba() {
  Json config = shape("bamba");
  config.update({{"mamba_n_heads", 8},
                 {"mamba_d_head", 16},
                 {"mamba_n_groups", 2},
                 {"mamba_d_state", 16},
                 {"mamba_d_conv", 4},
                 {"mamba_expand", 2},
                 {"attn_layer_indices", {1}}});
  return config;
}

Json qwen35() {
  Json config = shape("qwen3_5_text");
  config.update({{"linear_conv_kernel_dim", 4},
                 {"linear_key_head_dim", 16},
                 {"linear_value_head_dim", 16},
                 {"linear_num_key_heads", 2},
                 {"linear_num_value_heads", 4},
                 {"layer_types", {"linear_attention", "linear_attention", "full_attention", "linear_attention"}}});
  return config;
}

Json nemotron_h() {
  Json config = shape("nemotron_h");
  config.update({{"mamba_num_heads", 6},
                 {"mamba_head_dim", 16},
                 {"n_groups", 2},
                 {"ssm_state_size", 16},
                 {"conv_kernel", 4},
                 {"mlp_hidden_act", "relu2"},
                 {"hybrid_override_pattern", "M-M*"}});
  return config;
}

Json jamba() {
  Json config = shape("jamba");
  config.update({{"mamba_d_state", 8},
                 {"mamba_d_conv", 4},
                 {"mamba_expand", 2},
                 {"mamba_dt_rank", 6},
                 {"attn_layer_period", 4},
                 {"attn_layer_offset", 2}});
  return config;
}

// Reads the configuration of a directory with this config.json and an embedding.
Result<ModelConfig> read_recurrent(const std::string& config) {
  const TempDir dir;
  std::ofstream(dir.file("config.json")) << config;
  const std::vector<float> values(8 * 64);
  const TensorView embed{DType::kF32, {{8, 64}, 2}, std::as_bytes(std::span(values))};
  const NamedTensor tensors[] = {{"backbone.embeddings.weight", embed}, {"model.embed_tokens.weight", embed}};
  EXPECT_TRUE(write_safetensors(dir.file("model.safetensors"), tensors).ok());
  const auto file = open_model_file(dir.path());
  if (!file.ok()) return file.status();
  return read_config(**file);
}

void expect_refused(const Json& config, ErrorCode code, const std::string& text) {
  const Status status = read_recurrent(config.dump()).status();
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr(text));
}

void expect_refused(Json config, const char* key, const Json& value) {
  config[key] = value;
  expect_refused(config, ErrorCode::kBadHyperparameter, std::string(key) + " is ");
}

TEST(BadRecurrent, ValidConfigsAreRead) {
  for (const Json& config : {bamba(), qwen35(), nemotron_h(), jamba()}) {
    const auto read_one = read_recurrent(config.dump());
    ASSERT_TRUE(read_one.ok()) << read_one.status().to_string();
    EXPECT_TRUE(read_one->recurs());
  }
  const auto config = read_recurrent(nemotron_h().dump());
  EXPECT_EQ(config->layers[1].blocks, LayerBlocks::kMlp);
  EXPECT_TRUE(config->layers[3].attends);
  EXPECT_EQ(config->layers[2].state_layer, 1u);
}

TEST(BadRecurrent, OutOfRangeNumbersAreRefused) {
  for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    for (const char* key : {"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"}) {
      expect_refused(bamba(), key, number);
    }
    for (const char* key : {"linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads",
                            "linear_num_value_heads", "linear_conv_kernel_dim"}) {
      expect_refused(qwen35(), key, number);
    }
    for (const char* key : {"mamba_d_state", "mamba_expand", "mamba_dt_rank"}) expect_refused(jamba(), key, number);
  }
}

TEST(BadRecurrent, ActivationsOtherThanSiluAreRefused) {
  for (Json config : {bamba(), qwen35(), jamba()}) {
    config["hidden_act"] = "gelu";
    expect_refused(config, ErrorCode::kUnsupported, "hidden_act 'gelu' is not supported in recurrent layers");
  }
  Json config = nemotron_h();
  config["mamba_hidden_act"] = "relu2";
  expect_refused(config, ErrorCode::kUnsupported, "mamba_hidden_act 'relu2' is not supported in recurrent layers");
}

TEST(BadRecurrent, InvalidConvolutionLengthIsRefused) {
  expect_refused(bamba(), "mamba_d_conv", 1);
  expect_refused(bamba(), "mamba_d_conv", 65);
  Json config = bamba();
  config.erase("mamba_d_conv");
  expect_refused(config, ErrorCode::kMissingKey, "mamba_d_conv");
}

TEST(BadRecurrent, HeadCountsThatDoNotDivideAreRefused) {
  Json config = qwen35();
  config["linear_num_key_heads"] = 3;
  expect_refused(config, ErrorCode::kBadHyperparameter, "4 value heads, 3 key heads");
  config = bamba();
  config["mamba_n_groups"] = 5;
  expect_refused(config, ErrorCode::kBadHyperparameter, "8 value heads, 5 key heads");
}

TEST(BadRecurrent, TooLargeStatesAreRefused) {
  Json config = qwen35();
  config["linear_num_value_heads"] = 1 << 20;
  config["linear_value_head_dim"] = 1 << 20;
  expect_refused(config, ErrorCode::kBadHyperparameter, "at most 4194304 columns are supported");
  config = qwen35();
  config["linear_key_head_dim"] = 1 << 20;
  config["linear_num_value_heads"] = 1 << 12;
  expect_refused(config, ErrorCode::kBadHyperparameter, "a state must have at most 268435456 numbers");
  config = jamba();
  config["mamba_d_state"] = 1 << 22;
  expect_refused(config, ErrorCode::kBadHyperparameter, "a state must have at most");
}

TEST(BadRecurrent, InvalidLayerKindsAreRefused) {
  Json config = qwen35();
  config["layer_types"][0] = "rwkv";
  expect_refused(config, ErrorCode::kUnsupported, "layer type 'rwkv' is not supported");
  config["layer_types"] = {"linear_attention"};
  expect_refused(config, ErrorCode::kBadHyperparameter, "layer_types has 1 elements, expected 4");
  config = nemotron_h();
  config["hybrid_override_pattern"] = "M-MX";
  expect_refused(config, ErrorCode::kUnsupported, "layer type 'X'");
  config["hybrid_override_pattern"] = "M-M";
  expect_refused(config, ErrorCode::kBadHyperparameter,
                 "hybrid_override_pattern is 'M-M', expected a letter for each of 4");
  config = bamba();
  config["attn_layer_indices"] = {4};
  expect_refused(config, ErrorCode::kBadHyperparameter, "attn_layer_indices is an array with 4, expected layers 0..3");
  config = jamba();
  config["attn_layer_period"] = 0;
  expect_refused(config, ErrorCode::kBadHyperparameter, "attn_layer_period is 0");
}

TEST(BadRecurrent, InvalidTimeStepLimitsAreRefused) {
  Json config = bamba();
  config["time_step_limit"] = {2.0, 1.0};
  expect_refused(config, ErrorCode::kBadHyperparameter, "time_step_limit is 2");
  config["time_step_limit"] = {0.0, 1.0, 2.0};
  expect_refused(config, ErrorCode::kBadHyperparameter, "time_step_limit has 3 elements, expected 2");
  config["time_step_limit"] = {0.5, 8192};
  std::string text = config.dump();
  const auto limited = read_recurrent(text.replace(text.find("8192"), 4, "Infinity"));
  ASSERT_TRUE(limited.ok()) << limited.status().to_string();
  EXPECT_EQ(limited->recurrent.step_low, 0.5f);
  EXPECT_EQ(limited->recurrent.step_high, std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace ibid
