#include "model/weights/kv_precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "base/parallel.h"
#include "model/config/attention_shape.h"
#include "model/tensors/tensor_source.h"
#include "model/weights/finite_check.h"
#include "model/weights/load_weights.h"
#include "weights/block_formats.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

using enum TensorRole;

// Standard deviation of the rounding error of INT8, in standard deviations of the row. The largest number of a rotated
// row of 64 to 256 numbers is about 3 standard deviations; rounding to steps of largest / 127 has a uniform error.
const double kInt8Step = 3.0 / (127.0 * std::sqrt(12.0));

// Maximum KvNoise::score for INT8 and INT4 keys, and KvNoise::value for INT8 and INT4 values (docs/numerics.md).
constexpr double kInt8ScoreLimit = 0.045, kInt4ScoreLimit = 0.02;
constexpr double kInt8ValueLimit = 0.05, kInt4ValueLimit = 0.02;

// Mean and variance of each channel of a row.
struct Moments {
  std::vector<double> mean, variance;

  explicit Moments(size_t n = 0) : mean(n), variance(n) {}
  size_t size() const { return mean.size(); }
  double energy(size_t i) const { return variance[i] + mean[i] * mean[i]; }
  double energy(size_t begin, size_t end) const {
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += energy(i);
    return sum;
  }
};

using FourFloats [[gnu::vector_size(16)]] = float;

// Sums term(a[i], b[i]) in 16 lanes, which gives the same order on all machines. REQUIRES: equal sizes.
template <typename Term>
double sum_of(std::span<const float> a, std::span<const float> b, const Term& term) {
  constexpr size_t kVectors = 4, kLanes = 4 * kVectors;
  FourFloats lanes[kVectors] = {};
  size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    FourFloats x[kVectors], y[kVectors];
    std::memcpy(x, &a[i], sizeof x);
    std::memcpy(y, &b[i], sizeof y);
    for (size_t v = 0; v < kVectors; ++v) lanes[v] += term(x[v], y[v]);
  }
  double sum = 0;
  for (; i < a.size(); ++i) sum += term(a[i], b[i]);
  for (size_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane / 4][lane % 4];
  return sum;
}

class LayerTensors {
 public:
  LayerTensors(const ModelFile& file, const ModelConfig& config, size_t layer)
      : file_(file), config_(config), layer_(layer) {}

  // Returns the layer's vector of this role; empty if the layer does not have it, or if no role is given.
  Result<std::vector<float>> vector(std::optional<TensorRole> role) const {
    if (!role) return std::vector<float>();
    const TensorRow& row = tensor_row(*role);
    TRY_ASSIGN(const TensorSource source, find_source(file_, config_, row, layer_));
    std::vector<float> values(source.n_rows * source.n_cols);
    if (source.found()) TRY(read_vector(file_, config_, row, source, values));
    return values;
  }

  // Returns the moments of W x + b; empty if the layer does not have the matrix.
  Result<Moments> product(TensorRole matrix, const Moments& x, std::optional<TensorRole> bias = {}) const {
    TRY_ASSIGN(const TensorSource source, find_source(file_, config_, tensor_row(matrix), layer_));
    if (!source.found()) return Moments();
    Moments y(source.n_rows);
    // If x has another size, it does not describe the matrix's input (CommonBlocks): assume mean 0 and variance 1.
    std::vector<float> deviation(source.n_cols, 1.0f), mean(source.n_cols);
    for (size_t c = 0; x.size() == source.n_cols && c < source.n_cols; ++c) {
      deviation[c] = static_cast<float>(std::sqrt(x.variance[c]));
      mean[c] = static_cast<float>(x.mean[c]);
    }
    if (source.transposed) {
      add_columns(source, deviation, mean, y);
    } else {
      add_rows(source, deviation, mean, y);
    }
    TRY_ASSIGN(const std::vector<float> constant, vector(bias));
    for (size_t r = 0; r < constant.size(); ++r) y.mean[r] += double{constant[r]};
    return y;
  }

