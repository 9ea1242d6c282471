#include "model/transformer_weights.h"

#include <cmath>

#include "kernels/pack.h"
#include "model/packing_list.h"
#include "model/tensor_source.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

size_t padded(size_t n) { return (n + kPanelRows - 1) / kPanelRows * kPanelRows; }

PanelType panel_type(const TensorView& tensor, Numerics numerics) {
  return numerics == Numerics::kReference ? PanelType::kPF : panel_type_for(tensor.dtype);
}

// Finds the tensors of one file and gives them their place in one arena. Vectors are read at once, matrices listed.
class Binder {
 public:
  Binder(const ModelFile& file, const ModelConfig& config, Numerics numerics, Arena& arena)
      : file_(file), config_(config), numerics_(numerics), arena_(arena) {}

  // What the model does not have leaves its place empty.
  Status bind(const TensorRow& row, size_t layer, size_t expert, TransformerWeights& weights) {
    TRY_ASSIGN(const TensorSource source, find_source(file_, config_, row, layer, expert));
    if (!source.found()) return {};
    if (const auto* place = std::get_if<PackedMatrix TransformerWeights::*>(&row.place)) {
      weights.*(*place) = matrix(source);
    } else if (const auto* in_layer = std::get_if<PackedMatrix LayerWeights::*>(&row.place)) {
      weights.layers[layer].*(*in_layer) = matrix(source);
    } else if (const auto* vectors = std::get_if<WeightVector TransformerWeights::*>(&row.place)) {
      TRY_ASSIGN(weights.*(*vectors), vector(row, source));
    } else if (const auto* of_layer = std::get_if<WeightVector LayerWeights::*>(&row.place)) {
      TRY_ASSIGN(weights.layers[layer].*(*of_layer), vector(row, source));
    } else if (const auto* latent = std::get_if<PackedMatrix LatentWeights::*>(&row.place)) {
      weights.layers[layer].latent.*(*latent) = matrix(source);
    } else if (const auto* of_latent = std::get_if<WeightVector LatentWeights::*>(&row.place)) {
      TRY_ASSIGN(weights.layers[layer].latent.*(*of_latent), vector(row, source));
    } else {
      return bind_of_experts(row, source, expert, weights.layers[layer].moe);
    }
    return {};
  }

  // REQUIRES: called once, behind the last bind(). Error: kNonFinite.
  Status pack(ThreadTeam& team) const {
    // Else all of the file would stay resident until the end.
    const Status status = packing_.run(team, [this](const TensorView& tensor) { file_.release(tensor); });
    return status.ok() ? status : Status(status.code(), file_.path() + ": " + status.message());
  }

 private:
  Status bind_of_experts(const TensorRow& row, const TensorSource& source, size_t number, MoeWeights& moe) {
    Expert& expert = row.of_each_expert ? moe.experts[number] : moe.shared;
    if (const auto* place = std::get_if<PackedMatrix MoeWeights::*>(&row.place)) {
      moe.*(*place) = matrix(source);
    } else if (const auto* in_expert = std::get_if<PackedMatrix Expert::*>(&row.place)) {
      expert.*(*in_expert) = matrix(source);
    } else if (const auto* vectors = std::get_if<WeightVector MoeWeights::*>(&row.place)) {
      TRY_ASSIGN(moe.*(*vectors), vector(row, source));
    } else if (const auto* of_expert = std::get_if<WeightVector Expert::*>(&row.place)) {
      TRY_ASSIGN(expert.*(*of_expert), vector(row, source));
    }
    return {};
  }

  PackedMatrix matrix(const TensorSource& source) {
    PackedMatrix out;
    out.type = panel_type(source.tensor, numerics_);
    out.n_rows = source.n_rows;
    out.n_cols = source.n_cols;
    out.data = arena_.allocate(packed_bytes(out.type, out.n_rows, out.n_cols));
    packing_.add(source.name, source.tensor, source.order, source.transposed, out);
    return out;
  }

