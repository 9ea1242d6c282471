// KvPrecision: the layers whose keys or values need more bits than the KV type has. A row of INT8 or INT4 loses a part
// of its largest number; in most layers the loss disappears beside what the row says, in some it does not: biases of
// keys up to 211 (Qwen 2.5), or norms that make long queries and keys (Gemma 3).
//
// The decision is made once, before loading, from the weights alone, so it is the same on every machine and a part of
// the KV layout and of the fingerprint. For each layer with rows of its own, two figures are estimated for inputs whose
// channels are independent with variance 1 times the weight of the norm before them:
//
//   score noise   the standard deviation, in nats, of what INT8 keys and INT8 queries add to a score before the
//                 softmax: scale |q| |k| sqrt(2) kInt8Step / sqrt(d), root mean square over the query heads
//   value noise   what INT8 values add, in standard deviations of a head's median channel: rms(v) kInt8Step / median
//
// |q|, |k| and rms(v) include biases, since they take their part of the range; the standard deviations of channels do
// not, since a constant says nothing. Softmax turns score noise into relative errors of weights, whatever the model.
// docs/numerics.md has the limits, and what they cost and save on four models.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "model/config/config.h"
#include "model/config/model_options.h"

namespace ibid {

class ModelFile;

// Of one layer of the cache, in INT8. INT4 keys have about 8 times as much, INT4 values 12 times.
struct KvNoise {
  double score = 0;  // nats
  double value = 0;  // standard deviations
};

// Reads the matrices and vectors that make queries, keys and values; one result for each layer of the cache.
// Errors: those of find_source(), read_vector() and ThreadTeam::create().
Result<std::vector<KvNoise>> estimate_kv_noise(const ModelFile& file, const ModelConfig& config, int n_threads);

// The format of a layer's rows: that of the KV type, or a finer one where it would add too much noise.
KvRowFormat format_of(KvDType dtype, const KvNoise& noise);

// The layout of the model's keys and values in options.kv_dtype.
KvLayout kv_layout_of(const ModelConfig& config, const ModelOptions& options, std::span<const KvNoise> noise);

// The same; estimates the noise for the types that depend on it. Errors: those of estimate_kv_noise().
Result<KvLayout> kv_layout_of(const ModelFile& file, const ModelConfig& config, const ModelOptions& options);

}  // namespace ibid
