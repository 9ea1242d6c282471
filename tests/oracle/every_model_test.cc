// Compares every architecture with the oracle, on each available checkpoint and on generated models of every weight
// type, and the oracle itself with the logits of Hugging Face.
//
// The allowed distance is measured, not chosen. Reference numerics add in double but store activations as float, with a
// rounding error of up to 2^-24 of their size. So the oracle is computed a second time with every weight perturbed by
// up to 2^-24 of its size. The logits may differ by four times the resulting change (an activation is rounded more than
// once: after a norm, a product, a residual) plus one rounding of the largest logit. Sensitive models get wide bounds,
// others narrow ones: 1e-6 to 5e-5 for logits of size 2 to 10.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "base/check.h"
#include "model/architectures/architecture.h"
#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "tests/oracle/transformer.h"
#include "tests/support/latent_model.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

namespace fs = std::filesystem;
using oracle::Index;
using oracle::Matrix;

constexpr double kFloatRounding = 0x1p-24;  // for a number of size 1
// Exact numerics also add in float; with float weights, errors of up to 9 times the noise were measured. With quantised
// weights their activations are int8, which reference_logits_test.cc tests.
constexpr double kReferenceFactor = 4, kExactFactor = 20;
// Hugging Face computes in float, up to 5e-5 away from double (README.md of the reference data).
constexpr double kHuggingFaceBound = 1e-4;

std::unique_ptr<ModelFile> open(const std::string& path) {
  auto file = open_model_file(path);
  CHECK(file.ok()) << file.status().to_string();
  return *std::move(file);
}

template <typename T>
std::vector<T> values_of(const TensorView& tensor) {
  std::vector<T> values(tensor.shape.elements());
  CHECK(values.size() * sizeof(T) == tensor.data.size());
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

Matrix matrix_of(const std::vector<float>& values, size_t n_rows) {
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto rows = static_cast<Index>(n_rows), cols = static_cast<Index>(values.size() / n_rows);
  return Eigen::Map<const Floats>(values.data(), rows, cols).cast<double>();
}

Matrix model_logits(const ModelFile& file, Numerics numerics, size_t context, TokenSpan tokens) {
  const auto model = load_language_model(
      file, {.numerics = numerics, .kv_dtype = KvDType::kF32, .n_threads = 1, .max_seq_len = context});
  CHECK(model.ok()) << model.status().to_string();
  KvPagePool pool((*model)->kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  Logits logits;
  std::vector<float> rows;
  for (size_t at = 0; at < tokens.size(); at += (*model)->max_chunk()) {
    const TokenSpan part = tokens.subspan(at, std::min((*model)->max_chunk(), tokens.size() - at));
    const SequenceChunk chunk{&entry, part, WantLogits::kAll};
    const Status status = (*model)->forward(std::span(&chunk, 1), {}, logits);
    CHECK(status.ok()) << status.to_string();
    for (size_t i = 0; i < logits.n_rows(); ++i) rows.insert(rows.end(), logits.row(i).begin(), logits.row(i).end());
  }
  return matrix_of(rows, tokens.size());
}

double distance(const Matrix& a, const Matrix& b) {
  CHECK(a.rows() == b.rows() && a.cols() == b.cols()) << a.rows() << " x " << a.cols();
  const double largest = (a - b).cwiseAbs().maxCoeff();
  return std::isnan(largest) ? INFINITY : largest;
}

// Returns the context for longrope: if the sequence is short enough, the one that selects the original frequencies.
size_t context_for(const ModelConfig& config, size_t length) {
  for (const RopeRule& rule : config.ropes) {
    const auto original = static_cast<size_t>(rule.original_max_positions);
    if (rule.kind == RopeRule::Kind::kLongrope && length <= original) return original;
  }
  return 0;
}

// Distances measured for one model: the maximum over its sequences.
struct Distances {
  double reference = 0, reference_bound = 0;
  double exact = 0, exact_bound = 0;
  double hugging_face = -1;  // distance of the oracle from Hugging Face; -1: there are no logits of Hugging Face
  void take(const Distances& other) {
    reference = std::max(reference, other.reference);
    reference_bound = std::max(reference_bound, other.reference_bound);
    exact = std::max(exact, other.exact);
    exact_bound = std::max(exact_bound, other.exact_bound);
    hugging_face = std::max(hugging_face, other.hugging_face);
  }
};

bool has_float_weights(const ModelFile& file) {
  return std::ranges::all_of(file.tensor_names(),
                             [&](const std::string& name) { return dtype_is_float(file.find_tensor(name)->dtype); });
}

Distances measure(const ModelFile& file, const ModelConfig& config, const Tokens& tokens, const Matrix* hugging_face) {
  const size_t context = context_for(config, tokens.size());
  const Matrix wanted = oracle::logits(file, config, tokens, {.context = context});
  const Matrix moved = oracle::logits(file, config, tokens, {.context = context, .weight_noise = kFloatRounding});
  const double noise = distance(moved, wanted);
  const double last_rounding = kFloatRounding * wanted.cwiseAbs().maxCoeff();
  Distances d;
  d.reference = distance(model_logits(file, Numerics::kReference, context, tokens), wanted);
  d.reference_bound = kReferenceFactor * noise + last_rounding;
  d.exact = distance(model_logits(file, Numerics::kExact, context, tokens), wanted);
  d.exact_bound = has_float_weights(file) ? kExactFactor * noise + last_rounding : INFINITY;
  if (hugging_face != nullptr) d.hugging_face = distance(*hugging_face, wanted);
  return d;
}

void expect_within_bounds(const std::string& name, const Distances& d) {
  EXPECT_LE(d.reference, d.reference_bound);
  EXPECT_LE(d.exact, d.exact_bound);
  EXPECT_LE(d.hugging_face, kHuggingFaceBound);
  std::printf("%-26s reference %.1e of %.1e, exact %.1e", name.c_str(), d.reference, d.reference_bound, d.exact);
  if (d.hugging_face >= 0) std::printf(", oracle to Hugging Face %.1e", d.hugging_face);
  std::printf("\n");
}

// Uses the tokens and logits of logits.safetensors if that file exists; otherwise random tokens.
Distances measure_all(const ModelFile& file, const ModelConfig& config, const std::string& logits_path) {
  if (!fs::exists(logits_path)) return measure(file, config, random_tokens(100, config.vocab_size, 3), nullptr);
  const auto logits = open(logits_path);
  Distances d;
  for (const std::string n : {"0", "1"}) {
    const auto ids = values_of<int64_t>(*logits->find_tensor("ids." + n));
    const Matrix wanted = matrix_of(values_of<float>(*logits->find_tensor("logits." + n)), ids.size());
    d.take(measure(file, config, Tokens(ids.begin(), ids.end()), &wanted));
  }
  return d;
}

std::set<std::string> directories_in(const std::string& path) {
  std::set<std::string> directories;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_directory()) directories.insert(entry.path());
  }
  return directories;
}

