// Inconsistent files of models with experts or latent attention: each gets a typed error with file, field, value and
// allowed range.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "model/load_model.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

using testing::HasSubstr;

constexpr const char* kNames[] = {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"};

TinyModel experts() {
  TinyModel tiny;
  tiny.n_layers = 1;
  tiny.n_experts = 4, tiny.n_experts_active = 2, tiny.expert_ffn_dim = 32;
  return tiny;
}

Status load(const GgufWriter& writer) {
  const TempDir dir;
  const std::string path = dir.file("bad.gguf");
  EXPECT_TRUE(writer.write(path).ok());
  const auto file = open_model_file(path);
  if (!file.ok()) return file.status();
  return load_language_model(**file, {}).status();
}

void expect_error(const Status& status, ErrorCode code, const std::string& names) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("bad.gguf"));
  EXPECT_THAT(status.message(), HasSubstr(names));
}

TEST(BadExperts, ModelWithValidExpertsLoads) { EXPECT_TRUE(load(tiny_model_writer(experts())).ok()); }

TEST(BadExperts, ZeroActiveExpertsAreRefused) {
  TinyModel tiny = experts();
  tiny.n_experts_active = 0;
  expect_error(load(tiny_model_writer(tiny)), ErrorCode::kBadHyperparameter,
               "llama.expert_used_count is 0, expected 1..4");
}

TEST(BadExperts, MoreActiveExpertsThanExpertsAreRefused) {
  TinyModel tiny = experts();
  tiny.n_experts_active = 5;
  expect_error(load(tiny_model_writer(tiny)), ErrorCode::kBadHyperparameter,
               "llama.expert_used_count is 5, expected 1..4");
}

TEST(BadExperts, ExpertCountBeyondTensorsIsRefused) {
  TinyModel tiny = experts();
  tiny.counted_experts = 9;
  expect_error(load(tiny_model_writer(tiny)), ErrorCode::kBadShape, "is [4, 64], expected [9, 64]");
}

TEST(BadExperts, HugeExpertCountIsRefused) {
  TinyModel tiny = experts();
  tiny.counted_experts = std::numeric_limits<uint32_t>::max();
  expect_error(load(tiny_model_writer(tiny)), ErrorCode::kBadHyperparameter, "llama.expert_count is 4294967295");
}

TEST(BadExperts, MissingTensorsAreReported) {
  TinyModel tiny = experts();
  for (const char* name : kNames) {
    tiny.without = std::string("blk.0.") + name;
    expect_error(load(tiny_model_writer(tiny)), ErrorCode::kMissingTensor, tiny.without + " is missing");
  }
  tiny.without = "blk.0.ffn_gate_inp.weight";
  expect_error(load(tiny_model_writer(tiny)), ErrorCode::kMissingTensor, "ffn_gate_inp.weight is missing");
}

TEST(BadExperts, WrongExpertWidthIsRefused) {
  TinyModel tiny = experts();
  tiny.counted_expert_ffn_dim = 48;
  expect_error(load(tiny_model_writer(tiny)), ErrorCode::kBadShape,
               "ffn_gate_exps.weight is [4, 32, 64], expected [4, 48, 64]");
}

TEST(BadExperts, ExpertGroupCountThatIsNoDivisorIsRefused) {
  for (const uint32_t n_groups : {3u, 4u, 5u}) {  // 4 gives groups of one expert
    GgufWriter writer = tiny_model_writer(experts());
    writer.add_u32("llama.expert_group_count", n_groups);
    expect_error(load(writer), ErrorCode::kBadHyperparameter,
                 "llama.expert_group_count is " + std::to_string(n_groups) + ", expected a divisor of the 4 experts");
  }
}

TEST(BadExperts, InvalidActiveGroupCountIsRefused) {
  for (const uint32_t n_open : {0u, 3u}) {
    GgufWriter writer = tiny_model_writer(experts());
    writer.add_u32("llama.expert_group_count", 2);
    writer.add_u32("llama.expert_group_used_count", n_open);
    expect_error(load(writer), ErrorCode::kBadHyperparameter,
                 "llama.expert_group_used_count is " + std::to_string(n_open));
  }
  TinyModel tiny = experts();
  tiny.n_experts_active = 3;
  GgufWriter writer = tiny_model_writer(tiny);
  writer.add_u32("llama.expert_group_count", 2);
  writer.add_u32("llama.expert_group_used_count", 1);
  expect_error(load(writer), ErrorCode::kBadHyperparameter,
               "expected groups of at least 3 experts together; these have 2");
}

TEST(BadExperts, UnknownGatingFunctionIsRefused) {
  GgufWriter writer = tiny_model_writer(experts());
  writer.add_u32("llama.expert_gating_func", 7);
  expect_error(load(writer), ErrorCode::kUnsupported, "llama.expert_gating_func 7 is not supported");
}

TEST(BadExperts, LeadingDenseCountBeyondLayersIsRefused) {
  GgufWriter writer = tiny_model_writer(experts());
  writer.add_u32("llama.leading_dense_block_count", 2);
  expect_error(load(writer), ErrorCode::kBadHyperparameter, "llama.leading_dense_block_count is 2, expected 0..1");
}