 private:
  static void add_rows(const TensorSource& source, std::span<const float> deviation, std::span<const float> mean,
                       Moments& y) {
    const TensorView& tensor = source.tensor;
    const size_t row_bytes = tensor.row_bytes();
    std::vector<std::byte> made(tensor.source == nullptr ? 0 : row_bytes);
    std::vector<float> w(source.n_cols);
    const bool has_mean = std::ranges::any_of(mean, [](float m) { return m != 0; });
    for (size_t r = 0; r < source.n_rows; ++r) {
      const uint64_t row = tensor.first_row + source.source_row(r);
      if (tensor.source != nullptr) tensor.source->read_rows({&row, 1}, made.data());
      const auto bytes = tensor.source != nullptr ? std::span<const std::byte>(made)
                                                  : tensor.data.subspan(source.source_row(r) * row_bytes, row_bytes);
      dequantize_row(tensor.dtype, bytes, w);
      y.variance[r] = sum_of(w, deviation, [](auto value, auto factor) { return (value * factor) * (value * factor); });
      if (has_mean) y.mean[r] = sum_of(w, mean, [](auto value, auto factor) { return value * factor; });
    }
  }

  // Adds the moments of W x to y, for a float matrix W that is stored as [in, out].
  static void add_columns(const TensorSource& source, std::span<const float> deviation, std::span<const float> mean,
                          Moments& y) {
    const TensorView& tensor = source.tensor;
    const size_t row_bytes = tensor.row_bytes();
    std::vector<float> w(tensor.shape[tensor.shape.rank - 1]);
    for (size_t c = 0; c < source.n_cols; ++c) {
      dequantize_row(tensor.dtype, tensor.data.subspan(c * row_bytes, row_bytes), w);
      for (size_t r = 0; r < source.n_rows; ++r) {
        const double value = double{w[source.source_row(r)]};
        y.variance[r] += value * double{deviation[c]} * value * double{deviation[c]};
        y.mean[r] += value * double{mean[c]};
      }
    }
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  const size_t layer_;
};

// Divides each norm_dim channels by their root mean square, then multiplies by the weights (of one head, or of all).
void norm(std::span<const float> weights, size_t norm_dim, Moments& x) {
  for (size_t begin = 0; begin < x.size(); begin += norm_dim) {
    const double mean_square = x.energy(begin, begin + norm_dim) / static_cast<double>(norm_dim);
    const double inverse = mean_square > 0 ? 1 / std::sqrt(mean_square) : 0;
    for (size_t i = begin; i < begin + norm_dim; ++i) {
      const double factor = inverse * (weights.empty() ? 1.0 : double{weights[i % weights.size()]});
      x.mean[i] *= factor;
      x.variance[i] *= factor * factor;
    }
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Estimates the KvNoise of one layer with attention.
class LayerNoise {
 public:
  // Reads the layer's weights; if the layer uses a shared block, those of the layer that stores the block.
  LayerNoise(const ModelFile& file, const ModelConfig& config, size_t layer)
      : config_(config),
        of_(config.layers[layer]),
        tensors_(file, config, of_.common_layer == kNoLayer ? layer : of_.common_layer) {}

  // Returns the moments of the projections' input: variances from the weights of the norm before them, means from the
  // norm's bias.
  Result<Moments> input(TensorRole norm_weight, std::optional<TensorRole> norm_bias = {}) const {
    TRY_ASSIGN(const std::vector<float> weight, tensors_.vector(norm_weight));
    TRY_ASSIGN(const std::vector<float> bias, tensors_.vector(norm_bias));
    Moments x(weight.size());
    for (size_t i = 0; i < weight.size(); ++i) x.variance[i] = double{weight[i]} * double{weight[i]};
    for (size_t i = 0; i < bias.size(); ++i) x.mean[i] = double{bias[i]};
    return x;
  }

  // keys: moments of the keys in the KV layer. A layer that writes its KV layer sets them; a layer that shares another
  // layer's KV layer reads them.
  Result<KvNoise> of_heads(Moments& keys) const {
    TRY_ASSIGN(const Moments x, input(config_.common.used() ? kCommonNorm : kAttnNorm, kAttnNormBias));
    TRY_ASSIGN(Moments q, tensors_.product(kWq, x, kBq));
    TRY(norm_heads(kQNorm, q));
    KvNoise noise;
    if (of_.writes_kv) {
      TRY_ASSIGN(Moments k, tensors_.product(kWk, x, kBk));
      TRY_ASSIGN(Moments v, tensors_.product(kWv, x, kBv));
      if (of_.value_is_key) v = k;
      TRY(norm_heads(kKNorm, k));
      noise.value = value_noise(v);
      keys = std::move(k);
    }
    noise.score = score_noise(q, keys);
    return noise;
  }

  // Latent attention: the query of a cached row is W_k^T q, whose components are independent if those of q are.
  Result<KvNoise> of_latents() const {
    const LatentAttention& latent = config_.latent;
    TRY_ASSIGN(const Moments x, input(kAttnNorm, kAttnNormBias));
    TRY_ASSIGN(const Moments q_latent, input(kQANorm));
    TRY_ASSIGN(const Moments c, input(kKvANorm));
    Result<Moments> q = latent.q_rank != 0 ? tensors_.product(kWqB, q_latent) : tensors_.product(kWq, x);
    TRY(q.status());
    TRY_ASSIGN(const Moments row, tensors_.product(kWkvA, x, kBkvA));
    TRY_ASSIGN(const Moments expansion, tensors_.product(kWkvB, Moments()));
    const double c_energy = c.energy(0, c.size());
    const double rope_energy = row.energy(latent.kv_rank, row.size());
    KvNoise noise;
    double squares = 0;
    for (size_t head = 0; head < config_.n_heads; ++head) {
      const size_t first = head * latent.key_dim(), first_expanded = head * (latent.nope_dim + latent.value_dim);
      double absorbed = 0;
      for (size_t i = 0; i < latent.nope_dim; ++i) {
        absorbed += q->energy(first + i) * expansion.variance[first_expanded + i];
      }
      const double rotated_energy = q->energy(first + latent.nope_dim, first + latent.key_dim());
      const double of_c = score_noise(absorbed, c_energy, latent.kv_rank);
      const double of_rope = score_noise(rotated_energy, rope_energy, latent.rope_dim);
      squares += of_c * of_c + of_rope * of_rope;
    }
    noise.score = std::sqrt(squares / static_cast<double>(config_.n_heads));
    return noise;
  }

 private:
  Status norm_heads(TensorRole role, Moments& x) const {
    if (config_.qk_norm == QkNorm::kNone) return {};
    TRY_ASSIGN(const std::vector<float> weights, tensors_.vector(role));
    norm(weights, config_.qk_norm == QkNorm::kWhole ? x.size() : of_.head_dim, x);
    return {};
  }

  double score_noise(double q_energy, double k_energy, size_t dims) const {
    if (dims == 0) return 0;
    return double{config_.attention_scale} * std::sqrt(q_energy * k_energy) * std::sqrt(2.0) * kInt8Step /
           std::sqrt(static_cast<double>(dims));
  }

  double score_noise(const Moments& q, const Moments& k) const {
    const size_t d = of_.head_dim, n_kv_heads = k.size() / d, group = n_kv_heads == 0 ? 0 : q.size() / d / n_kv_heads;
    double squares = 0;
    for (size_t head = 0; group != 0 && head < q.size() / d; ++head) {
      const size_t of_key = head / group * d;
      const double noise = score_noise(q.energy(head * d, (head + 1) * d), k.energy(of_key, of_key + d), d);
      squares += noise * noise;
    }
    return std::sqrt(squares / static_cast<double>(config_.n_heads));
  }

  double value_noise(const Moments& v) const {
    const size_t d = of_.head_dim;
    double largest = 0;
    for (size_t begin = 0; begin + d <= v.size(); begin += d) {
      const double typical = median({v.variance.begin() + static_cast<std::ptrdiff_t>(begin),
                                     v.variance.begin() + static_cast<std::ptrdiff_t>(begin + d)});
      const double mean_square = v.energy(begin, begin + d) / static_cast<double>(d);
      if (typical > 0) largest = std::max(largest, std::sqrt(mean_square / typical) * kInt8Step);
    }
    return largest;
  }

  const ModelConfig& config_;
  const LayerConfig& of_;
  const LayerTensors tensors_;
};

// Returns the maximum noise of the layers that attend over one KV layer.
Result<KvNoise> noise_of(const ModelFile& file, const ModelConfig& config, size_t kv_layer) {
  KvNoise noise;
  Moments keys;
  for (size_t l = 0; l < config.n_layers; ++l) {
    const LayerConfig& layer = config.layers[l];
    if (!layer.attends || layer.kv_layer != kv_layer) continue;
    const LayerNoise of(file, config, l);
    TRY_ASSIGN(const KvNoise own, config.latent.used() ? of.of_latents() : of.of_heads(keys));
    noise.score = std::max(noise.score, own.score);
    noise.value = std::max(noise.value, own.value);
  }
  return noise;
}

}  // namespace

Result<std::vector<KvNoise>> estimate_kv_noise(const ModelFile& file, const ModelConfig& config, int n_threads) {
  // Find all tensors before reading one, so that a missing tensor is reported in the order of the table.
  TRY(plan_weights(file, config, Numerics::kExact).status());
  const auto n_layers = static_cast<size_t>(
      std::ranges::count_if(config.layers, [](const LayerConfig& layer) { return layer.attends && layer.writes_kv; }));
  std::vector<Result<KvNoise>> found(n_layers, KvNoise());
  TRY_ASSIGN(const std::unique_ptr<ThreadTeam> team, ThreadTeam::create(n_threads));
  team->run([&](const Worker& worker) {
    const Range own = worker.share(n_layers);
    for (size_t i = own.begin; i < own.end; ++i) found[i] = noise_of(file, config, i);
  });
  std::vector<KvNoise> noise;
  for (Result<KvNoise>& one : found) {
    TRY_ASSIGN(const KvNoise of, std::move(one));
    noise.push_back(of);
  }
  return noise;
}

KvRowFormat format_of(KvDType dtype, const KvNoise& noise) {
  const auto coarsest = [](double of, double int8_limit, double int4_limit) {
    return !(of <= int8_limit)   ? KvNumberFormat::kF16
           : !(of <= int4_limit) ? KvNumberFormat::kInt8
                                 : KvNumberFormat::kInt4;
  };
  const KvRowFormat format(dtype);
  return {std::min(format.keys, coarsest(noise.score, kInt8ScoreLimit, kInt4ScoreLimit)),
          std::min(format.values, coarsest(noise.value, kInt8ValueLimit, kInt4ValueLimit))};
}

KvLayout kv_layout_of(const ModelConfig& config, const ModelOptions& options, std::span<const KvNoise> noise) {
  const size_t max_seq_len = options.max_seq_len == 0 ? config.trained_context : options.max_seq_len;
  std::vector<KvRowFormat> formats;
  for (const KvNoise& of : noise) formats.push_back(format_of(options.kv_dtype, of));
  return kv_layout_of(config, options.kv_dtype, max_seq_len, formats);
}

Result<KvLayout> kv_layout_of(const ModelFile& file, const ModelConfig& config, const ModelOptions& options) {
  std::vector<KvNoise> noise;
  if (is_coded(KvRowFormat(options.kv_dtype).keys)) {
    TRY_ASSIGN(noise, estimate_kv_noise(file, config, options.n_threads));
  }
  return kv_layout_of(config, options, noise);
}

}  // namespace ibid
