// Which files are recognised as embedding models, and which embedding models are refused by name.
#include "model/architectures/architectures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "model/architectures/architectures.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/model_file.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

using testing::HasSubstr;

Result<std::optional<Pooling>> pooling_of(const std::string& path) {
  TRY_ASSIGN(const std::unique_ptr<ModelFile> file, open_model_file(path));
  TRY_ASSIGN(const ModelConfig config, read_config(*file));
  return config.pooling;
}

class PoolingOfGguf : public testing::Test {
 protected:
  Result<std::optional<Pooling>> read(const std::function<void(GgufWriter&)>& change) {
    GgufWriter writer = tiny_model_writer({});
    change(writer);
    return pooling_of(dir_.write("model.gguf", writer.bytes()));
  }
  TempDir dir_;
};

TEST_F(PoolingOfGguf, PoolingIsReadFromPoolingType) {
  const auto numbered = [&](uint32_t n) {
    return read([n](GgufWriter& writer) { writer.add_u32("llama.pooling_type", n); });
  };
  EXPECT_EQ(*read([](GgufWriter&) {}), std::nullopt);
  EXPECT_EQ(*numbered(0), std::nullopt);
  EXPECT_EQ(*numbered(1), Pooling::kMean);
  EXPECT_EQ(*numbered(3), Pooling::kLast);
  EXPECT_THAT(numbered(2).status().message(), HasSubstr("llama.pooling_type is 2 (cls)"));
  EXPECT_EQ(numbered(2).status().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(numbered(4).status().message(), HasSubstr("is a reranker"));
  EXPECT_EQ(numbered(5).status().code(), ErrorCode::kBadHyperparameter);
}

TEST_F(PoolingOfGguf, NonCausalAttentionIsRefused) {
  const auto causal = [&](bool value) {
    return read([value](GgufWriter& writer) { writer.add_bool("llama.attention.causal", value); }).status();
  };
  EXPECT_TRUE(causal(true).ok());
  EXPECT_EQ(causal(false).code(), ErrorCode::kUnsupported);
  EXPECT_THAT(causal(false).message(), HasSubstr("llama.attention.causal"));
}

constexpr const char* kConfig = R"({"model_type": "qwen3", "vocab_size": 8, "hidden_size": 16, "head_dim": 4,
    "intermediate_size": 24, "rms_norm_eps": 1e-6, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 1, "max_position_embeddings": 256, "rope_theta": 1000000.0)";

// The modules of Qwen3-Embedding.
constexpr const char* kModules = R"([
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";
constexpr const char* kLastToken = R"({"word_embedding_dimension": 16, "pooling_mode_cls_token": false,
  "pooling_mode_mean_tokens": false, "pooling_mode_max_tokens": false, "pooling_mode_mean_sqrt_len_tokens": false,
  "pooling_mode_weightedmean_tokens": false, "pooling_mode_lasttoken": true, "include_prompt": true})";

class PoolingOfDirectory : public testing::Test {
 protected:
  // Writes tensor names without the prefix "model.", as in Qwen3-Embedding.
  Result<std::optional<Pooling>> read(const std::string& modules, const std::string& pooling,
                                      const std::string& members = "") {
    dir_.write("config.json", std::string(kConfig) + members + "}");
    const std::vector<float> zeros(8 * 16);
    const TensorView embed{DType::kF32, {{8, 16}, 2}, std::as_bytes(std::span(zeros))};
    const NamedTensor tensors[] = {{"embed_tokens.weight", embed}};
    EXPECT_TRUE(write_safetensors(dir_.file("model.safetensors"), tensors).ok());
    std::filesystem::create_directories(dir_.file("1_Pooling"));
    std::filesystem::remove(dir_.file("modules.json"));
    std::filesystem::remove(dir_.file("1_Pooling/config.json"));
    if (!modules.empty()) dir_.write("modules.json", modules);
    if (!pooling.empty()) dir_.write("1_Pooling/config.json", pooling);
    return pooling_of(dir_.path());
  }
  std::string refusal(const std::string& modules, const std::string& pooling, const std::string& members = "") {
    const auto got = read(modules, pooling, members);
    EXPECT_FALSE(got.ok()) << modules << pooling;
    return got.status().message();
  }
  TempDir dir_;
};

TEST_F(PoolingOfDirectory, PoolingIsReadFromModules) {
  EXPECT_EQ(*read("", ""), std::nullopt);
  EXPECT_EQ(*read(kModules, kLastToken), Pooling::kLast);
  EXPECT_EQ(*read(kModules, R"({"pooling_mode_mean_tokens": true})"), Pooling::kMean);
  EXPECT_EQ(*read(kModules, R"({"embedding_dimension": 16, "pooling_mode": "lasttoken"})"), Pooling::kLast);
  EXPECT_EQ(*read(kModules, R"({"pooling_mode": ["mean"]})"), Pooling::kMean);
  EXPECT_EQ(*read("[]", ""), std::nullopt);
}

TEST_F(PoolingOfDirectory, UnsupportedPoolingsAndModulesAreRefusedByName) {
  EXPECT_THAT(refusal(kModules, R"({"pooling_mode_cls_token": true})"), HasSubstr("'cls_token'"));
  EXPECT_THAT(refusal(kModules, R"({"pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true})"),
              HasSubstr("'mean' and 'max_tokens'"));
  EXPECT_THAT(refusal(kModules, "{}"), HasSubstr("no pooling mode"));
  EXPECT_THAT(refusal(kModules, "[]"), HasSubstr("1_Pooling/config.json: is not a JSON object"));
  EXPECT_THAT(refusal(kModules, ""), HasSubstr("'1_Pooling/config.json' is missing"));
  EXPECT_THAT(refusal(R"([{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])", ""),
              HasSubstr("the module 'sentence_transformers.models.Dense'"));
  EXPECT_THAT(refusal(R"([{"type": "custom.Transformer"}])", ""), HasSubstr("'custom.Transformer'"));
  EXPECT_THAT(refusal(R"([5])", ""), HasSubstr("the module ''"));
  EXPECT_THAT(refusal("{}", ""), HasSubstr("modules.json: is not a JSON array"));
  EXPECT_THAT(refusal("[", ""), HasSubstr("modules.json"));
  EXPECT_THAT(refusal(kModules, kLastToken, R"(, "is_causal": false)"), HasSubstr("is_causal"));
  EXPECT_THAT(refusal(kModules, kLastToken, R"(, "use_bidirectional_attention": true)"),
              HasSubstr("use_bidirectional_attention"));
}

TEST_F(PoolingOfDirectory, UnsafeModulePathIsRefused) {
  for (const char* path : {"..", "../x", "/etc", ""}) {
    const std::string modules =
        R"([{"type": "sentence_transformers.models.Pooling", "path": ")" + std::string(path) + R"("}])";
    const auto got = read(modules, kLastToken);
    EXPECT_EQ(got.status().code(), ErrorCode::kUnsafePath) << path << ": " << got.status().message();
  }
}

}  // namespace
}  // namespace ibid
