#include "bench/lab/model_work.h"

#include <gtest/gtest.h>

#include "kernels/layout/pack.h"
#include "model/architectures/architectures.h"
#include "model/tensors/transformer_weights.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

ModelWork work_of(const TinyModel& tiny, const ModelOptions& options = {}) {
  const TempDir dir;
  write_tiny_model(tiny, dir.file("tiny.gguf"));
  const auto file = open_model_file(dir.file("tiny.gguf")).value();
  const ModelConfig config = read_config(*file).value();
  Result<ModelWork> work = model_work(*file, config, options);
  EXPECT_TRUE(work.ok()) << work.status().to_string();
  return *std::move(work);
}

TEST(ModelWork, CountsTwoOperationsPerLayerWeight) {
  const ModelWork work = work_of({});
  // 3 layers: wq [64, 64], wk and wv [32, 64], wo [64, 64], gate, up and down [96, 64]; the head is [120, 64].
  EXPECT_EQ(work.operations_per_token, 2.0 * 3 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 96 * 64));
  EXPECT_EQ(work.operations_of_head, 2.0 * 120 * 64);
  EXPECT_FALSE(work.int8);
}

TEST(ModelWork, UntiedEmbeddingIsNotCountedAsReadWeights) {
  TinyModel tiny;
  tiny.matrix_dtype = DType::kQ4_1;
  const ModelWork untied = work_of(tiny);
  tiny.tied = true;
  const ModelWork tied = work_of(tiny);
  EXPECT_TRUE(untied.int8);
  EXPECT_EQ(untied.weights_bytes, tied.weights_bytes);  // one matrix of 120 rows either way
  ModelOptions options;
  const std::unique_ptr<TransformerModel> model = load_tiny_model(tiny, options);
  // The plan also reserves space for a vector for each of the 7 norms.
  EXPECT_GE(tied.weights_bytes, model->weights().bytes());
  EXPECT_LE(tied.weights_bytes, model->weights().bytes() + 7 * 64);
}

TEST(ModelWork, KvBytesAreLimitedByEachLayersWindow) {
  ModelOptions options;
  options.kv_dtype = KvDType::kF32;
  ModelWork work = work_of({}, options);
  EXPECT_EQ(work.kv_bytes_at(100), 100u * 3 * 2 * 2 * 16 * sizeof(float));  // layers, K and V, heads, head_dim
  work.layers[1].window = 40;
  EXPECT_EQ(work.kv_bytes_at(100), (100u + 40 + 100) * 2 * 2 * 16 * sizeof(float));
  EXPECT_EQ(work.kv_bytes_at(0), 0u);
}

}  // namespace
}  // namespace ibid
