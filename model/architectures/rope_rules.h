// Reads from a file's metadata how positions rotate queries and keys (RopeRule), in every form that both containers
// have.
#pragma once

#include "base/result.h"
#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"
#include "model/config/config.h"

namespace ibid {

// Sets config.ropes, with numbers rounded to floats: one rule; or two for RopeLayers::kTwoRules, where the first is
// for layers without a window. REQUIRES: the layers' heads and config.trained_context are read.
// Errors: kUnsupported (a rule, named, with the supported ones), kMissingKey, kBadHyperparameter, kBadType,
// kBadShape, kNonFinite.
Status read_ropes(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// GGUF's tensors of factors, one for each pair: that of any rule, and the two of longrope.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr float kUnturned = 1e30f;  // a pair with such a factor is not rotated
inline constexpr const char* kLongRopeFactors = "rope_factors_long.weight";
inline constexpr const char* kShortRopeFactors = "rope_factors_short.weight";

// How much longer attention to a stretched context is made (Peng et al. 2023, section 3.4).
double yarn_magnitude(double factor, double multiplier);
// The magnitude of a GGUF with rope.scaling.yarn_log_multiplier and no rope.scaling.attn_factor.
double gguf_yarn_magnitude(double factor, double log_multiplier, bool latent);

}  // namespace ibid
