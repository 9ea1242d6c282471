#include "model/weights/load_weights.h"

#include <type_traits>

#include "kernels/layout/pack.h"
#include "model/tensors/tensor_source.h"
#include "model/weights/each_tensor.h"
#include "model/weights/finite_check.h"
#include "model/weights/latent_expansion.h"
#include "model/weights/packing_list.h"

namespace ibid {

namespace {

size_t padded(size_t n) { return (n + kPanelRows - 1) / kPanelRows * kPanelRows; }

PanelType panel_type(const TensorSource& source, Numerics numerics) {
  const DType dtype = source.tensor.dtype;
  // Blocks that reach from one head into the next cannot change places.
  const HeadTiles& columns = source.tiles.columns;
  const bool fits = !columns.used() || columns.width % dtype_block(dtype).values == 0;
  return numerics == Numerics::kReference || !fits ? PanelType::kPF : panel_type_for(dtype);
}

// Whose member a place is.
template <typename T>
TransformerWeights& owner(T TransformerWeights::*, const TensorRow&, size_t, size_t, TransformerWeights& all) {
  return all;
}
template <typename T>
LayerWeights& owner(T LayerWeights::*, const TensorRow&, size_t layer, size_t, TransformerWeights& all) {
  return all.layers[layer];
}
template <typename T>
LatentWeights& owner(T LatentWeights::*, const TensorRow&, size_t layer, size_t, TransformerWeights& all) {
  return all.layers[layer].latent;
}
template <typename T>
RecurrentWeights& owner(T RecurrentWeights::*, const TensorRow&, size_t layer, size_t, TransformerWeights& all) {
  return all.layers[layer].recurrent;
}
template <typename T>
CommonBlockWeights& owner(T CommonBlockWeights::*, const TensorRow&, size_t layer, size_t, TransformerWeights& all) {
  return all.layers[layer].common;
}
template <typename T>
AdapterWeights& owner(T AdapterWeights::*, const TensorRow&, size_t layer, size_t copy, TransformerWeights& all) {
  return all.layers[layer].common.adapters[copy];
}
template <typename T>
AltUpWeights& owner(T AltUpWeights::*, const TensorRow&, size_t layer, size_t, TransformerWeights& all) {
  return all.layers[layer].altup;
}
template <typename T>
LayerInputWeights& owner(T LayerInputWeights::*, const TensorRow&, size_t layer, size_t, TransformerWeights& all) {
  return all.layers[layer].input;
}
template <typename T>
MoeWeights& owner(T MoeWeights::*, const TensorRow&, size_t layer, size_t, TransformerWeights& all) {
  return all.layers[layer].moe;
}
template <typename T>
Expert& owner(T Expert::*, const TensorRow& row, size_t layer, size_t copy, TransformerWeights& all) {
  MoeWeights& moe = all.layers[layer].moe;
  return row.copies == Copies::kExperts ? moe.experts[copy] : moe.shared;
}
template <typename T>
StreamWeights& owner(T StreamWeights::*, const TensorRow&, size_t, size_t copy, TransformerWeights& all) {
  return all.streams[copy];
}

// Finds the tensors of one file and gives them their place in one arena. Vectors are read at once, matrices listed.
class Binder {
 public:
  Binder(const ModelFile& file, const ModelConfig& config, Numerics numerics, Arena& arena)
      : file_(file), config_(config), numerics_(numerics), arena_(arena) {}

  // A tensor that the model does not have leaves its place empty.
  Status bind(const TensorRow& row, size_t layer, size_t copy, TransformerWeights& weights) {
    TRY_ASSIGN(const TensorSource source, find_source(file_, config_, row, layer, copy));
    if (!source.found()) return {};
    const auto put = [&]<typename Place>(Place place) -> Status {
      if constexpr (!std::is_same_v<Place, std::monostate>) {
        auto& at = owner(place, row, layer, copy, weights).*place;
        if constexpr (std::is_same_v<decltype(at), PackedMatrix&>) {
          at = matrix(source);
        } else if constexpr (std::is_same_v<decltype(at), LatentExpansion&>) {
          LatentExpansionSources parts = split_latent_expansion(config_, source);
          at.keys = matrix(parts.keys);
          at.values = matrix(parts.values);
          turned_.push_back(std::move(parts.turned));
        } else {
          TRY_ASSIGN(at, vector(row, source));
        }
      }
      return {};
    };
    return std::visit(put, row.place);
  }

  // REQUIRES: called once, behind the last bind(). Error: kNonFinite.
  Status pack(ThreadTeam& team) const {
    // Else all of the file would stay resident until the end.
    const Status status = packing_.run(team, [this](const TensorView& tensor) { file_.release(tensor); });
    if (status.ok()) return status;
    TRY(check_finite_weights(file_, config_, team));  // which names the element, too
    return {status.code(), file_.path() + ": " + status.message()};
  }

 private:
  PackedMatrix matrix(const TensorSource& source) {
    PackedMatrix out;
    out.type = panel_type(source, numerics_);
    out.n_rows = source.n_rows;
    out.n_cols = source.n_cols;
    out.data = arena_.allocate(packed_bytes(out.type, out.n_rows, out.n_cols));
    packing_.add(source.name, source.tensor, source.order, source.transposed, out, source.tiles);
    return out;
  }

