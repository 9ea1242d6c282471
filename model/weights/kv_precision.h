// KvPrecision: finds the layers whose keys or values need more bits than the KV type has. INT8 and INT4 round a row to
// steps proportional to its largest number. In most layers the error is negligible. In some it is not, because of key
// biases up to 211 (Qwen 2.5), or of norms that make long queries and keys (Gemma 3).
//
// The decision is made once, before loading, from the weights only, so it is the same on every machine and part of the
// KV layout and the fingerprint. For each layer with its own KV, two figures are estimated for inputs with independent
// channels of variance 1, times the weight of the norm before them:
//   score noise   standard deviation, in nats, of the error that INT8 keys and INT8 queries add to a score before the
//                 softmax: scale |q| |k| sqrt(2) kInt8Step / sqrt(d), root mean square over the query heads
//   value noise   error of INT8 values, in standard deviations of a head's median channel: rms(v) kInt8Step / median
// |q|, |k| and rms(v) include biases, which use a part of the range. The standard deviations of channels exclude them,
// because a constant carries no information. In every model softmax turns score noise into relative errors of weights.
// docs/numerics.md has the limits, and their cost and benefit on four models.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "model/config/config.h"
#include "model/config/model_options.h"

namespace ibid {

class ModelFile;

// Noise of one KV layer in INT8. INT4 keys have about 8 times, INT4 values about 12 times as much noise.
struct KvNoise {
  double score = 0;  // nats
  double value = 0;  // standard deviations
};

// Reads the tensors that compute queries, keys and values; returns one result per KV layer.
// Errors: those of find_source(), read_vector() and ThreadTeam::create().
Result<std::vector<KvNoise>> estimate_kv_noise(const ModelFile& file, const ModelConfig& config, int n_threads);

// Returns the format of a layer's KV rows: that of dtype, or a finer one if the noise would exceed the limits.
KvRowFormat format_of(KvDType dtype, const KvNoise& noise);

// Returns the layout of the model's keys and values for options.kv_dtype, with the formats that `noise` requires.
KvLayout kv_layout_of(const ModelConfig& config, const ModelOptions& options, std::span<const KvNoise> noise);

// Returns the layout of the model's keys and values for options.kv_dtype. If the KV type needs it, estimates the noise
// of each layer to choose its formats. Errors: those of estimate_kv_noise().
Result<KvLayout> kv_layout_of(const ModelFile& file, const ModelConfig& config, const ModelOptions& options);

}  // namespace ibid
