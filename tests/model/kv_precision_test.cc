// Layers with outliers in keys or values keep 16 bits. Tests which layers these are, for outliers in weights of every
// kind, and the effect. Both are the same for every number of threads and instruction set.
#include "model/weights/kv_precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/dispatch.h"
#include "model/architectures/architectures.h"
#include "model/memory_plan.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

constexpr size_t kLayer = 1;  // the layer with an outlier
constexpr size_t kChannel = 5;

// A tensor that replaces one of a tiny model.
struct Planted {
  std::string tensor;  // in kLayer; empty: no tensor is replaced
  size_t n_rows = 1, n_cols = 1;
  std::function<float(size_t row, size_t col)> value;
  DType dtype = DType::kF32;
};

float usual(size_t row, size_t col) { return 0.15f * std::sin(static_cast<float>(row * 71 + col * 13 + 1)); }

TinyModel shape() { return {.head_dim = 32, .biases = true}; }

class PlantedModel {
 public:
  explicit PlantedModel(const Planted& planted) {
    TinyModel tiny = shape();
    const std::string name = "blk." + std::to_string(kLayer) + "." + planted.tensor;
    if (!planted.tensor.empty()) tiny.without = name;
    GgufWriter writer = tiny_model_writer(tiny);
    if (!planted.tensor.empty()) {
      std::vector<float> values;
      for (size_t r = 0; r < planted.n_rows; ++r) {
        for (size_t c = 0; c < planted.n_cols; ++c) values.push_back(planted.value(r, c));
      }
      const Shape matrix{{planted.n_rows, planted.n_cols}, 2}, vector{{planted.n_rows}, 1};
      add_tensor_of(writer, name, planted.dtype, planted.n_cols == 1 ? vector : matrix, values);
    }
    EXPECT_TRUE(writer.write(path()).ok());
    file_ = *open_model_file(path());
  }

  KvLayout layout(KvDType dtype, int n_threads = 2) const {
    return *kv_layout_of(*file_, *read_config(*file_), {.kv_dtype = dtype, .n_threads = n_threads});
  }

  // Returns the logits of all positions of one sequence, fed in chunks.
  std::vector<float> logits(const ModelOptions& options, size_t chunk) const {
    const auto model = *TransformerModel::create(*file_, *read_config(*file_), options);
    KvPagePool pool(model->kv_layout(), size_t{8} << 20);
    KvCacheEntry entry(pool);
    const Tokens tokens = random_tokens(150, model->vocab_size(), 3);
    std::vector<float> all;
    Logits logits;
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      const TokenSpan part = TokenSpan(tokens).subspan(at, std::min(chunk, tokens.size() - at));
      const SequenceChunk one{&entry, part, WantLogits::kAll};
      EXPECT_TRUE(model->forward({&one, 1}, {}, logits).ok());
      for (size_t i = 0; i < logits.n_rows(); ++i) all.insert(all.end(), logits.row(i).begin(), logits.row(i).end());
    }
    return all;
  }

 private:
  std::string path() const { return dir_.file("planted.gguf"); }
  TempDir dir_;
  std::unique_ptr<ModelFile> file_;
};

float one_channel(size_t row, float outlier) { return row == kChannel ? outlier : usual(row, 0); }

const size_t kKvDim = shape().n_kv_heads * shape().head_dim, kQDim = shape().n_heads * shape().head_dim;
const Planted kKeyBias{"attn_k.bias", kKvDim, 1, [](size_t r, size_t) { return one_channel(r, 211); }};
const Planted kValueBias{"attn_v.bias", kKvDim, 1, [](size_t r, size_t) { return one_channel(r, 60); }};

KvRowFormat format_of_layer(const KvLayout& layout, size_t layer) {
  return {layout.layer(layer).block.keys(), layout.layer(layer).block.values()};
}

void expect_formats(const Planted& planted, KvDType dtype, KvRowFormat of_planted) {
  SCOPED_TRACE(planted.tensor + std::string(dtype_name(planted.dtype)));
  const KvLayout layout = PlantedModel(planted).layout(dtype);
  for (size_t layer = 0; layer < layout.n_layers(); ++layer) {
    const KvRowFormat wanted = layer == kLayer ? of_planted : KvRowFormat(dtype);
    EXPECT_EQ(format_of_layer(layout, layer), wanted) << "layer " << layer;
  }
}

TEST(KvPrecision, ModelWithoutOutliersUsesTheFormatOfItsType) {
  for (const KvDType dtype : {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4, KvDType::kInt4}) {
    expect_formats({}, dtype, dtype);
    EXPECT_FALSE(PlantedModel({}).layout(dtype).has_mixed_formats());
  }
}

