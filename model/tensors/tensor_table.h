// The tensor table: every tensor that a transformer may have. A row says its name in each container, its shape,
// when a model has it, where it is bound, which input it multiplies, and what has to be corrected while packing.
// Binding, the memory plan and the error messages follow from the table.
//
// Names: '#' stands for the layer, '@' for the prefix of the file (ModelConfig::name_prefix), '|' separates spellings,
// of which the first that the file has is taken; '%' for the copy, of tensors of which there are several alike
// (experts, streams): a spelling without it is all copies' tensor, the copies being its first dimension;
// where there is one of it all the same, '%' is the head whose part of it a tensor is. An
// architecture whose files use other names lists those (ModelConfig::names). Several tensors in one (q|k|v, gate|up)
// are found where a file has no tensor of their own.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/tensor_view.h"
#include "kernels/layout/panel.h"
#include "model/config/config.h"
#include "model/tensors/transformer_weights.h"
#include "weights/model_file.h"

namespace ibid {

// Heads of values that stand in a checkpoint group by group, and in memory one of each group after the
// other, as GGUF has them: head h is of group h % n_groups.
struct HeadTiles {
  size_t n_groups = 0, of_group = 0;  // heads of a group; n_groups 0: what stands in the file stands so in memory
  size_t width = 0;                   // of a head, in rows or columns

  bool used() const { return n_groups != 0; }
  // Where the file has row (or column) `at`.
  size_t source(size_t at) const {
    if (!used()) return at;
    const size_t head = at / width;
    return ((head % n_groups) * of_group + head / n_groups) * width + at % width;
  }
  // One row, whose heads have head_bytes each, from the file's order into that of memory. REQUIRES: used().
  void take_heads(const std::byte* in, size_t head_bytes, std::byte* out) const;
};

// The heads of a matrix that change places.
struct TiledHeads {
  HeadTiles rows, columns;
};

enum class TensorRole : uint8_t {
  kEmbed, kPositions, kFinalNorm, kFinalNormBias, kLmHead, kBLmHead,             // once
  kLayerEmbed, kLayerInputs, kLayerInputNorm,
  kSpread, kGather,                                                              // per stream but the first
  kAttnNorm, kAttnNormBias, kAttnPostNorm, kWq, kWk, kWv, kWo, kWqkv,            // per layer
  kWqGate, kBqGate, kBq, kBk, kBv, kBo, kBqkv, kQNorm, kKNorm, kSinks,
  kLaurelLeft, kLaurelRight, kLaurelNorm, kLayerGate, kLayerOut, kLayerPostNorm, kOutScale,
  kAltUpRouter, kAltUpRouterNorm, kAltUpPredict, kAltUpCorrect, kAltUpScale,
  kWAttnGate, kBAttnGate, kWqA, kWqB, kWkvA, kWkvB, kBqA, kBkvA, kQANorm, kKvANorm,
  kFfnNorm, kFfnNormBias, kFfnPostNorm, kWGate, kWUp, kWDown, kWGateUp, kBGate, kBUp, kBDown,
  kRouter, kBRouter, kChoiceBias, kSharedRouter, kRouterScale, kExpertScale,     // per layer with experts
  kMoeNorm, kMoePostNorm, kMlpPostNorm,
  kSharedGateUp, kSharedGate, kSharedUp, kSharedDown, kBSharedGate, kBSharedUp, kBSharedDown,
  kExpertGateUp, kExpertGate, kExpertUp, kExpertDown,                            // per expert
  kBExpertGateUp, kBExpertGate, kBExpertUp, kBExpertDown,
  kCommonNorm, kCommonFfnNorm, kCommonGateUp, kCommonGate, kCommonUp, kCommonDown, kCommonOut,
  kBCommonGateUp, kBCommonGate, kBCommonUp, kBCommonDown,
  kAdapterLow, kAdapterGateUp, kAdapterGate, kAdapterUp,                         // per use of a block in common
  kAdapterQLow, kAdapterQ, kAdapterKLow, kAdapterK, kAdapterVLow, kAdapterV,
  kMixIn, kMixNumbers, kMixQ, kMixK, kMixV, kMixZ, kMixZOfLow, kMixRate, kMixStepIn, kMixDecay, kMixDecayOfLow,
  kMixDecayLow, kMixGateLow, kMixScan, kMixStep, kMixOut,                        // per recurrent layer
  kMixConv, kMixConvQ, kMixConvK, kMixConvV, kMixConvBias, kMixConvQBias, kMixConvKBias, kMixConvVBias,
  kBMixIn, kBMixQ, kBMixK, kBMixV, kBMixZ, kBMixStepIn, kBMixOut,
  kMixRates, kMixScanRates, kMixStepBias, kMixSkip, kMixScanSkip, kMixNorm, kMixStepNorm, kMixBNorm, kMixCNorm,
};

// How an architecture's files call a tensor. An empty name: as in the table.
struct TensorName {
  TensorRole role;
  const char* gguf;
  const char* hf;
};

// The input of the linear layer that a matrix is. The embedding is only looked up; as a tied head it reads h.
enum class InputOf : uint8_t {
  kNone, kH, kAttended, kGated, kQLatent, kKvLatent, kExpertGated, kSharedGated, kLaurel, kLayerGated, kMixed,
  kRecurrentLow
};

enum class FixUp : uint8_t {
  kNone,
  kRotated,      // rows of heads that RoPE turns: ModelConfig::adjacent_pairs
  kNorm,         // ModelConfig::norms_minus_one
  kRotatedNorm,  // both: the norm of a head
  kByColumn,     // a matrix of few numbers that is kept column after column
  kDecay,        // the file may have the logarithm of the negative: RecurrentMixer::logs_of_decays
  kDecayByColumn,
};

// Whether a model has a tensor. kMay: the model has it if its file does.
enum class Presence : uint8_t { kNo, kMay, kMust };

// How many tensors of a kind a model, or a layer, has.
enum class Copies : uint8_t { kOne, kExperts, kStreams, kAdapters };

struct TensorRow {
  using Dimension = size_t (*)(const ModelConfig&, size_t layer);
  // The place in TransformerWeights. Nothing: the tensor holds other tensors. A matrix of few numbers may be a
  // WeightVector, row after row.
  using Place = std::variant<std::monostate, PackedMatrix TransformerWeights::*, WeightVector TransformerWeights::*,
                             PackedMatrix LayerWeights::*, WeightVector LayerWeights::*, PackedMatrix MoeWeights::*,
                             WeightVector MoeWeights::*, PackedMatrix Expert::*, WeightVector Expert::*,
                             PackedMatrix LatentWeights::*, WeightVector LatentWeights::*,
                             LatentExpansion LatentWeights::*,
                             PackedMatrix StreamWeights::*, WeightVector AltUpWeights::*,
                             PackedMatrix LayerInputWeights::*, WeightVector LayerInputWeights::*,
                             PackedMatrix RecurrentWeights::*, WeightVector RecurrentWeights::*,
                             PackedMatrix CommonBlockWeights::*, WeightVector CommonBlockWeights::*,
                             PackedMatrix AdapterWeights::*>;
  TensorRole role;
  const char* gguf;
  const char* hf;
  Dimension rows;
  Dimension cols;                 // nullptr: a vector
  Place place;
  Presence (*presence)(const ModelConfig&, size_t layer);
  InputOf input = InputOf::kNone;
  FixUp fix = FixUp::kNone;
  TensorRole part_of = role;      // the fused tensor that may hold it; itself: none
  Copies copies = Copies::kOne;   // an Expert's that is one is the shared one's

