// The tensor table: every tensor that a transformer may have. A row defines the tensor's name in each container, its
// shape, when a model has it, the member of TransformerWeights that it is loaded into, the input that it multiplies,
// and corrections while packing. Loading, the memory plan and the error messages use the table.
//
// Names: '#' is the layer; '@' is the prefix of the file (ModelConfig::name_prefix); '|' separates spellings, of which
// the first that the file has is used. '%' is the number of a copy (experts, streams, adapters); a spelling without '%'
// names one tensor for all copies, whose first dimension is the copy. If the row has a single copy, '%' is a head, and
// the tensor is that head's part. ModelConfig::names lists an architecture's own names. If a file has no separate
// tensors, the fused ones (q|k|v, gate|up) are used.
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

// Reorders value heads from group by group, as in checkpoints, to one head of each group in turn, as in GGUF and in
// memory: head h belongs to group h % n_groups.
struct HeadTiles {
  size_t n_groups = 0, of_group = 0;  // number of groups, and of heads in each; n_groups == 0: heads keep their order
  size_t width = 0;                   // width of a head, in rows or columns

  bool used() const { return n_groups != 0; }
  // Returns the file's index of the row (or column) that has index `at` in memory.
  size_t source(size_t at) const {
    if (!used()) return at;
    const size_t head = at / width;
    return ((head % n_groups) * of_group + head / n_groups) * width + at % width;
  }
  // Copies one row from file order to memory order; each head has head_bytes bytes in it. REQUIRES: used().
  void take_heads(const std::byte* in, size_t head_bytes, std::byte* out) const;
};

// How the heads in the rows and in the columns of a matrix are reordered.
struct TiledHeads {
  HeadTiles rows, columns;
};

enum class TensorRole : uint8_t {
  kEmbed,
  kPositions,
  kFinalNorm,
  kFinalNormBias,
  kLmHead,
  kBLmHead,  // a model has one tensor per role up to here
  kLayerEmbed,
  kLayerInputs,
  kLayerInputNorm,
  kSpread,
  kGather,  // one per stream except the first
  kAttnNorm,
  kAttnNormBias,
  kAttnPostNorm,
  kWq,
  kWk,
  kWv,
  kWo,
  kWqkv,  // one per layer
  kWqGate,
  kBqGate,
  kBq,
  kBk,
  kBv,
  kBo,
  kBqkv,
  kQNorm,
  kKNorm,
  kSinks,
  kLaurelLeft,
  kLaurelRight,
  kLaurelNorm,
  kLayerGate,
  kLayerOut,
  kLayerPostNorm,
  kOutScale,
  kAltUpRouter,
  kAltUpRouterNorm,
  kAltUpPredict,
  kAltUpCorrect,
  kAltUpScale,
  kWAttnGate,
  kBAttnGate,
  kWqA,
  kWqB,
  kWkvA,
  kWkvB,
  kBqA,
  kBkvA,
  kQANorm,
  kKvANorm,
  kFfnNorm,
  kFfnNormBias,
  kFfnPostNorm,
  kWGate,
  kWUp,
  kWDown,
  kWGateUp,
  kBGate,
  kBUp,
  kBDown,
  kRouter,
  kBRouter,
  kChoiceBias,
  kSharedRouter,
  kRouterScale,
  kExpertScale,  // one per layer with experts
  kMoeNorm,
  kMoePostNorm,
  kMlpPostNorm,
  kSharedGateUp,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kBSharedGate,
  kBSharedUp,
  kBSharedDown,
  kExpertGateUp,
  kExpertGate,
  kExpertUp,
  kExpertDown,  // one per expert
  kBExpertGateUp,
  kBExpertGate,
  kBExpertUp,
  kBExpertDown,
  kCommonNorm,
  kCommonFfnNorm,
  kCommonGateUp,
  kCommonGate,
  kCommonUp,
  kCommonDown,
  kCommonOut,
  kBCommonGateUp,
  kBCommonGate,
  kBCommonUp,
  kBCommonDown,
  kAdapterLow,
  kAdapterGateUp,
  kAdapterGate,
  kAdapterUp,  // one per use of a shared block
  kAdapterQLow,
  kAdapterQ,
  kAdapterKLow,
  kAdapterK,
  kAdapterVLow,
  kAdapterV,
  kMixIn,
  kMixNumbers,
  kMixQ,
  kMixK,
  kMixV,
  kMixZ,
  kMixZOfLow,
  kMixRate,
  kMixStepIn,
  kMixDecay,
  kMixDecayOfLow,
  kMixDecayLow,
  kMixGateLow,
  kMixScan,
  kMixStep,
  kMixOut,  // one per recurrent layer
  kMixConv,
  kMixConvQ,
  kMixConvK,
  kMixConvV,
  kMixConvBias,
  kMixConvQBias,
  kMixConvKBias,
  kMixConvVBias,
  kBMixIn,
  kBMixQ,
  kBMixK,
  kBMixV,
  kBMixZ,
  kBMixStepIn,
  kBMixOut,
  kMixRates,
  kMixScanRates,
  kMixStepBias,
  kMixSkip,
  kMixScanSkip,
  kMixNorm,
  kMixStepNorm,
  kMixBNorm,
  kMixCNorm,
};

