// The parts of read_config(): each reads one side of a model from a file's metadata and writes it into the
// configuration. They are called in the order in which they need each other's results. Pure functions of the file.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/architectures/architecture.h"
#include "model/architectures/hyperparameters.h"
#include "model/config/config.h"

namespace ibid {

class ModelFile;

// --- other_files.cc: files that lie where models lie and look like them, but cannot be talked to: adapters, projectors
// of images, importance matrices, vocabularies, embedding models. The error says what they are, and what to do.

// Returns kUnsupported for such a file, kMissingKey for safetensors without config.json. Ok for a file that is a
// model, and for any file that it does not recognise.
Status refuse_other_files(const ModelFile& file);

inline constexpr auto kHeadDimLimit = static_cast<int64_t>(kMaxHeadDim);

// --- shape_rules.cc: how many layers, heads and dimensions a model has, and which layer keeps whose keys and values.

// Reads what is common to all layers, and the width of each MLP. Errors: those of Hyperparameters.
Status read_shape(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// The heads of each layer, and whose rows it reads. REQUIRES: windows are known. Errors: likewise.
Status read_heads(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// AltUp, LAuReL, and what a token gives to each layer, of files that have them. Errors: likewise; kMissingTensor.
Status read_beside_layers(const Hyperparameters& file, ModelConfig& config);

// --- layer_kinds.cc: which layers are recurrent, which attend, and which use a block in common.

// Which layers attend, recur, do both, or neither, in every form that files have: a list of kinds, letters, indices,
// periods; in GGUF heads of keys and values by layer, or a period. A family without recurrent layers: all attend.
// REQUIRES: config.layers have their number. Errors: those of Hyperparameters; kUnsupported (a kind of layer, named).
Status read_layer_kinds(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// --- layer_rules.cc: in what the layers of one model differ.

// Fills config.layers: windows, the rope of each layer, the activation of each MLP and which gates it cuts.
// REQUIRES: read_shape().
// Errors: kBadHyperparameter (a list of the wrong length, numbers out of range), kUnsupported (a kind of layer or an
// activation, named), kMissingKey, kBadType.
Status read_layers(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// One of the learned numbers of xIELU (model/architectures/keys.h), by layer: an array in GGUF, else a tensor of each
// layer. Errors: kMissingKey, kMissingTensor, kBadShape, kNonFinite, kBadHyperparameter, kBadType.
Result<std::vector<float>> read_xielu_numbers(const Hyperparameters& file, const ModelConfig& config, const Key& key);

// --- rope_rules.cc: how positions rotate queries and keys (RopeRule), in every form that both containers have.

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

// --- attention_rules.cc: how a layer's scores are made, and latent attention (model/config/latent_attention.h).

// The soft cap at `key`; `usual` where the file does not say. A null in config.json turns the cap off: 0.
Result<double> read_softcap(const Hyperparameters& file, const Key& key, float usual);

// Sets the scale of scores, their cap, and how queries grow with their position. REQUIRES: heads and ropes are read.
// Errors: kBadHyperparameter, kBadType.
Status read_attention(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// Sets config.latent.
// REQUIRES: config.n_heads is read. Errors: kMissingKey, kBadHyperparameter, kBadType.
Status read_latent(const Hyperparameters& file, ModelConfig& config);

// Returns the further factor of the scores of a model whose context was stretched; 1 for others.
// REQUIRES: config.ropes are read. Errors: kBadHyperparameter, kBadType.
Result<double> read_latent_scale(const Hyperparameters& file, const ModelConfig& config);

// --- moe_rules.cc: which layers have experts, how many, and how rows choose among them.

// Sets config.moe where the file counts experts, and LayerConfig::ffn_dim to 0 of the layers that have them.
// REQUIRES: config.layers are read.
// Errors: kBadHyperparameter (more experts in use than there are, groups that do not divide them, layers beyond the
// model ...), kMissingKey, kBadType, kUnsupported (a way to choose experts, named).
Status read_moe(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

// The number that GGUF gives to a way to choose experts.
size_t gguf_number_of(RouterScores scores);

// --- recurrent_rules.cc: what the recurrent layers of a model are.

// Heads, widths, ranks and factors of the recurrent layers. REQUIRES: the heads of attention and norm_eps are read.
// Errors: likewise.
Status read_recurrent(const Hyperparameters& file, const Architecture& row, ModelConfig& config);

}  // namespace ibid
