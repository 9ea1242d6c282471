// Keys of a converted model without which llama.cpp would compute another model.
#include "model/architectures/gguf_conversion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/architectures/architectures.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/temp_dir.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

using testing::ElementsAre;

// Common to all configurations here.
constexpr const char* kShape = R"("vocab_size": 8, "hidden_size": 16, "intermediate_size": 24, "rms_norm_eps": 1e-5,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "rope_theta": 10000.0)";

class GgufKeys : public testing::Test {
 protected:
  // Returns the converted file of a checkpoint with this config.json, with only the tensors that the configuration
  // needs.
  std::unique_ptr<ModelFile> converted(const std::string& members) {
    dir_.write("config.json", std::string("{") + kShape + ", " + members + "}");
    const std::vector<float> zeros(8 * 16);
    TensorView embed;
    embed.shape = Shape{{8, 16}, 2};
    embed.data = std::as_bytes(std::span(zeros));
    const NamedTensor tensors[] = {{"model.embed_tokens.weight", embed}};
    EXPECT_TRUE(write_safetensors(dir_.file("model.safetensors"), tensors).ok());
    const auto file = open_model_file(dir_.path());
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    const auto config = read_config(**file);
    EXPECT_TRUE(config.ok()) << config.status().to_string();
    GgufWriter writer;
    const Architecture& to = *written_architecture(*find_architecture(**file)->row, *config);
    const Status written = write_gguf_keys(**file, *config, to, writer);
    EXPECT_TRUE(written.ok()) << written.to_string();
    add_tensor_of(writer, "token_embd.weight", DType::kF32, embed.shape, zeros);
    // The third layer has no value tensor, so it uses its keys as values.
    for (const char* values : {"blk.0.attn_v.weight", "blk.1.attn_v.weight"}) {
      add_tensor_of(writer, values, DType::kF32, Shape{{1}, 1}, std::vector<float>{0});
    }
    auto out = open_model_file(dir_.write("model.gguf", writer.bytes()));
    EXPECT_TRUE(out.ok()) << out.status().to_string();
    const auto got = read_config(**out);
    EXPECT_TRUE(got.ok()) << got.status().to_string();
    const Status same = check_same_model(*config, *got, "config.json");
    EXPECT_TRUE(same.ok()) << same.to_string();
    return std::move(out).value();
  }

  TempDir dir_;
};

int64_t int_of(const ModelFile& file, const char* key) {
  const auto value = file.get_int(key);
  EXPECT_TRUE(value.ok() && *value) << key;
  return value.ok() && *value ? **value : -1;
}

double float_of(const ModelFile& file, const char* key) {
  const auto value = file.get_float(key);
  EXPECT_TRUE(value.ok() && *value) << key;
  return value.ok() && *value ? **value : -1;
}

// For these architectures llama.cpp reads a period and silently ignores a list, so a period must be written.
TEST_F(GgufKeys, PeriodicWindowsAreWrittenAsAPeriod) {
  constexpr const char* kWindowed[] = {R"("gemma2")",  R"("olmo3")",   R"("cohere2")",
                                       R"("exaone4")", R"("gpt_oss")", R"("afmoe")"};
  for (const std::string name : kWindowed) {
    SCOPED_TRACE(name);
    const std::string experts = name == R"("gpt_oss")" || name == R"("afmoe")"
                                    ? R"("num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,)"
                                    : "";
    const std::string members = experts + R"("model_type": )" + name + R"(, "sliding_window": 7, "layer_types": )";
    const auto key = [&](const ModelFile& file) {
      const auto architecture = file.get_string("general.architecture");
      return std::string(**architecture) + ".attention.sliding_window_pattern";
    };
    const auto by_three =
        converted(members + R"(["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
                     "num_hidden_layers": 4)");
    EXPECT_EQ(int_of(*by_three, key(*by_three).c_str()), 3);
    const auto all = converted(members + R"(["sliding_attention", "sliding_attention", "sliding_attention",
                                             "sliding_attention", "sliding_attention", "sliding_attention"],
                                            "num_hidden_layers": 6)");
    EXPECT_EQ(int_of(*all, key(*all).c_str()), 7);
    // These windows have no period, so llama.cpp cannot represent them; ibid reads the list.
    const auto other = converted(members + R"(["full_attention", "sliding_attention", "full_attention"],
                                              "num_hidden_layers": 3)");
    EXPECT_THAT(**other->get_ints(key(*other)), ElementsAre(0, 1, 0));
  }
}

// llama.cpp multiplies YaRN's default magnitude by attn_factor, so the written value is relative to that default.
TEST_F(GgufKeys, YarnAttentionFactorIsRelativeToTheDefault) {
  const std::string members = R"("model_type": "llama", "num_hidden_layers": 1, "rope_scaling": {"rope_type": "yarn",
                                 "factor": 8.0, "original_max_position_embeddings": 32)";
  const auto usual = converted(members + "}");
  EXPECT_FALSE(usual->has("llama.rope.scaling.attn_factor"));
  EXPECT_EQ(float_of(*usual, "llama.rope.scaling.factor"), 8);
  EXPECT_EQ(int_of(*usual, "llama.rope.scaling.original_context_length"), 32);
  const auto own = converted(members + R"(, "attention_factor": 1.2})");
  EXPECT_NEAR(float_of(*own, "llama.rope.scaling.attn_factor") * (1 + 0.1 * std::log(8.0)), 1.2, 1e-6);
}