  Result<WeightVector> vector(const TensorRow& row, const TensorSource& source) {
    const size_t n = source.n_rows;
    const std::span<float> values = arena_.allocate_array<float>(padded(n)).first(n);
    std::vector<float> in_file_order(source.tensor.shape.elements());
    dequantize_row(source.tensor.dtype, source.tensor.data, in_file_order);
    const float missing = row.is_norm() && config_.norms_minus_one ? 1.0f : 0.0f;
    for (size_t i = 0; i < n; ++i) {
      values[i] = in_file_order[source.order.source_row(i)] + missing;
      if (!std::isfinite(values[i])) {
        return Status(ErrorCode::kNonFinite, file_.path() + ": tensor " + source.name +
                                                 " holds a value that is not finite at " + std::to_string(i));
      }
    }
    return WeightVector(values);
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  const Numerics numerics_;
  Arena& arena_;
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
  }
}

// Calls visit(row, layer, expert) for every tensor that a model may have: matrices or vectors, those of the layers
// last.
template <typename Visit>
Status for_each_tensor(const ModelConfig& config, bool matrices, Visit&& visit) {
  for (size_t l = 0; l <= config.n_layers; ++l) {
    for (const TensorRow& row : tensor_table()) {
      const bool is_part = !std::holds_alternative<std::monostate>(row.place);
      if (!is_part || row.is_matrix() != matrices || row.per_layer() != (l > 0)) continue;
      const size_t layer = l == 0 ? 0 : l - 1;
      const size_t n = row.of_each_expert && config.layers[layer].ffn_dim == 0 ? config.moe.router.n_experts : 1;
      for (size_t expert = 0; expert < n; ++expert) TRY(visit(row, layer, expert));
    }
  }
  return {};
}

}  // namespace

Result<TransformerWeights::Plan> TransformerWeights::plan(const ModelFile& file, const ModelConfig& config,
                                                          Numerics numerics) {
  Plan plan;
  bool tied = true;
  TRY(for_each_tensor(config, false, [&](const TensorRow& row, size_t layer, size_t expert) -> Status {
    TRY_ASSIGN(const TensorSource source, find_source(file, config, row, layer, expert));
    if (source.found()) plan.bytes += Arena::padded(padded(source.n_rows) * sizeof(float));
    return {};
  }));
  TRY(for_each_tensor(config, true, [&](const TensorRow& row, size_t layer, size_t expert) -> Status {
    TRY_ASSIGN(const TensorSource source, find_source(file, config, row, layer, expert));
    if (!source.found()) return {};
    const PanelType type = panel_type(source.tensor, numerics);
    const size_t bytes = Arena::padded(packed_bytes(type, source.n_rows, source.n_cols));
    plan.bytes += bytes;
    const bool idle = row.of_each_expert && expert >= config.moe.router.n_experts_active;
    if (row.input == InputOf::kNone || idle) plan.lookup_bytes += bytes;
    if (row.per_layer() && !idle) plan.layer_weights += source.n_rows * source.n_cols;
    tied &= row.role != TensorRole::kLmHead;
    if (!panel_is_float(type)) mark_quantized(row.input, plan.quantized);
    return {};
  }));
  if (tied) {
    TRY_ASSIGN(const TensorSource embed, find_source(file, config, tensor_row(TensorRole::kEmbed)));
    const PanelType type = panel_type(embed.tensor, numerics);
    if (!panel_is_float(type)) plan.quantized.h = true;
    plan.lookup_bytes -= Arena::padded(packed_bytes(type, embed.n_rows, embed.n_cols));
  }
  return plan;
}

Result<TransformerWeights> TransformerWeights::load(const ModelFile& file, const ModelConfig& config,
                                                    Numerics numerics, ThreadTeam& team) {
  TRY_ASSIGN(const Plan planned, plan(file, config, numerics));
  TransformerWeights weights;
  TRY_ASSIGN(weights.arena_, Arena::create(planned.bytes));
  Binder binder(file, config, numerics, weights.arena_);

  weights.layers.resize(config.n_layers);
  for (size_t l = 0; l < config.n_layers; ++l) {
    if (config.layers[l].ffn_dim == 0) weights.layers[l].moe.experts.resize(config.moe.router.n_experts);
  }
  const auto bind = [&](const TensorRow& row, size_t layer, size_t expert) {
    return binder.bind(row, layer, expert, weights);
  };
  // Vectors side by side: between the matrices, each would have its huge page cleared by this one thread.
  TRY(for_each_tensor(config, false, bind));
  TRY(for_each_tensor(config, true, bind));
  if (weights.lm_head.empty()) weights.lm_head = weights.embed;
  TRY(binder.pack(team));
  return weights;
}

}  // namespace ibid