  Result<WeightVector> vector(const TensorRow& of, const TensorSource& source) {
    const size_t n = source.n_rows * source.n_cols;
    const std::span<float> values = arena_.allocate_array<float>(padded(n)).first(n);
    TRY(read_vector(file_, config_, of, source, values));
    return WeightVector(values);
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  const Numerics numerics_;
  Arena& arena_;
  std::vector<std::unique_ptr<RowSource>> turned_;  // what packing_ reads from
  PackingList packing_;
};

void mark_quantized(InputOf input, QuantizedInputs& inputs) {
  switch (input) {
    case InputOf::kNone: return;
    case InputOf::kH: inputs.h = true; return;
    case InputOf::kAttended: inputs.attended = true; return;
    case InputOf::kGated: inputs.gated = true; return;
    case InputOf::kQLatent: inputs.q_latent = true; return;
    case InputOf::kKvLatent: inputs.kv_latent = true; return;
    case InputOf::kExpertGated: inputs.expert_gated = true; return;
    case InputOf::kSharedGated: inputs.shared_gated = true; return;
    case InputOf::kLaurel: inputs.laurel = true; return;
    case InputOf::kLayerGated: inputs.layer_gated = true; return;
    case InputOf::kMixed: inputs.mixed = true; return;
    case InputOf::kRecurrentLow: inputs.recurrent_low = true; return;
  }
}

}  // namespace

Result<WeightPlan> plan_weights(const ModelFile& file, const ModelConfig& config, Numerics numerics) {
  WeightPlan plan;
  bool tied = true;
  TRY(for_each_tensor(config, false, [&](const TensorRow& row, size_t layer, size_t copy) -> Status {
    TRY_ASSIGN(const TensorSource source, find_source(file, config, row, layer, copy));
    if (source.found()) plan.bytes += Arena::padded(padded(source.n_rows * source.n_cols) * sizeof(float));
    return {};
  }));
  TRY(for_each_tensor(config, true, [&](const TensorRow& row, size_t layer, size_t copy) -> Status {
    TRY_ASSIGN(const TensorSource source, find_source(file, config, row, layer, copy));
    if (!source.found()) return {};
    const auto count = [&](const TensorSource& part) {
      const size_t bytes = Arena::padded(packed_bytes(panel_type(part, numerics), part.n_rows, part.n_cols));
      plan.bytes += bytes;
      return bytes;
    };
    if (std::holds_alternative<LatentExpansion LatentWeights::*>(row.place)) {
      const LatentExpansionSources parts = split_latent_expansion(config, source);
      count(parts.keys);
      count(parts.values);
      plan.layer_weights += parts.keys.n_rows * parts.keys.n_cols + parts.values.n_rows * parts.values.n_cols;
      if (!panel_is_float(panel_type(parts.values, numerics))) mark_quantized(row.input, plan.quantized);
      return {};
    }
    const PanelType type = panel_type(source, numerics);
    const size_t bytes = count(source);
    const bool idle = row.copies == Copies::kExperts && copy >= config.moe.router.n_experts_active;
    if (row.input == InputOf::kNone || idle) plan.lookup_bytes += bytes;
    if (row.per_layer() && !idle) plan.layer_weights += source.n_rows * source.n_cols;
    tied &= row.role != TensorRole::kLmHead;
    if (!panel_is_float(type)) mark_quantized(row.input, plan.quantized);
    return {};
  }));
  if (tied) {
    TRY_ASSIGN(const TensorSource embed, find_source(file, config, tensor_row(TensorRole::kEmbed)));
    const PanelType type = panel_type(embed, numerics);
    if (!panel_is_float(type)) plan.quantized.h = true;
    plan.lookup_bytes -= Arena::padded(packed_bytes(type, embed.n_rows, embed.n_cols));
  }
  return plan;
}

Result<TransformerWeights> load_weights(const ModelFile& file, const ModelConfig& config, Numerics numerics,
                                        ThreadTeam& team) {
  TRY_ASSIGN(const WeightPlan planned, plan_weights(file, config, numerics));
  TransformerWeights weights;
  TRY_ASSIGN(weights.arena, Arena::create(planned.bytes));
  Binder binder(file, config, numerics, weights.arena);

  weights.layers.resize(config.n_layers);
  for (size_t l = 0; l < config.n_layers; ++l) {
    if (config.layers[l].common_layer == l) weights.layers[l].common.adapters.resize(config.common.n_uses);
    if (config.layers[l].has_experts) weights.layers[l].moe.experts.resize(config.moe.router.n_experts);
  }
  if (config.altup.used()) weights.streams.resize(config.altup.n_streams - 1);
  const auto bind = [&](const TensorRow& row, size_t layer, size_t copy) {
    return binder.bind(row, layer, copy, weights);
  };
  // Vectors side by side: between the matrices, each would have its huge page cleared by this one thread.
  TRY(for_each_tensor(config, false, bind));
  TRY(for_each_tensor(config, true, bind));
  if (weights.lm_head.empty()) weights.lm_head = weights.embed;
  TRY(binder.pack(team));
  return weights;
}

}  // namespace ibid