// An architecture's own names of a tensor. Empty: as in the table.
struct TensorName {
  TensorRole role;
  const char* gguf;
  const char* hf;
};

// The input of the linear layer that uses a matrix. kNone: the embedding, which is looked up; as an LM head it reads h.
enum class InputOf : uint8_t {
  kNone,
  kH,
  kAttended,
  kGated,
  kQLatent,
  kKvLatent,
  kExpertGated,
  kSharedGated,
  kLaurel,
  kLayerGated,
  kMixed,
  kRecurrentLow
};

enum class FixUp : uint8_t {
  kNone,
  kRotated,      // rows of rotated heads are reordered if ModelConfig::adjacent_pairs
  kNorm,         // adds 1 if ModelConfig::norms_minus_one
  kRotatedNorm,  // kRotated and kNorm, for the norm of a head
  kByColumn,     // a small matrix, which is column by column in memory
  kDecay,        // the file has log(-A) if RecurrentMixer::logs_of_decays
  kDecayByColumn,
};

// Whether a model has a tensor. kMay: only if the file has it.
enum class Presence : uint8_t { kNo, kMay, kMust };

// For rows of the table: models for which `has` is true must have the tensor (must) or may have it (may).
template <bool (*has)(const ModelConfig&, size_t layer)>
Presence must(const ModelConfig& config, size_t layer) {
  return has(config, layer) ? Presence::kMust : Presence::kNo;
}
template <bool (*has)(const ModelConfig&, size_t layer)>
Presence may(const ModelConfig& config, size_t layer) {
  return has(config, layer) ? Presence::kMay : Presence::kNo;
}

// The kinds of copies of a tensor: none, or one tensor per expert, stream or adapter.
enum class Copies : uint8_t { kNone, kExperts, kStreams, kAdapters };

struct TensorRow {
  using Dimension = size_t (*)(const ModelConfig&, size_t layer);
  // The member that the tensor is loaded into. monostate: a fused tensor, each part of which has its own row and
  // member. A WeightVector may also hold a small matrix, row by row.
  using Place =
      std::variant<std::monostate, PackedMatrix TransformerWeights::*, WeightVector TransformerWeights::*,
                   PackedMatrix LayerWeights::*, WeightVector LayerWeights::*, PackedMatrix MoeWeights::*,
                   WeightVector MoeWeights::*, PackedMatrix Expert::*, WeightVector Expert::*,
                   PackedMatrix LatentWeights::*, WeightVector LatentWeights::*, LatentExpansion LatentWeights::*,
                   PackedMatrix StreamWeights::*, WeightVector AltUpWeights::*, PackedMatrix LayerInputWeights::*,
                   WeightVector LayerInputWeights::*, PackedMatrix RecurrentWeights::*,
                   WeightVector RecurrentWeights::*, PackedMatrix CommonBlockWeights::*,
                   WeightVector CommonBlockWeights::*, PackedMatrix AdapterWeights::*>;
  TensorRole role;
  const char* gguf;
  const char* hf;
  Dimension rows;
  Dimension cols;  // nullptr: a vector
  Place place;
  Presence (*presence)(const ModelConfig&, size_t layer);
  InputOf input = InputOf::kNone;
  FixUp fix = FixUp::kNone;
  TensorRole part_of = role;      // the fused tensor that may contain this tensor; its own role: never fused
  Copies copies = Copies::kNone;  // with a `place` in Expert, kNone means the shared expert

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

// Number of tensors of this row in a layer, or in the model if the row is not per layer.
size_t n_copies(const TensorRow& row, const ModelConfig& config, size_t layer);

// --- recurrent_tensors.cc: the rows of recurrent layers, and the order of parts in their fused tensors.

std::span<const TensorRow> recurrent_tensors();

// Returns the order of the rows of `row` in its fused tensor; nullopt for rows outside fused tensors of recurrent
// layers.
std::optional<RowOrder> recurrent_part_order(const ModelConfig& config, const TensorRow& row);

// Returns how the value heads in the rows and columns of a role's tensor must be reordered, because the file's order
// differs from that in memory (RecurrentMixer::tiled_heads).
TiledHeads tiled_heads(const ModelConfig& config, TensorRole role);

}  // namespace ibid
