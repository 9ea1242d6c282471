// Law 1 (same bits) for features that a llama lacks: experts, latent attention, gates, windows, sinks, recurrent
// layers. The logits at a position, and the rows and states in the cache, have the same bits for all chunks, threads
// and other sequences in the batch, for every KV type.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "model/architectures/architectures.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

constexpr size_t kTextLength = 140;  // more than two pages, and longer than any window of the checkpoints

struct Fed {
  std::vector<Row> rows;  // logits
  Row kv;
  Row states;
};

// Feeds the tokens in chunks of these sizes, which are repeated as needed.
Fed feed(TransformerModel& model, TokenSpan tokens, const std::vector<size_t>& chunks) {
  KvPagePool pool(model.kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  Fed fed;
  for (size_t begin = 0, i = 0; begin < tokens.size(); ++i) {
    const size_t n = std::min(chunks[i % chunks.size()], tokens.size() - begin);
    Logits logits;
    const SequenceChunk chunk{&entry, tokens.subspan(begin, n), WantLogits::kAll};
    const Status status = model.forward(std::span(&chunk, 1), {}, logits);
    CHECK(status.ok()) << status.to_string();
    for (size_t r = 0; r < logits.n_rows(); ++r) fed.rows.emplace_back(logits.row(r).begin(), logits.row(r).end());
    begin += n;
  }
  fed.kv = stored_rows(entry);
  fed.states = stored_states(entry);
  return fed;
}

void expect_same(const Fed& got, const Fed& wanted) {
  ASSERT_EQ(got.rows.size(), wanted.rows.size());
  for (size_t i = 0; i < got.rows.size(); ++i) ASSERT_TRUE(same_bits(got.rows[i], wanted.rows[i])) << "position " << i;
  ASSERT_TRUE(same_bits(got.kv, wanted.kv)) << "stored rows differ";
  ASSERT_TRUE(same_bits(got.states, wanted.states)) << "states differ";
}

// Feeds the sequence with another one in every pass, and expects the same bits.
void expect_same_in_company(TransformerModel& model, const Tokens& tokens, const Fed& wanted) {
  KvPagePool pool(model.kv_layout(), size_t{64} << 20);
  const Tokens other = random_tokens(kTextLength, model.vocab_size(), 99);
  KvCacheEntry entry(pool), beside(pool);
  const size_t sizes[][2] = {{30, 1}, {1, 20}, {1, 1}, {40, 3}, {2, 30}, {66, 70}};
  size_t fed = 0, fed_beside = 0;
  for (const auto& size : sizes) {
    const SequenceChunk batch[] = {{&beside, TokenSpan(other).subspan(fed_beside, size[1]), WantLogits::kNone},
                                   {&entry, TokenSpan(tokens).subspan(fed, size[0]), WantLogits::kAll}};
    Logits logits;
    ASSERT_TRUE(model.forward(batch, {}, logits).ok());
    for (size_t i = 0; i < size[0]; ++i) {
      const Row row(logits.row(i).begin(), logits.row(i).end());
      ASSERT_TRUE(same_bits(row, wanted.rows[fed + i])) << "position " << fed + i;
    }
    fed += size[0], fed_beside += size[1];
  }
  ASSERT_EQ(fed, kTextLength);
}

using Make = std::function<std::unique_ptr<TransformerModel>(const ModelOptions&)>;

void expect_law_1(KvDType kv_dtype, const Make& make) {
  const auto options = [&](int n_threads, std::optional<Isa> isa = {}) {
    ModelOptions chosen;
    chosen.kv_dtype = kv_dtype;
    chosen.n_threads = n_threads;
    chosen.max_chunk = 512;
    chosen.isa = isa;
    return chosen;
  };
  const auto one = make(options(1));
  const Tokens tokens = random_tokens(kTextLength, one->vocab_size(), 7);
  const Fed wanted = feed(*one, tokens, {kTextLength});
  for (const std::vector<size_t>& chunks :
       std::vector<std::vector<size_t>>{{1}, {2, 1, 3}, {13, 20, 1}, {64}, {5, 70}}) {
    SCOPED_TRACE("chunks of " + testing::PrintToString(chunks));
    expect_same(feed(*one, tokens, chunks), wanted);
    if (testing::Test::HasFatalFailure()) return;
  }
  expect_same_in_company(*one, tokens, wanted);
  for (const int n_threads : {2, 3}) {
    SCOPED_TRACE(std::to_string(n_threads) + " threads");
    const auto other = make(options(n_threads));
    expect_same(feed(*other, tokens, {kTextLength}), wanted);
    expect_same(feed(*other, tokens, {50, 1, 1, 4, 17}), wanted);
    expect_same_in_company(*other, tokens, wanted);
  }
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa) || an_isa_is_forced()) continue;
    SCOPED_TRACE(isa_name(isa));
    expect_same(feed(*make(options(2, isa)), TokenSpan(tokens).first(40), {7, 1, 30}),
                feed(*one, TokenSpan(tokens).first(40), {40}));
  }
}

