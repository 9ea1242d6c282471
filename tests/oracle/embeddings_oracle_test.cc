// Embeddings compared with a naive computation: the mean or the last of the oracle's hidden states in double, divided
// by its length. The bound is measured as in every_model_test.cc: how much the oracle's own vector changes when every
// weight is perturbed by the rounding of a float.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/architectures/architectures.h"
#include "runtime/embedding/embeddings.h"
#include "runtime/engine/engine_state.h"
#include "tests/oracle/transformer.h"
#include "tests/server/talking_model.h"
#include "tests/support/temp_dir.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using oracle::Index;
using oracle::Matrix;
using oracle::Vector;

constexpr double kFloatRounding = 0x1p-24;
constexpr double kReferenceFactor = 4;  // as in every_model_test.cc

Vector naive_embedding(const ModelFile& file, const ModelConfig& config, const Tokens& ids, double noise,
                       Index n_dims) {
  const Matrix states = oracle::hidden_states(file, config, ids, {.weight_noise = noise});
  const bool mean = config.pooling == Pooling::kMean;
  const Vector whole = mean ? Vector(states.colwise().mean()) : Vector(states.row(states.rows() - 1));
  const Vector part = whole.head(n_dims);
  return part / part.norm();
}

class EmbeddingsOracle : public testing::TestWithParam<uint32_t> {};

TEST_P(EmbeddingsOracle, EmbeddingsMatchTheMeanOrLastStateOfTheOracle) {
  const TempDir dir;
  write_embedding_model(dir.file("embed.gguf"), GetParam());
  const auto file = open_model_file(dir.file("embed.gguf"));
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const auto config = read_config(**file);
  ASSERT_TRUE(config.ok() && config->pooling) << config.status().to_string();
  const auto engine = Engine::load(dir.file("embed.gguf"),
                                   {.numerics = Numerics::kReference, .kv_dtype = KvDType::kF32, .n_threads = 1});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  for (const std::string text : {"a", "The quick brown fox", "x = [1, 2, 3]  # numbers, and then a good many words"}) {
    const Tokens ids = ids_to_embed((*engine)->state().tokenizer(), text);
    ASSERT_EQ(ids.size(), text.size() + 1);
    ASSERT_EQ(ids.back(), 258);  // the token that ends every text of this model
    for (const Index n_dims : {Index{128}, Index{32}}) {
      const auto got = embed((*engine)->state(), {ids}, {.n_dims = static_cast<size_t>(n_dims)});
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      const Eigen::Map<const Eigen::Matrix<float, 1, Eigen::Dynamic>> floats(got->front().data(), n_dims);
      const Vector wanted = naive_embedding(**file, *config, ids, 0, n_dims);
      const Vector moved = naive_embedding(**file, *config, ids, kFloatRounding, n_dims);
      const double distance = (floats.cast<double>() - wanted).cwiseAbs().maxCoeff();
      const double bound = kReferenceFactor * (moved - wanted).cwiseAbs().maxCoeff() + kFloatRounding;
      std::printf("%zu ids, %zu numbers: off by %.2g, allowed: %.2g\n", ids.size(), static_cast<size_t>(n_dims),
                  distance, bound);
      EXPECT_LT(distance, bound) << text;
      EXPECT_LT(bound, 1e-5);  // a wider bound would prove nothing for numbers of size 0.1
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Poolings, EmbeddingsOracle, testing::Values(1u, 3u),
                         [](const auto& pooling) { return pooling.param == 1 ? "Mean" : "Last"; });

}  // namespace
}  // namespace ibid