// Compares the model at `path`, and adds its row to `reached`. Returns false if `path` has no supported model.
bool expect_oracle(const std::string& path, const std::string& logits_path, std::set<const Architecture*>& reached) {
  SCOPED_TRACE(path);
  const auto file = open_model_file(path);
  if (!file.ok()) return false;
  const auto config = read_config(**file);
  if (!config.ok()) {
    EXPECT_EQ(config.status().code(), ErrorCode::kUnsupported) << config.status().to_string();
    return false;
  }
  reached.insert(find_architecture(**file)->row);
  const bool is_gguf = (*file)->container() == Container::kGguf;
  const std::string directory = is_gguf ? fs::path(path).parent_path() : fs::path(path);
  const std::string name = fs::path(directory).filename().string() + (is_gguf ? " as GGUF" : "");
  expect_within_bounds(name, measure_all(**file, *config, logits_path));
  return true;
}

std::set<const Architecture*> expect_committed() {
  std::set<const Architecture*> reached;
  for (const char* folder : {"families", "logits", "packed"}) {
    for (const std::string& path : directories_in(golden_dir() + "/" + folder)) {
      EXPECT_TRUE(expect_oracle(path, path + "/logits.safetensors", reached)) << path;
      const std::string gguf = path + "/model.gguf";
      if (!fs::exists(gguf)) continue;
      EXPECT_TRUE(expect_oracle(gguf, path + "/logits.safetensors", reached)) << gguf;
    }
  }
  return reached;
}

TEST(EveryModel, CommittedCheckpointsMatchOracle) { EXPECT_GE(expect_committed().size(), 11u); }

// With the reference data, every row of kArchitectures is compared.
TEST(EveryModel, ReferenceDataCheckpointsMatchOracle) {
  IBID_NEED_SHARED(shared);
  std::set<const Architecture*> reached = expect_committed();
  size_t n_models = 0;
  for (const std::string& path : directories_in(shared + "/reference/tiny")) {
    n_models += expect_oracle(path, path + "/logits.safetensors", reached) ? 1 : 0;
  }
  EXPECT_GE(n_models, 62u);
  std::set<std::string> unreached;
  for (const std::string& name : supported_architectures()) unreached.insert(name);
  for (const Architecture* row : reached) {
    for (const std::string_view name : {row->gguf_name, row->hf_model_type, row->written_dense, row->written_moe}) {
      unreached.erase(std::string(name));
    }
  }
  // The reference data has no models for these rows, which differ from those of their text models only in the section
  // of config.json (ReferenceLogits.ConfigInATextSectionGivesTheSameModel).
  EXPECT_EQ(unreached, (std::set<std::string>{"qwen2_5_vl", "qwen2_vl", "qwen2vl"}));
}

constexpr DType kWeightTypes[] = {
    DType::kF32,   DType::kF16,    DType::kBF16,   DType::kQ8_0,    DType::kQ4_0,   DType::kQ4_1,  DType::kQ5_0,
    DType::kQ5_1,  DType::kQ2_K,   DType::kQ3_K,   DType::kQ4_K,    DType::kQ5_K,   DType::kQ6_K,  DType::kTQ1_0,
    DType::kTQ2_0, DType::kIQ1_S,  DType::kIQ1_M,  DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS,
    DType::kIQ3_S, DType::kIQ4_XS, DType::kIQ4_NL, DType::kMXFP4,   DType::kNVFP4};

