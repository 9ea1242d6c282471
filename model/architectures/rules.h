// The parts of read_config(). Each reads one aspect of a model from a file's metadata into the configuration;
// read_config() calls them in the order in which they depend on each other. Pure functions of the file.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"
#include "model/config/config.h"

namespace ibid {

class ModelFile;

// --- other_files.cc: refuses files that look like models but cannot generate text: adapters, image projectors,
// importance matrices, vocabularies, embedding models. The error names the kind of file and a remedy.

// Refuses files that cannot generate text. Error: kUnsupported for such a file, kMissingKey for safetensors without
// config.json. Ok for a model, and for every file that is not recognised as another kind.
Status refuse_other_files(const ModelFile& file);

inline constexpr auto kHeadDimLimit = static_cast<int64_t>(kMaxHeadDim);

// --- shape_rules.cc: numbers of layers, heads and dimensions, and layers that share keys and values.

// Reads the shape common to all layers, and the width of each MLP. Errors: those of Hyperparameters.
Status read_shape(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// Reads the heads of each layer, and the layer whose keys and values it reads. REQUIRES: windows are read. Errors:
// those of Hyperparameters.
Status read_heads(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// Reads AltUp, LAuReL and layer inputs, if the file has them. Errors: those of Hyperparameters; kMissingTensor.
Status read_beside_layers(const Hyperparameters& file, ModelConfig& config);

// --- layer_kinds.cc: which layers are recurrent, have attention, or use a shared block.

// Reads which layers have attention, a recurrent mixer, both or neither, in every form that files use: a list of kinds,
// letters, indices, periods; in GGUF also the KV heads by layer. Without recurrent layers all layers have attention.
// REQUIRES: config.layers has n_layers elements. Errors: those of Hyperparameters; kUnsupported (kind, named).
Status read_layer_kinds(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// --- layer_rules.cc: properties in which the layers of a model differ.

// Fills config.layers: window and rope of each layer, activation and gate cutoff of each MLP.
// REQUIRES: read_shape().
// Errors: kBadHyperparameter (a list of the wrong length, numbers out of range), kUnsupported (a kind of layer or an
// activation, named), kMissingKey, kBadType.
Status read_layers(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// Returns one of xIELU's learned numbers (model/architectures/keys.h) for every layer. GGUF has an array, a checkpoint
// one tensor per layer. Errors: kMissingKey, kMissingTensor, kBadShape, kNonFinite, kBadHyperparameter, kBadType.
Result<std::vector<float>> read_xielu_numbers(const Hyperparameters& file, const ModelConfig& config, const Key& key);

// --- rope_rules.cc: the rotation of queries and keys (RopeRule), in every notation of GGUF and config.json.

// Sets config.ropes, with numbers rounded to floats: one rule, or two for RopeLayers::kTwoRules, the first of which is
// for layers without a window. REQUIRES: the layers' heads and config.trained_context are read.
// Errors: kUnsupported (naming the rule and the supported ones), kMissingKey, kBadHyperparameter, kBadType, kBadShape,
// kNonFinite.
Status read_ropes(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// Names of the tensors of GGUF that have one factor per rotated pair: one name for any rule, and two for longrope.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr float kUnrotated = 1e30f;  // a pair with this factor is not rotated
inline constexpr const char* kLongRopeFactors = "rope_factors_long.weight";
inline constexpr const char* kShortRopeFactors = "rope_factors_short.weight";

// Returns the factor of attention's magnitude that YaRN uses for an extended context (Peng et al. 2023, section 3.4).
double yarn_magnitude(double factor, double multiplier);
// Returns YaRN's magnitude for a GGUF that has rope.scaling.yarn_log_multiplier but not rope.scaling.attn_factor.
double gguf_yarn_magnitude(double factor, double log_multiplier, bool latent);

// --- attention_rules.cc: scale and cap of scores, and latent attention (model/config/latent_attention.h).

// Returns the soft cap at `key`; `usual` if the file lacks the key; 0 (no cap) if config.json has null.
Result<double> read_softcap(const Hyperparameters& file, const Key& key, float usual);

// Sets the scale and cap of scores, and the scaling of queries by position. REQUIRES: heads and ropes are read.
// Errors: kBadHyperparameter, kBadType.
Status read_attention(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// Sets config.latent.
// REQUIRES: config.n_heads is read. Errors: kMissingKey, kBadHyperparameter, kBadType.
Status read_latent(const Hyperparameters& file, ModelConfig& config);

// Returns the factor that latent attention applies to the scores of a model with an extended context; 1 for others.
Result<double> read_latent_scale(const Hyperparameters& file, const ModelConfig& config);

// --- moe_rules.cc: which layers have experts, their number, and how rows choose them.

// Sets config.moe if the file has experts, and has_experts and ffn_dim of the layers. REQUIRES: config.layers are read.
// Errors: kBadHyperparameter (more active experts than experts, a number of experts that the groups do not divide,
// layers beyond the model ...), kMissingKey, kBadType, kUnsupported (router scores, named).
Status read_moe(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// Returns the number that GGUF uses for these router scores.
size_t gguf_number_of(RouterScores scores);

// --- recurrent_rules.cc: the recurrent layers of a model.

// Reads heads, widths, ranks and factors of the recurrent layers. REQUIRES: attention heads and norm_eps are read.
// Errors: kMissingKey, kBadHyperparameter, kBadType.
Status read_recurrent(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

}  // namespace ibid