TEST(BadExperts, InvalidWeightScaleIsRefused) {
  for (const float scale : {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    GgufWriter writer = tiny_model_writer(experts());
    writer.add_f32("llama.expert_weights_scale", scale);
    expect_error(load(writer), ErrorCode::kBadHyperparameter, "llama.expert_weights_scale");
  }
}

TEST(BadExperts, NonFiniteChoiceBiasIsRefused) {
  GgufWriter writer = tiny_model_writer(experts());
  const std::vector<float> bias = {0, 1, std::numeric_limits<float>::quiet_NaN(), 0};
  add_tensor_of(writer, "blk.0.exp_probs_b.bias", DType::kF32, Shape{{4}, 1}, bias);
  expect_error(load(writer), ErrorCode::kNonFinite, "blk.0.exp_probs_b.bias holds a value that is not finite at 2");
}

TEST(BadExperts, NonFiniteRouterWeightsAreRefused) {
  TinyModel tiny = experts();
  tiny.without = "blk.0.ffn_gate_inp.weight";
  GgufWriter writer = tiny_model_writer(tiny);
  std::vector<float> router(4 * 64, 0.1f);
  router[70] = std::numeric_limits<float>::quiet_NaN();
  add_tensor_of(writer, tiny.without, DType::kF32, Shape{{4, 64}, 2}, router);
  expect_error(load(writer), ErrorCode::kNonFinite,
               "tensor blk.0.ffn_gate_inp.weight holds a value that is not finite");
}

// The weights are finite, but products of them are not; the pass must report it.
TEST(BadExperts, NonFiniteRouterLogitsFailThePass) {
  TinyModel tiny = experts();
  tiny.without = "blk.0.ffn_gate_inp.weight";
  GgufWriter writer = tiny_model_writer(tiny);
  const std::vector<float> router(4 * 64, std::numeric_limits<float>::max());
  add_tensor_of(writer, "blk.0.ffn_gate_inp.weight", DType::kF32, Shape{{4, 64}, 2}, router);
  const TempDir dir;
  const std::string path = dir.file("bad.gguf");
  ASSERT_TRUE(writer.write(path).ok());
  const auto file = open_model_file(path);
  const auto model = load_language_model(**file, {.n_threads = 2});
  ASSERT_TRUE(model.ok());
  for (const size_t n : {1u, 20u}) {
    KvPagePool pool((*model)->kv_layout(), size_t{16} << 20);
    KvCacheEntry entry(pool);
    const Tokens tokens = random_tokens(n, (*model)->vocab_size(), 1);
    const SequenceChunk chunk{&entry, tokens, WantLogits::kNone};
    Logits logits;
    const Status status = (*model)->forward(std::span(&chunk, 1), {}, logits);
    EXPECT_EQ(status.code(), ErrorCode::kNonFinite);
    EXPECT_EQ(status.message(), "router logits of layer 0 are not finite");
    EXPECT_EQ(entry.length(), 0u);
  }
}

// Writes metadata and an embedding only, because these errors are found before any other tensor is read.
Status load_latent(const std::map<std::string, uint32_t>& changes) {
  std::map<std::string, uint32_t> numbers = {{"block_count", 1},
                                             {"embedding_length", 64},
                                             {"feed_forward_length", 64},
                                             {"attention.head_count", 4},
                                             {"context_length", 64},
                                             {"attention.q_lora_rank", 8},
                                             {"attention.kv_lora_rank", 16},
                                             {"attention.key_length", 24},
                                             {"attention.value_length", 16},
                                             {"rope.dimension_count", 8}};
  for (const auto& [key, value] : changes) numbers[key] = value;
  GgufWriter writer;
  writer.add_string("general.architecture", "deepseek2");
  for (const auto& [key, value] : numbers) writer.add_u32("deepseek2." + key, value);
  writer.add_f32("deepseek2.attention.layer_norm_rms_epsilon", 1e-6f);
  add_tensor_of(writer, "token_embd.weight", DType::kF32, Shape{{8, 64}, 2}, std::vector<float>(8 * 64));
  return load(writer);
}

TEST(BadLatentAttention, OutOfRangeNumbersAreRefused) {
  expect_error(load_latent({}), ErrorCode::kMissingTensor, "output_norm.weight is missing");
  expect_error(load_latent({{"attention.kv_lora_rank", 0}}), ErrorCode::kBadHyperparameter,
               "attention.kv_lora_rank is 0");
  expect_error(load_latent({{"attention.kv_lora_rank", 1u << 30}}), ErrorCode::kBadHyperparameter,
               "attention.kv_lora_rank");
  // A cached row has both parts, each padded to multiples of 32.
  expect_error(load_latent({{"attention.kv_lora_rank", 993}}), ErrorCode::kBadHyperparameter,
               "attention.kv_lora_rank is 993, "
               "expected a rank that fits in 1024 dimensions together with 8 rotary dimensions");
  expect_error(load_latent({{"attention.kv_lora_rank", 992}}), ErrorCode::kMissingTensor,
               "output_norm.weight is missing");
  expect_error(load_latent({{"attention.q_lora_rank", 1u << 30}}), ErrorCode::kBadHyperparameter,
               "attention.q_lora_rank");
  expect_error(load_latent({{"rope.dimension_count", 7}}), ErrorCode::kBadHyperparameter, "expected an even number");
  expect_error(load_latent({{"rope.dimension_count", 24}}), ErrorCode::kBadHyperparameter,
               "attention.key_length is 24, expected 25");
  expect_error(load_latent({{"rope.dimension_count", 4096}}), ErrorCode::kBadHyperparameter, "rope.dimension_count");
  expect_error(load_latent({{"attention.value_length", 0}}), ErrorCode::kBadHyperparameter,
               "attention.value_length is 0");
  expect_error(load_latent({{"attention.value_length", 5000}}), ErrorCode::kBadHyperparameter,
               "attention.value_length");
}

}  // namespace
}  // namespace ibid