class FamilyBits : public testing::TestWithParam<const char*> {};

TEST_P(FamilyBits, BitsDoNotDependOnChunksThreadsOrBatch) {
  IBID_NEED_SHARED(shared);
  const auto file = open_model_file(shared + "/reference/tiny/" + GetParam());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  for (const KvDType kv_dtype : kEveryKvDType) {
    // The scalar kernels are slow, and with them the other types differ only in how a row is stored.
    if (*active_isa() == Isa::kRef && kv_dtype != KvDType::kF16 && kv_dtype != KvDType::kInt8) continue;
    SCOPED_TRACE(kv_dtype_name(kv_dtype));
    expect_law_1(kv_dtype, [&](const ModelOptions& options) {
      auto model = TransformerModel::create(**file, *read_config(**file), options);
      CHECK(model.ok()) << model.status().to_string();
      return *std::move(model);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, FamilyBits,
                         testing::Values("mixtral", "qwen2_moe", "qwen3_moe", "granitemoe", "granitemoehybrid", "olmoe",
                                         "ernie4_5_moe", "glm4_moe", "glm4_moe_lite", "deepseek_v3", "gpt_oss",
                                         "gpt_oss_mxfp4", "afmoe", "lfm2", "lfm2_moe", "granitemoehybrid_mamba",
                                         "nemotron_h", "bamba", "falcon_h1", "falcon_h1_norm", "mamba2", "jamba",
                                         "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next", "olmo_hybrid", "kimi_linear",
                                         "minimax", "zamba2", "gemma3_text", "gemma4_text", "cohere2", "olmo3",
                                         "mistral"),
                         [](const auto& test) { return std::string(test.param); });

// Experts with quantised weights, from GGUF.
class ExpertBits : public testing::TestWithParam<WeightsAndKv> {};

TEST_P(ExpertBits, BitsDoNotDependOnChunksThreadsOrBatch) {
  if (!is_worth_its_time(GetParam().matrix_dtype)) GTEST_SKIP() << kScalarKernelsAreSlow;
  TinyModel tiny;
  GetParam().apply_to(tiny);
  tiny.n_experts = 7, tiny.n_experts_active = 3, tiny.expert_ffn_dim = 64, tiny.shared_ffn_dim = 32;
  if (dtype_block(tiny.matrix_dtype).values > 32) {
    tiny.n_layers = 2, tiny.dim = 256, tiny.head_dim = 64, tiny.expert_ffn_dim = tiny.shared_ffn_dim = 256;
  }
  expect_law_1(GetParam().kv_dtype, [&](const ModelOptions& options) { return load_tiny_model(tiny, options); });
}

constexpr WeightsAndKv kExpertTypes[] = {
    {"F16", KvDType::kF16, DType::kF16, DType::kF16},    {"Q8_0", KvDType::kInt8, DType::kQ8_0, DType::kQ8_0},
    {"Q4_1", KvDType::kF16, DType::kQ4_1, DType::kQ8_0}, {"Q4_K", KvDType::kInt8, DType::kQ4_K, DType::kQ6_K},
    {"Q6_K", KvDType::kF16, DType::kQ6_K, DType::kQ6_K}, {"MXFP4", KvDType::kF16, DType::kMXFP4, DType::kQ8_0}};

INSTANTIATE_TEST_SUITE_P(All, ExpertBits, testing::ValuesIn(kExpertTypes),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ibid