void expect_made_model(const std::string& name, const TinyModel& tiny) {
  SCOPED_TRACE(name);
  const TempDir dir;
  const std::string path = dir.file("tiny.gguf");
  write_tiny_model(tiny, path);
  const auto file = open(path);
  const auto config = read_config(*file);
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  expect_within_bounds(name, measure(*file, *config, random_tokens(40, tiny.vocab_size, 3), nullptr));
}

TEST(EveryModel, GeneratedModelsOfEveryWeightTypeMatchOracle) {
  for (const DType dtype : kWeightTypes) {
    TinyModel tiny;
    tiny.matrix_dtype = tiny.embed_dtype = tiny.head_dtype = dtype;
    const bool large_blocks = dtype_block(dtype).values > 32;
    if (large_blocks) tiny.n_layers = 2, tiny.dim = 256, tiny.ffn_dim = 256, tiny.head_dim = 64;
    expect_made_model(std::string(dtype_name(dtype)), tiny);
    tiny.n_experts = 5, tiny.shared_ffn_dim = tiny.expert_ffn_dim = large_blocks ? 256 : 64;
    expect_made_model(std::string(dtype_name(dtype)) + " experts", tiny);
  }
}

TEST(EveryModel, GeneratedModelsOfOddShapesMatchOracle) {
  TinyModel biased, tied, odd, one_kv_head, ungrouped;
  biased.biases = true;
  tied.tied = true;
  // No size is a multiple of a vector.
  odd.n_heads = 6, odd.n_kv_heads = 3, odd.head_dim = 10, odd.dim = 52, odd.ffn_dim = 70, odd.vocab_size = 77;
  one_kv_head.n_kv_heads = 1;
  ungrouped.n_kv_heads = ungrouped.n_heads;
  expect_made_model("biased", biased);
  expect_made_model("tied", tied);
  expect_made_model("odd", odd);
  expect_made_model("one KV head", one_kv_head);
  expect_made_model("ungrouped", ungrouped);
}

// The oracle expands keys and values, while the model attends over latent rows, with W_kvb split between both sides. If
// W_kvb is quantised, its key part is exact, and its value part has int8 inputs in exact numerics.
TEST(EveryModel, GeneratedModelsWithLatentAttentionMatchOracle) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ5_1, DType::kQ4_K}) {
    SCOPED_TRACE(dtype_name(dtype));
    LatentModel latent;
    latent.expansion = dtype;
    if (dtype_block(dtype).values > 32) latent.kv_rank = 256;
    for (const size_t value_dim : {24u, 32u, 5u}) {
      latent.value_dim = value_dim;
      const TempDir dir;
      latent.write(dir.file("latent.gguf"));
      const auto file = open(dir.file("latent.gguf"));
      const auto config = read_config(*file);
      ASSERT_TRUE(config.ok()) << config.status().to_string();
      const Distances d = measure(*file, *config, random_tokens(70, LatentModel::kVocabulary, 3), nullptr);
      expect_within_bounds(std::string(dtype_name(dtype)) + " latents " + std::to_string(value_dim), d);
      EXPECT_LE(d.exact, 0.2) << "of logits of size 3, every input of a matrix in 8 bits";
    }
  }
}

// A bound that wrong models also meet would prove nothing. So this makes small mistakes in the oracle, each of which
// must exceed the bound of the correct one.
TEST(EveryModel, ErrorBoundsDetectSmallMistakesInTheOracle) {
  const std::string path = golden_dir() + "/families/llama4_text";
  const auto file = open(path);
  const ModelConfig config = *read_config(*file);
  const Tokens tokens = random_tokens(100, config.vocab_size, 5);
  const Matrix right = oracle::logits(*file, config, tokens);
  const Distances d = measure(*file, config, tokens, nullptr);
  const auto expect_seen = [&](const char* what, const ModelConfig& wrong) {
    EXPECT_GT(distance(oracle::logits(*file, wrong, tokens), right), 2 * d.exact_bound) << what;
  };
  ModelConfig wrong = config;
  wrong.norm_eps *= 1.1f;
  expect_seen("epsilon of norms", wrong);
  wrong = config;
  for (RopeRule& rule : wrong.ropes) rule.theta *= 1.001;
  expect_seen("base of rope", wrong);
  wrong = config;
  wrong.attention_scale *= 1.001f;
  expect_seen("scale of scores", wrong);
  wrong = config;
  wrong.query_growth *= 1.01;
  expect_seen("temperature of queries", wrong);
  wrong = config;
  wrong.moe.router.n_experts_active += 1;
  expect_seen("one expert more", wrong);
  wrong = config;
  for (LayerConfig& layer : wrong.layers) layer.chunked = false;
  expect_seen("chunks", wrong);
  wrong = config;
  for (LayerConfig& layer : wrong.layers) layer.window = 99;
  expect_seen("a window that hides the first position from the last alone", wrong);
}

}  // namespace
}  // namespace ibid
