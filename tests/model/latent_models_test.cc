// Latent rows in a model: bytes per position; a fingerprint that differs from that of expanded rows; and law 1 (same
// bits) for sizes and weight types that no checkpoint of the reference data has.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "model/config/attention_shape.h"
#include "model/load_model.h"
#include "model/model_fingerprint.h"
#include "tests/support/latent_model.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

// Sizes of a published checkpoint.
struct Sizes {
  const char* name;
  size_t n_heads, kv_rank, nope_dim, rope_dim, value_dim;
};
constexpr Sizes kDeepSeekV3{"DeepSeek-V3", 128, 512, 128, 64, 128};
constexpr Sizes kGlmFlash{"GLM-4.7-Flash", 20, 512, 192, 64, 256};

size_t bytes_of_position(const Sizes& sizes, KvDType dtype) {
  ModelConfig config;
  config.n_layers = 1;
  config.n_heads = sizes.n_heads;
  config.latent.kv_rank = sizes.kv_rank;
  config.latent.nope_dim = sizes.nope_dim;
  config.latent.rope_dim = sizes.rope_dim;
  config.latent.value_dim = sizes.value_dim;
  config.layers.resize(1);
  config.layers[0].n_kv_heads = 1;
  config.layers[0].head_dim = config.latent.row_dim();
  return kv_layout_of(config, dtype, 4096).page_bytes() / kPagePositions;
}

TEST(LatentModelSizes, PositionStoresOneLatentRow) {
  EXPECT_EQ(bytes_of_position(kDeepSeekV3, KvDType::kF16), 576u * 2);
  EXPECT_EQ(bytes_of_position(kDeepSeekV3, KvDType::kInt8), 576u + 8);
  EXPECT_EQ(bytes_of_position(kDeepSeekV3, KvDType::kInt4), 576u / 2 + 72);
  EXPECT_EQ(bytes_of_position(kGlmFlash, KvDType::kInt8), 576u + 8);
  for (const Sizes& sizes : {kDeepSeekV3, kGlmFlash}) {
    const size_t head_dim = std::max(sizes.nope_dim + sizes.rope_dim, sizes.value_dim);
    const size_t expanded = KvLayout::make(1, sizes.n_heads, head_dim, KvDType::kInt8).page_bytes() / kPagePositions;
    EXPECT_GE(expanded / bytes_of_position(sizes, KvDType::kInt8), sizes.n_heads == 128 ? 80u : 17u) << sizes.name;
  }
}

struct Fed {
  std::vector<Row> logits;
  Row rows;
};

Fed feed(LanguageModel& model, TokenSpan tokens, size_t at_once) {
  KvPagePool pool(model.kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  Fed fed;
  for (size_t begin = 0; begin < tokens.size(); begin += at_once) {
    Logits logits;
    const SequenceChunk chunk{&entry, tokens.subspan(begin, std::min(at_once, tokens.size() - begin)),
                              WantLogits::kAll};
    const Status status = model.forward(std::span(&chunk, 1), {}, logits);
    CHECK(status.ok()) << status.to_string();
    for (size_t r = 0; r < logits.n_rows(); ++r) fed.logits.emplace_back(logits.row(r).begin(), logits.row(r).end());
  }
  fed.rows = stored_rows(entry);
  return fed;
}

class LatentModels : public ::testing::TestWithParam<KvDType> {};

TEST_P(LatentModels, ChunksAndThreadsDoNotChangeABit) {
  const Tokens tokens = random_tokens(90, LatentModel::kVocabulary, 4);
  for (const DType expansion : {DType::kF32, DType::kBF16, DType::kQ8_0}) {
    const TempDir dir;
    LatentModel latent;
    latent.expansion = expansion;
    latent.write(dir.file("latent.gguf"));
    const auto file = open_model_file(dir.file("latent.gguf"));
    ASSERT_TRUE(file.ok());
    std::vector<Fed> fed;
    for (const int n_threads : {1, 3}) {
      const auto model = load_language_model(**file, {.kv_dtype = GetParam(), .n_threads = n_threads});
      ASSERT_TRUE(model.ok()) << model.status().to_string();
      for (const size_t at_once : {90u, 1u, 17u}) fed.push_back(feed(**model, tokens, at_once));
    }
    for (const Fed& other : fed) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        ASSERT_TRUE(same_bits(other.logits[i], fed[0].logits[i])) << dtype_name(expansion) << ", position " << i;
      }
      ASSERT_TRUE(same_bits(other.rows, fed[0].rows)) << dtype_name(expansion);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kv, LatentModels,
                         ::testing::Values(KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4,
                                           KvDType::kInt4));

// Rows that were stored per head must not be read as latent rows, so the fingerprints must differ.
TEST(LatentModelFingerprint, FingerprintDiffersBetweenLatentAndExpandedRows) {
  const TempDir dir;
  const LatentModel latent;
  latent.write(dir.file("latent.gguf"));
  Result<std::unique_ptr<ModelFile>> opened = open_model_file(dir.file("latent.gguf"));
  ASSERT_TRUE(opened.ok());
  const std::shared_ptr<const ModelFile> file = *std::move(opened);
  const auto of = [&](const KvLayout& layout) {
    return *fingerprint_model(*file, {.ropes = {}, .layout = layout}, start_digest(file))->get();
  };
  const std::vector<KvRowShape> rows(2, KvRowShape{1, 96, 0, 64}), same_size(2, KvRowShape{1, 96, 0, 32});
  const Fingerprint own = of(KvLayout::make(rows, KvDType::kF16));
  EXPECT_NE(own, of(KvLayout::make(2, 3, 26, KvDType::kF16)));
  EXPECT_NE(own, of(KvLayout::make(same_size, KvDType::kF16)));
}

}  // namespace
}  // namespace ibid