// Each outlier is found by another part of the estimate: biases, rows of a matrix, queries, the norm before them.
TEST(KvPrecision, OutliersOfKeysKeepKeysIn16Bits) {
  const auto row = [](size_t r, size_t c) { return (r == kChannel ? 300.0f : 1.0f) * usual(r, c); };
  const Planted kAll[] = {kKeyBias,
                          {"attn_k.weight", kKvDim, shape().dim, row},
                          {"attn_k.weight", kKvDim, shape().dim, row, DType::kF16},
                          {"attn_k.weight", kKvDim, shape().dim, row, DType::kQ8_0},
                          {"attn_q.bias", kQDim, 1, [](size_t r, size_t) { return one_channel(r, 300); }}};
  for (const Planted& planted : kAll) {
    expect_formats(planted, KvDType::kInt8, {KvNumberFormat::kF16, KvNumberFormat::kInt8});
    expect_formats(planted, KvDType::kK8V4, {KvNumberFormat::kF16, KvNumberFormat::kInt4});
    expect_formats(planted, KvDType::kInt4, {KvNumberFormat::kF16, KvNumberFormat::kInt4});
    expect_formats(planted, KvDType::kF16, KvDType::kF16);
    expect_formats(planted, KvDType::kF32, KvDType::kF32);
  }
  // A large norm makes queries and keys longer. Values grow too, but keep their relative sizes.
  const Planted norm{"attn_norm.weight", shape().dim, 1, [](size_t, size_t) { return 20.0f; }};
  expect_formats(norm, KvDType::kInt8, {KvNumberFormat::kF16, KvNumberFormat::kInt8});
}

TEST(KvPrecision, OutliersOfValuesKeepValuesIn16Bits) {
  const auto row = [](size_t r, size_t c) { return (r == kChannel ? 100.0f : 1.0f) * usual(r, c); };
  const Planted kAll[] = {kValueBias, {"attn_v.weight", kKvDim, shape().dim, row}};
  for (const Planted& planted : kAll) {
    expect_formats(planted, KvDType::kInt8, {KvNumberFormat::kInt8, KvNumberFormat::kF16});
    expect_formats(planted, KvDType::kK8V4, {KvNumberFormat::kInt8, KvNumberFormat::kF16});
    expect_formats(planted, KvDType::kInt4, {KvNumberFormat::kInt4, KvNumberFormat::kF16});
  }
}

// The noise is more than INT4 may add, and less than INT8 may add.
TEST(KvPrecision, ModerateOutliersRaiseInt4KeysToInt8) {
  const Planted planted{"attn_k.bias", kKvDim, 1, [](size_t r, size_t) { return one_channel(r, 30); }};
  expect_formats(planted, KvDType::kInt8, KvDType::kInt8);
  expect_formats(planted, KvDType::kInt4, {KvNumberFormat::kInt8, KvNumberFormat::kInt4});
}

TEST(KvPrecision, FormatsOfLayersDoNotDependOnThreads) {
  const PlantedModel model(kKeyBias);
  for (const int n_threads : {1, 3, 8}) {
    const KvLayout layout = model.layout(KvDType::kInt8, n_threads);
    for (size_t layer = 0; layer < layout.n_layers(); ++layer) {
      EXPECT_EQ(format_of_layer(layout, layer), format_of_layer(model.layout(KvDType::kInt8), layer));
    }
  }
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(double{a[i]} - double{b[i]}));
  return largest;
}

// With an outlier of 211 in a key, or of 60 in a value, the model is as exact as without one. INT8 rows in that layer
// would lose ten times as much.
TEST(KvPrecision, ModelsWithOutliersAreAsExactAsModelsWithout) {
  const auto loss = [](const Planted& planted, KvDType dtype) {
    const PlantedModel model(planted);
    return largest_difference(model.logits({.kv_dtype = dtype, .n_threads = 1}, 64),
                              model.logits({.kv_dtype = KvDType::kF32, .n_threads = 1}, 64));
  };
  for (const KvDType dtype : {KvDType::kInt8, KvDType::kK8V4, KvDType::kInt4}) {
    const double plain = loss({}, dtype);
    EXPECT_LT(loss(kKeyBias, dtype), 2 * plain) << static_cast<int>(dtype);
    EXPECT_LT(loss(kValueBias, dtype), 2 * plain) << static_cast<int>(dtype);
  }
}

TEST(KvPrecision, MixedKvFormatsGiveTheSameBitsForAnyChunkAndInstructionSet) {
  for (const Planted& planted : {kKeyBias, kValueBias}) {
    const PlantedModel model(planted);
    for (const KvDType dtype : {KvDType::kInt8, KvDType::kK8V4, KvDType::kInt4}) {
      const std::vector<float> whole = model.logits({.kv_dtype = dtype, .n_threads = 1}, 150);
      for (const Isa isa : kAllIsas) {
        if (!isa_supported(isa)) continue;
        for (const size_t chunk : {1, 7, 64}) {
          ASSERT_TRUE(same_bits(model.logits({.kv_dtype = dtype, .n_threads = 2, .isa = isa}, chunk), whole))
              << planted.tensor << ", " << isa_name(isa) << ", chunks of " << chunk;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ibid
