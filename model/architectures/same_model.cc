#include "model/architectures/gguf_conversion.h"

#include <algorithm>

#include "kernels/ops/rope.h"

namespace ibid {
namespace {

// Compares the RoPE tables that two rules give, for 1 position and for the trained context.
bool same_rope(const ModelConfig& a, size_t rope_a, const ModelConfig& b, size_t rope_b) {
  if (rope_a == kNoRope || rope_b == kNoRope) return rope_a == rope_b;
  for (const size_t context : {size_t{1}, a.trained_context}) {
    const RopeTable of_a = make_rope_table(a.ropes[rope_a], context), of_b = make_rope_table(b.ropes[rope_b], context);
    if (of_a.inv_freq != of_b.inv_freq || of_a.magnitude != of_b.magnitude) return false;
  }
  return true;
}

bool same_activation(const Activation& a, const Activation& b) {
  return a.kind == b.kind && a.alpha_p == b.alpha_p && a.alpha_n == b.alpha_n && a.beta == b.beta && a.eps == b.eps;
}

// The k largest of E softmax scores have a sum of at least k / E, so limits below that have no effect and may differ.
bool same_bound(const RouterRule& a, const RouterRule& b) {
  const float least = static_cast<float>(a.n_experts_active) / static_cast<float>(std::max<size_t>(a.n_experts, 1));
  const bool never_met =
      a.scores == RouterScores::kSoftmax && a.n_groups == 1 && a.smallest_sum < least / 2 && b.smallest_sum < least / 2;
  return never_met || a.smallest_sum == b.smallest_sum;
}

bool same_router(const RouterRule& a, const RouterRule& b) {
  return a.scores == b.scores && a.n_experts == b.n_experts && a.n_experts_active == b.n_experts_active &&
         a.n_groups == b.n_groups && a.n_groups_active == b.n_groups_active && a.normalized == b.normalized &&
         same_bound(a, b) && a.weight_scale == b.weight_scale;
}

bool same_experts(const MoeRule& a, const MoeRule& b) {
  return a.ffn_dim == b.ffn_dim && a.shared_ffn_dim == b.shared_ffn_dim &&
         same_activation(a.activation, b.activation) && a.weighs_inputs == b.weighs_inputs && a.gated == b.gated &&
         a.swiglu_limit == b.swiglu_limit && a.swiglu_alpha == b.swiglu_alpha;
}

bool same_latent(const LatentAttention& a, const LatentAttention& b) {
  return a.q_rank == b.q_rank && a.kv_rank == b.kv_rank && a.nope_dim == b.nope_dim && a.rope_dim == b.rope_dim &&
         a.value_dim == b.value_dim && a.adjacent_pairs == b.adjacent_pairs;
}

// Compares all properties except those that only describe how the file stores the weights.
bool same_recurrent(const RecurrentMixer& a, const RecurrentMixer& b) {
  return a.rule == b.rule && a.n_heads == b.n_heads && a.n_key_heads == b.n_key_heads && a.key_dim == b.key_dim &&
         a.value_dim == b.value_dim && a.n_taps == b.n_taps && a.step_rank == b.step_rank && a.low_rank == b.low_rank &&
         a.gate == b.gate && a.norm_parts == b.norm_parts && a.norm_is_shared == b.norm_is_shared &&
         a.norm_eps == b.norm_eps && a.rate_scale == b.rate_scale && a.tiled_heads == b.tiled_heads;
}

bool same_steps(const RecurrentMixer& a, const RecurrentMixer& b) {
  return a.step_low == b.step_low && a.step_high == b.step_high;
}

bool same_factors(const ModelConfig& a, const ModelConfig& b) {
  const RecurrentMixer &x = a.recurrent, &y = b.recurrent;
  return a.embed_scale == b.embed_scale && a.residual_scale == b.residual_scale && a.gate_scale == b.gate_scale &&
         a.logit_scale == b.logit_scale && a.logit_softcap == b.logit_softcap &&
         a.attention_residual == b.attention_residual && a.recurrent_residual == b.recurrent_residual &&
         a.mlp_residual == b.mlp_residual && x.z_scale == y.z_scale && x.v_scale == y.v_scale &&
         x.k_scale == y.k_scale && x.q_scale == y.q_scale && x.number_scale == y.number_scale;
}

template <typename Same>
bool all_layers(const ModelConfig& a, const ModelConfig& b, Same&& same) {
  return std::ranges::equal(a.layers, b.layers, same);
}

}  // namespace

Status check_same_model(const ModelConfig& wanted, const ModelConfig& got, const std::string& path) {
  const ModelConfig &a = wanted, &b = got;
  struct Part {
    const char* name;
    bool same;
  };
  const bool same_growth =
      a.query_growth == b.query_growth && (a.query_growth == 0 || a.query_growth_step == b.query_growth_step) &&
      a.query_growth_shift == b.query_growth_shift && a.query_growth_without_rope == b.query_growth_without_rope;
  const auto same_window = [](const LayerConfig& x, const LayerConfig& y) {
    return x.window == y.window && x.chunked == y.chunked;
  };
  const auto same_mlp = [](const LayerConfig& x, const LayerConfig& y) {
    return x.ffn_dim == y.ffn_dim && x.has_experts == y.has_experts && x.gate_cutoff == y.gate_cutoff;
  };
  const auto same_kind = [](const LayerConfig& x, const LayerConfig& y) {
    return x.attends == y.attends && x.state_layer == y.state_layer && x.blocks == y.blocks &&
           x.common_layer == y.common_layer;
  };
  const auto same_heads = [](const LayerConfig& x, const LayerConfig& y) {
    if (!x.attends) return true;
    return x.n_kv_heads == y.n_kv_heads && x.head_dim == y.head_dim && x.writes_kv == y.writes_kv &&
           x.kv_layer == y.kv_layer && x.value_is_key == y.value_is_key;
  };
  const bool same_streams = a.altup.n_streams == b.altup.n_streams && a.altup.active == b.altup.active &&
                            a.altup.scales_active == b.altup.scales_active;
  const auto same_function = [](const LayerConfig& x, const LayerConfig& y) {
    return same_activation(x.activation, y.activation);
  };
  const auto rotated_alike = [&](const LayerConfig& x, const LayerConfig& y) {
    return same_rope(a, x.rope, b, y.rope);
  };
  const Part parts[] = {
      {"shape", a.vocab_size == b.vocab_size && a.n_layers == b.n_layers && a.dim == b.dim && a.n_heads == b.n_heads &&
                    a.trained_context == b.trained_context},
      {"layer types", all_layers(a, b, same_kind)},
      {"recurrent layers", same_recurrent(a.recurrent, b.recurrent) && a.recurrent_norms == b.recurrent_norms},
      {"step limits", same_steps(a.recurrent, b.recurrent)},
      {"head counts and sizes", all_layers(a, b, same_heads)},
      {"parts outside the layers", a.layer_inputs.dim == b.layer_inputs.dim && a.laurel_rank == b.laurel_rank &&
                                       same_streams && a.scaled_layers == b.scaled_layers},
      {"norms", a.norm == b.norm && a.norm_places == b.norm_places && a.norm_eps == b.norm_eps},
      {"query, key and value norms",
       a.qk_norm == b.qk_norm && a.value_norm == b.value_norm && a.qk_norm_after_rope == b.qk_norm_after_rope},
      {"attention scale", a.attention_scale == b.attention_scale && a.attention_softcap == b.attention_softcap &&
                              a.scale_by_depth == b.scale_by_depth},
      {"query growth", same_growth},
      {"latent attention", same_latent(a.latent, b.latent)},
      {"attention gate", a.attention_gate == b.attention_gate},
      {"learned positions", a.learned_positions == b.learned_positions},
      {"rope", all_layers(a, b, rotated_alike)},
      {"windows", all_layers(a, b, same_window) && a.attention_chunk == b.attention_chunk},
      {"activation", all_layers(a, b, same_function) && a.gated == b.gated},
      {"parallel attention and MLP", a.parallel == b.parallel},
      {"layers with experts", all_layers(a, b, same_mlp)},
      {"router", same_router(a.moe.router, b.moe.router)},
      {"experts", same_experts(a.moe, b.moe)},
      {"factors", same_factors(a, b)},
      {"pooling", a.pooling == b.pooling},
  };
  for (const Part& part : parts) {
    if (part.same) continue;
    return {ErrorCode::kUnsupported, path + ": cannot be converted: GGUF cannot represent this model's " + part.name +
                                         " (architecture '" + b.architecture + "')"};
  }
  return {};
}

}  // namespace ibid