  bool per_layer() const {
    return role >= TensorRole::kCommonNorm || std::string_view(gguf).find('#') != std::string_view::npos;
  }
  bool is_matrix() const { return cols != nullptr; }
  bool is_rotated() const { return fix == FixUp::kRotated || fix == FixUp::kRotatedNorm; }
  bool is_by_column() const { return fix == FixUp::kByColumn || fix == FixUp::kDecayByColumn; }
  bool is_decay() const { return fix == FixUp::kDecay || fix == FixUp::kDecayByColumn; }
  bool is_norm() const { return fix == FixUp::kNorm || fix == FixUp::kRotatedNorm; }
};

std::span<const TensorRow> tensor_table();
const TensorRow& tensor_row(TensorRole role);

// How many tensors of this row a layer has, or where it is not per layer, the model.
size_t n_copies(const TensorRow& row, const ModelConfig& config, size_t layer);

// --- recurrent_tensors.cc: the rows that recurrent layers have, and where their parts stand in tensors of several.

std::span<const TensorRow> recurrent_tensors();

// The rows of `row` within the tensor that holds it; nothing: it is no part of a recurrent layer's tensor.
std::optional<RowOrder> recurrent_part_order(const ModelConfig& config, const TensorRow& row);

// The heads of values that a role has in its rows and columns, of a file that does not have them as memory has
// (RecurrentMixer::tiled_heads).
TiledHeads tiled_heads(const ModelConfig& config, TensorRole role);

}  // namespace ibid