TEST_F(GgufKeys, AllRouterKeysAreWritten) {
  const auto file = converted(R"("model_type": "deepseek_v3", "num_hidden_layers": 2, "q_lora_rank": 6,
      "kv_lora_rank": 4, "qk_nope_head_dim": 6, "qk_rope_head_dim": 2, "v_head_dim": 4, "n_routed_experts": 8,
      "n_shared_experts": 2, "num_experts_per_tok": 3, "moe_intermediate_size": 12, "n_group": 4, "topk_group": 2,
      "routed_scaling_factor": 2.5, "norm_topk_prob": true, "first_k_dense_replace": 1, "rope_scaling": {"type": "yarn",
      "factor": 8.0, "original_max_position_embeddings": 32, "mscale": 1.0, "mscale_all_dim": 1.0})");
  EXPECT_EQ(int_of(*file, "deepseek2.expert_count"), 8);
  EXPECT_EQ(int_of(*file, "deepseek2.expert_used_count"), 3);
  EXPECT_EQ(int_of(*file, "deepseek2.expert_shared_count"), 2);
  EXPECT_EQ(int_of(*file, "deepseek2.expert_feed_forward_length"), 12);
  EXPECT_EQ(int_of(*file, "deepseek2.expert_group_count"), 4);
  EXPECT_EQ(int_of(*file, "deepseek2.expert_group_used_count"), 2);
  EXPECT_EQ(int_of(*file, "deepseek2.expert_gating_func"), 2);
  EXPECT_EQ(int_of(*file, "deepseek2.leading_dense_block_count"), 1);
  EXPECT_EQ(float_of(*file, "deepseek2.expert_weights_scale"), 2.5);
  EXPECT_TRUE(**file->get_bool("deepseek2.expert_weights_norm"));
  EXPECT_FLOAT_EQ(static_cast<float>(float_of(*file, "deepseek2.rope.scaling.yarn_log_multiplier")), 0.1f);
  EXPECT_EQ(int_of(*file, "deepseek2.rope.dimension_count"), 2);
  EXPECT_EQ(int_of(*file, "deepseek2.attention.q_lora_rank"), 6);
  EXPECT_EQ(int_of(*file, "deepseek2.attention.kv_lora_rank"), 4);
}

TEST_F(GgufKeys, PerLayerValuesAreWrittenAsArrays) {
  const auto file = converted(R"("model_type": "gemma4_text", "num_hidden_layers": 4, "sliding_window": 7,
      "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
      "head_dim": 4, "global_head_dim": 8, "num_global_key_value_heads": 1, "attention_k_eq_v": true,
      "num_kv_shared_layers": 1, "use_double_wide_mlp": true, "hidden_size_per_layer_input": 0,
      "final_logit_softcapping": 5.0, "rope_parameters": {
          "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
          "full_attention": {"rope_type": "default", "rope_theta": 1000.0}})");
  EXPECT_THAT(**file->get_ints("gemma4.attention.sliding_window_pattern"), ElementsAre(1, 1, 0, 1));
  EXPECT_THAT(**file->get_ints("gemma4.attention.head_count_kv"), ElementsAre(2, 2, 1, 2));
  EXPECT_THAT(**file->get_ints("gemma4.feed_forward_length"), ElementsAre(24, 24, 24, 48));
  EXPECT_EQ(int_of(*file, "gemma4.attention.key_length"), 8);
  EXPECT_EQ(int_of(*file, "gemma4.attention.value_length"), 8);
  EXPECT_EQ(int_of(*file, "gemma4.attention.key_length_swa"), 4);
  EXPECT_EQ(int_of(*file, "gemma4.attention.value_length_swa"), 4);
  EXPECT_EQ(int_of(*file, "gemma4.rope.dimension_count"), 8);
  EXPECT_EQ(int_of(*file, "gemma4.rope.dimension_count_swa"), 4);
  EXPECT_EQ(float_of(*file, "gemma4.rope.freq_base"), 1000);
  EXPECT_EQ(float_of(*file, "gemma4.rope.freq_base_swa"), 500);
  EXPECT_EQ(int_of(*file, "gemma4.attention.shared_kv_layers"), 1);
  EXPECT_EQ(int_of(*file, "gemma4.embedding_length_per_layer_input"), 0);
  EXPECT_EQ(float_of(*file, "gemma4.final_logit_softcapping"), 5);
}

// llama.cpp's granitehybrid requires recurrent layers, so a model without them is converted to granite.
TEST_F(GgufKeys, Granite4WithoutRecurrentLayersIsConvertedToGranite) {
  const std::string members = R"("model_type": "granitemoehybrid", "num_hidden_layers": 1, "layer_types": ["attention"],
      "position_embedding_type": "rope", "shared_intermediate_size": 24)";
  const auto dense = converted(members + R"(, "num_local_experts": 0)");
  EXPECT_EQ(**dense->get_string("general.architecture"), "granite");
  const auto experts = converted(members + R"(, "num_local_experts": 4, "num_experts_per_tok": 2)");
  EXPECT_EQ(**experts->get_string("general.architecture"), "granitemoe");
  EXPECT_EQ(int_of(*experts, "granitemoe.expert_shared_feed_forward_length"), 24);
}

}  // namespace
}  // namespace ibid
