#include "model/weights/unused_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/json_limits.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

using testing::HasSubstr;

constexpr DType kF = DType::kF32;

// Adds one tensor, of ones or of zeros, to the committed llama.
class UnusedTensors : public testing::Test {
 protected:
  Status load_with(const std::string& name, const Shape& shape, float value = 1,
                   const std::string& model = "/logits/llama") {
    const auto base = open_model_file(golden_dir() + model);
    CHECK(base.ok()) << base.status().to_string();
    std::vector<NamedTensor> tensors;
    for (const std::string& of_base : (*base)->tensor_names()) {
      tensors.push_back({of_base, *(*base)->find_tensor(of_base)});
    }
    const std::vector<float> values(shape.elements(), value);
    tensors.push_back({name, TensorView{kF, shape, std::as_bytes(std::span(values))}});
    dir_.write("config.json", (*base)->config_json()->dump());
    CHECK(write_safetensors(dir_.file("model.safetensors"), tensors).ok());
    file_ = *open_model_file(dir_.path());
    return load_language_model(*file_, {.n_threads = 1}).status();
  }
  // Returns the last tensor of the file.
  UnusedTensor sorted() const { return unused_tensors(*file_, *read_config(*file_)).back(); }

  void expect_refused(const std::string& name, const Shape& shape, const std::string& model = "/logits/llama") {
    const Status status = load_with(name, shape, 1, model);
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("unknown tensor " + name + " in a model of architecture "));
    EXPECT_THAT(status.message(), HasSubstr(dir_.path()));
  }
  void expect_quiet(const std::string& name, const Shape& shape, float value, const std::string& reason) {
    const Status status = load_with(name, shape, value);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(sorted().name, name);
    EXPECT_THAT(sorted().reason == nullptr ? "" : sorted().reason, HasSubstr(reason));
  }

  TempDir dir_;
  std::unique_ptr<ModelFile> file_;
};

TEST_F(UnusedTensors, UnknownLayerTensorsAreRefusedByName) {
  expect_refused("model.layers.1.self_attn.q_norm2.weight", {{6}, 1});
  expect_refused("model.layers.0.pre_feedforward_layernorm.weight", {{24}, 1});
  expect_refused("model.layers.0.input_layernorm.bias", {{24}, 1});
  expect_refused("model.layers.0.self_attn.attn.bias", {{24}, 1});
  expect_refused("model.layers.1.self_attn.sub_norm.weight", {{24}, 1});
  expect_refused("lm_head.scale", {{40}, 1});
  expect_refused("model.embed_layernorm.weight", {{24}, 1});
  // In an architecture with experts that have no bias.
  expect_refused("model.layers.0.mlp.experts.up_bias", {{8, 8}, 2}, "/families/dots1");
}

// The tensor table has rows for biases that a model may lack. If a file has such a bias, it is used.
TEST_F(UnusedTensors, OptionalBiasInTheFileIsUsed) {
  EXPECT_TRUE(load_with("model.layers.0.self_attn.o_proj.bias", {{24}, 1}).ok());
  const auto unused = unused_tensors(*file_, *read_config(*file_));
  EXPECT_TRUE(std::ranges::none_of(unused, [](const UnusedTensor& t) { return t.name.ends_with("o_proj.bias"); }));
}

TEST_F(UnusedTensors, KnownHarmlessTensorsAreIgnored) {
  expect_quiet("model.layers.0.self_attn.rotary_emb.inv_freq", {{3}, 1}, 1, "RoPE");
  expect_quiet("model.layers.0.self_attn.diagonal_decay", {{1, 2, 4, 4}, 4}, 1, "decay rule");
  expect_quiet("model.layers.1.self_attn.q_proj.input_scale", {{1}, 1}, 1, "INT8");
  expect_quiet("model.layers.1.mlp.up_proj.input_scale_ub", {{1}, 1}, 1, "INT8");
  expect_quiet("model.layers.1.self_attn.k_scale", {{1}, 1}, 1, "INT8");
  expect_quiet("model.layers.1.attn.bias", {{1, 1, 4, 4}, 4}, 1, "mask");
  expect_quiet("model.layers.1.input_layernorm.bias", {{24}, 1}, 0, "bias of zeros");
  expect_quiet("model.layers.2.eh_proj.weight", {{24, 48}, 2}, 1, "multi-token prediction");
}

TEST_F(UnusedTensors, TensorsOfVisionAndPredictionPartsAreIgnored) {
  for (const char* name : {"visual.patch_embed.proj.weight", "model.vision_tower.a.weight", "mtp.fc.weight"}) {
    EXPECT_TRUE(load_with(name, {{2, 3, 1, 2, 2}, 5}).ok()) << name;
    EXPECT_FALSE(sorted().of_model);
    EXPECT_EQ(sorted().reason, nullptr);
  }
}

TEST_F(UnusedTensors, UnknownGgufTensorsAreRefusedByName) {
  for (const char* name :
       {"blk.1.attn_q.scale", "blk.0.attn_sub_norm.weight", "output.scale", "token_embd_norm.weight"}) {
    GgufWriter writer = tiny_model_writer({});
    add_tensor_of(writer, name, kF, Shape{{64}, 1}, std::vector<float>(64, 1.0f));
    ASSERT_TRUE(writer.write(dir_.file("m.gguf")).ok());
    const auto file = open_model_file(dir_.file("m.gguf"));
    const Status status = load_language_model(**file, {.n_threads = 1}).status();
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << status.to_string();
    EXPECT_THAT(status.message(),
                HasSubstr(std::string("unknown tensor ") + name + " in a model of architecture llama"));
  }
}

// Committed checkpoints have no unknown tensors.
TEST_F(UnusedTensors, CommittedModelsHaveNoUnknownTensors) {
  for (const char* parent : {"/families", "/packed"}) {
    for (const auto& entry : std::filesystem::directory_iterator(golden_dir() + parent)) {
      if (!entry.is_directory()) continue;
      const auto file = open_model_file(entry.path());
      ASSERT_TRUE(file.ok()) << file.status().to_string();
      const auto config = read_config(**file);
      ASSERT_TRUE(config.ok()) << config.status().to_string();
      EXPECT_TRUE(refuse_unknown_tensors(**file, *config).ok()) << entry.path();
    }
  }
}

}  // namespace
}  // namespace ibid
