#include "model/transformer_weights.h"

#include <cmath>

#include "kernels/pack.h"
#include "model/packing_list.h"
#include "model/tensor_table.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

PanelType panel_type(const TensorView& tensor, Numerics numerics) {
  return numerics == Numerics::kReference ? PanelType::kPF : panel_type_for(tensor.dtype);
}

// Finds the tensors of one file and gives them their place in one arena. Vectors are read at once, matrices listed.
class Binder {
 public:
  Binder(const ModelFile& file, const ModelConfig& config, Numerics numerics, Arena& arena)
      : file_(file), config_(config), numerics_(numerics), arena_(arena) {}

  // An optional tensor that is absent leaves `out` empty.
  Status matrix(TensorRole role, size_t layer, PackedMatrix& out) {
    TRY_ASSIGN(const TensorView* const tensor, find_checked(file_, config_, role, layer));
    if (tensor == nullptr) return {};
    out.type = panel_type(*tensor, numerics_);
    out.n_rows = tensor->shape[0];
    out.n_cols = tensor->shape[1];
    out.data = arena_.allocate(packed_bytes(out.type, out.n_rows, out.n_cols));
    packing_.add(*tensor, row_order(role), out);
    return {};
  }

  Status vector(TensorRole role, size_t layer, WeightVector& out) {
    TRY_ASSIGN(const TensorView* const tensor, find_checked(file_, config_, role, layer));
    if (tensor == nullptr) return {};
    const size_t n = tensor->shape[0];
    const size_t padded = (n + kPanelRows - 1) / kPanelRows * kPanelRows;
    const std::span<float> values = arena_.allocate_array<float>(padded).first(n);
    std::vector<float> in_file_order(n);
    dequantize_row(tensor->dtype, tensor->data, in_file_order);
    const RowOrder order = row_order(role);
    for (size_t i = 0; i < n; ++i) {
      values[i] = in_file_order[order.source_row(i)];
      if (!std::isfinite(values[i])) {
        return {ErrorCode::kNonFinite, file_.path() + ": tensor " + tensor_name(file_, role, layer) +
                                           " holds a value that is not finite at " + std::to_string(i)};
      }
    }
    out = values;
    return {};
  }

  // REQUIRES: called once, behind the last matrix().
  void pack(ThreadTeam& team) const {
    // Else all of the file would stay resident until the end.
    packing_.run(team, [this](const TensorView& tensor) { file_.release(tensor); });
  }

 private:
  RowOrder row_order(TensorRole role) const {
    const bool rotated = role == TensorRole::kWq || role == TensorRole::kWk || role == TensorRole::kBq ||
                         role == TensorRole::kBk;
    if (!rotated || !config_.qk_rows_permuted) return {};
    return {RowOrder::kUnpermuteRope, config_.head_dim};
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  const Numerics numerics_;
  Arena& arena_;
  PackingList packing_;
};

// The input that a matrix of this role reads. The embedding is only looked up; as a tied head it reads h.
void mark_quantized(TensorRole role, QuantizedInputs& inputs) {
  switch (role) {
    case TensorRole::kEmbed: return;
    case TensorRole::kWo: inputs.attended = true; return;
    case TensorRole::kWDown: inputs.gated = true; return;
    default: inputs.h = true;
  }
}

Status bind_vectors(Binder& bind, size_t l, LayerWeights& w) {
  using enum TensorRole;
  TRY(bind.vector(kAttnNorm, l, w.attn_norm));
  TRY(bind.vector(kBq, l, w.bq));
  TRY(bind.vector(kBk, l, w.bk));
  TRY(bind.vector(kBv, l, w.bv));
  TRY(bind.vector(kBo, l, w.bo));
  TRY(bind.vector(kFfnNorm, l, w.ffn_norm));
  TRY(bind.vector(kBGate, l, w.b_gate));
  TRY(bind.vector(kBUp, l, w.b_up));
  return bind.vector(kBDown, l, w.b_down);
}

Status bind_matrices(Binder& bind, size_t l, LayerWeights& w) {
  using enum TensorRole;
  TRY(bind.matrix(kWq, l, w.wq));
  TRY(bind.matrix(kWk, l, w.wk));
  TRY(bind.matrix(kWv, l, w.wv));
  TRY(bind.matrix(kWo, l, w.wo));
  TRY(bind.matrix(kWGate, l, w.w_gate));
  TRY(bind.matrix(kWUp, l, w.w_up));
  return bind.matrix(kWDown, l, w.w_down);
}

}  // namespace

Result<TransformerWeights::Plan> TransformerWeights::plan(const ModelFile& file, const ModelConfig& config,
                                                          Numerics numerics) {
  Plan plan;
  bool tied = true;
  for (const TensorRow& row : tensor_table()) {
    const bool per_layer = std::string_view(row.gguf).find('#') != std::string_view::npos;
    for (size_t l = 0; l < (per_layer ? config.n_layers : 1); ++l) {
      TRY_ASSIGN(const TensorView* const tensor, find_checked(file, config, row.role, l));
      if (tensor == nullptr) continue;
      if (row.cols == nullptr) {
        plan.bytes += Arena::padded((tensor->shape[0] + kPanelRows) * sizeof(float));
        continue;
      }
      const PanelType type = panel_type(*tensor, numerics);
      plan.bytes += Arena::padded(packed_bytes(type, tensor->shape[0], tensor->shape[1]));
      tied &= row.role != TensorRole::kLmHead;
      if (!panel_is_float(type)) mark_quantized(row.role, plan.quantized);
    }
  }
  if (tied) {
    TRY_ASSIGN(const TensorView* const embed, find_checked(file, config, TensorRole::kEmbed));
    if (!panel_is_float(panel_type(*embed, numerics))) plan.quantized.h = true;
  }
  return plan;
}

Result<TransformerWeights> TransformerWeights::load(const ModelFile& file, const ModelConfig& config,
                                                    Numerics numerics, ThreadTeam& team) {
  TRY_ASSIGN(const Plan planned, plan(file, config, numerics));
  TransformerWeights weights;
  TRY_ASSIGN(weights.arena_, Arena::create(planned.bytes));
  Binder bind(file, config, numerics, weights.arena_);

  // Vectors side by side: between the matrices, each would have its huge page cleared by this one thread.
  weights.layers.resize(config.n_layers);
  TRY(bind.vector(TensorRole::kFinalNorm, 0, weights.final_norm));
  for (size_t l = 0; l < config.n_layers; ++l) TRY(bind_vectors(bind, l, weights.layers[l]));
  TRY(bind.matrix(TensorRole::kEmbed, 0, weights.embed));
  TRY(bind.matrix(TensorRole::kLmHead, 0, weights.lm_head));
  if (weights.lm_head.empty()) weights.lm_head = weights.embed;
  for (size_t l = 0; l < config.n_layers; ++l) TRY(bind_matrices(bind, l, weights.layers[l]));
  bind.pack(team);
  return weights;
}

}  // namespace ibid
