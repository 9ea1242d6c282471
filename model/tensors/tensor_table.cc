#include "model/tensors/tensor_table.h"

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace ibid {

void HeadTiles::take_heads(const std::byte* in, size_t head_bytes, std::byte* out) const {
  for (size_t head = 0; head < n_groups * of_group; ++head) {
    std::memcpy(out + head * head_bytes, in + source(head * width) / width * head_bytes, head_bytes);
  }
}

namespace {

using Config = ModelConfig;

size_t vocab_size(const Config& c, size_t) { return c.vocab_size; }
size_t context(const Config& c, size_t) { return c.trained_context; }
size_t dim(const Config& c, size_t) { return c.dim; }
size_t attention_input(const Config& c, size_t) { return c.common.used() ? 2 * c.dim : c.dim; }
size_t ffn_dim(const Config& c, size_t l) { return c.layers[l].ffn_dim; }
size_t n_experts(const Config& c, size_t) { return c.moe.router.n_experts; }
size_t expert_dim(const Config& c, size_t) { return c.moe.ffn_dim; }
size_t two_expert_dims(const Config& c, size_t) { return 2 * c.moe.ffn_dim; }
size_t shared_dim(const Config& c, size_t) { return c.moe.shared_ffn_dim; }
size_t two_shared_dims(const Config& c, size_t) { return 2 * c.moe.shared_ffn_dim; }
size_t one(const Config&, size_t) { return 1; }
size_t two_ffn_dims(const Config& c, size_t l) { return 2 * c.layers[l].ffn_dim; }
size_t heads(const Config& c, size_t) { return c.n_heads; }
size_t q_dim(const Config& c, size_t l) {
  return c.latent.used() ? c.n_heads * c.latent.key_dim() : c.q_dim(l);
}
size_t attended_dim(const Config& c, size_t l) { return c.attended_dim(l); }
size_t q_rank(const Config& c, size_t) { return c.latent.q_rank; }
size_t kv_rank(const Config& c, size_t) { return c.latent.kv_rank; }
size_t kv_a_dim(const Config& c, size_t) { return c.latent.kv_rank + c.latent.rope_dim; }
size_t kv_b_dim(const Config& c, size_t) { return c.n_heads * (c.latent.nope_dim + c.latent.value_dim); }
size_t kv_dim(const Config& c, size_t l) { return c.kv_dim(l); }
size_t two_q_dims(const Config& c, size_t l) { return 2 * c.q_dim(l); }
size_t qkv_dim(const Config& c, size_t l) { return c.q_dim(l) + 2 * c.kv_dim(l); }
size_t q_norm(const Config& c, size_t l) { return c.qk_norm == QkNorm::kPerHead ? c.layers[l].head_dim : c.q_dim(l); }
size_t k_norm(const Config& c, size_t l) { return c.qk_norm == QkNorm::kPerHead ? c.layers[l].head_dim : c.kv_dim(l); }
size_t layer_vocab(const Config& c, size_t) { return c.layer_inputs.vocab_size; }
size_t layer_input_dim(const Config& c, size_t) { return c.layer_inputs.dim; }
size_t all_layer_inputs(const Config& c, size_t) { return c.n_layers * c.layer_inputs.dim; }
size_t laurel_rank(const Config& c, size_t) { return c.laurel_rank; }
size_t streams(const Config& c, size_t) { return c.altup.n_streams; }
size_t streams_squared(const Config& c, size_t) { return c.altup.n_streams * c.altup.n_streams; }

constexpr Presence only_if(bool model_has_it, Presence then = Presence::kMust) {
  return model_has_it ? then : Presence::kNo;
}

Presence must(const Config&, size_t) { return Presence::kMust; }
// Layers that use the block of another have none of its weights.
bool attends(const Config& c, size_t l) {
  const LayerConfig& of = c.layers[l];
  return of.attends && (of.common_layer == kNoLayer || of.common_layer == l);
}
bool mixes(const Config& c, size_t l) { return c.layers[l].attends || c.layers[l].state_layer != kNoState; }
Presence of_attention(const Config& c, size_t l) { return only_if(attends(c, l)); }
Presence of_attention_may(const Config& c, size_t l) { return only_if(attends(c, l), Presence::kMay); }
Presence before(const Config& c, size_t l) { return only_if(mixes(c, l) && c.norms_of(l) != NormPlaces::kAfter); }
Presence after(const Config& c, size_t l) { return only_if(mixes(c, l) && c.norms_behind(l)); }
Presence after_ffn(const Config& c, size_t l) { return only_if(c.has_mlp(l) && c.norms_behind(l)); }
// A parallel MLP may read what attention read.
Presence before_ffn(const Config& c, size_t l) {
  return only_if(c.has_mlp(l) && c.norms_of(l) != NormPlaces::kAfter, c.parallel ? Presence::kMay : Presence::kMust);
}
Presence norm_bias(const Config& c, size_t) { return only_if(c.norm == NormKind::kLayer, Presence::kMay); }
bool is_dense(const Config& c, size_t l) { return c.layers[l].ffn_dim != 0; }
Presence mlp(const Config& c, size_t l) { return only_if(is_dense(c, l)); }
Presence mlp_may(const Config& c, size_t l) { return only_if(is_dense(c, l), Presence::kMay); }
Presence gate(const Config& c, size_t l) { return only_if(c.gated && is_dense(c, l)); }
Presence gate_bias(const Config& c, size_t l) { return only_if(c.gated && is_dense(c, l), Presence::kMay); }
bool has_experts(const Config& c, size_t l) { return c.layers[l].has_experts; }
Presence moe(const Config& c, size_t l) { return only_if(has_experts(c, l)); }
Presence moe_gate(const Config& c, size_t l) { return only_if(has_experts(c, l) && c.gated); }
Presence moe_may(const Config& c, size_t l) { return only_if(has_experts(c, l), Presence::kMay); }
Presence moe_beside(const Config& c, size_t l) { return only_if(has_experts(c, l) && is_dense(c, l)); }
Presence shared(const Config& c, size_t l) { return only_if(has_experts(c, l) && c.moe.shared_ffn_dim != 0); }
Presence shared_gate(const Config& c, size_t l) { return only_if(shared(c, l) == Presence::kMust && c.gated); }
Presence shared_gate_may(const Config& c, size_t l) {
  return only_if(shared_gate(c, l) == Presence::kMust, Presence::kMay);
}
Presence shared_may(const Config& c, size_t l) {
  return only_if(shared(c, l) == Presence::kMust, Presence::kMay);
}
bool has_qk_weights(const Config& c) { return c.qk_norm != QkNorm::kNone && c.qk_norm != QkNorm::kUnweighted; }
Presence q_norms(const Config& c, size_t l) { return only_if(attends(c, l) && has_qk_weights(c)); }
Presence k_norms(const Config& c, size_t l) {
  return only_if(attends(c, l) && has_qk_weights(c) && c.layers[l].writes_kv);
}
Presence wq(const Config& c, size_t l) { return only_if(attends(c, l) && c.latent.q_rank == 0); }
Presence plain_k(const Config& c, size_t l) {
  return only_if(attends(c, l) && !c.latent.used() && c.layers[l].writes_kv);
}
Presence plain_v(const Config& c, size_t l) {
  return only_if(plain_k(c, l) == Presence::kMust && !c.layers[l].value_is_key);
}
Presence key_bias(const Config& c, size_t l) {
  return only_if(attends(c, l) && c.layers[l].writes_kv, Presence::kMay);
}
Presence layer_inputs(const Config& c, size_t) { return only_if(c.layer_inputs.used()); }
Presence laurel(const Config& c, size_t) { return only_if(c.laurel_rank != 0); }
Presence altup(const Config& c, size_t) { return only_if(c.altup.used()); }
Presence altup_scale(const Config& c, size_t) { return only_if(c.altup.scales_active); }
Presence out_scale(const Config& c, size_t) { return only_if(c.scaled_layers, Presence::kMay); }
Presence latent(const Config& c, size_t l) { return only_if(attends(c, l) && c.latent.used()); }
Presence latent_may(const Config& c, size_t l) { return only_if(attends(c, l) && c.latent.used(), Presence::kMay); }
Presence q_latent(const Config& c, size_t l) { return only_if(attends(c, l) && c.latent.q_rank != 0); }
Presence q_latent_may(const Config& c, size_t l) {
  return only_if(attends(c, l) && c.latent.q_rank != 0, Presence::kMay);
}
Presence attention_gate(const Config& c, size_t l) { return only_if(attends(c, l) && c.attention_gate); }
Presence attention_gate_may(const Config& c, size_t l) {
  return only_if(attends(c, l) && c.attention_gate, Presence::kMay);
}
// Queries and their gates may be one tensor: of each head its query, its gate.
Presence fused_gate(const Config& c, size_t l) {
  return only_if(attends(c, l) && c.attention_gate && c.gate_beside_query, Presence::kMay);
}
Presence positions(const Config& c, size_t) { return only_if(c.learned_positions); }
Presence own_head(const Config& c, size_t) { return only_if(!c.tied, Presence::kMay); }
Presence may(const Config&, size_t) { return Presence::kMay; }

using enum TensorRole;
using Layer = LayerWeights;
using Model = TransformerWeights;
constexpr auto kAsIs = FixUp::kNone, kRotated = FixUp::kRotated, kNorm = FixUp::kNorm;
constexpr auto kRotatedNorm = FixUp::kRotatedNorm;
constexpr auto kNoInput = InputOf::kNone, kH = InputOf::kH;

// In the order of design: what exists once, then a layer from its first norm to its last.
constexpr std::array kTable = {
    TensorRow{kEmbed, "token_embd.weight", "@embed_tokens.weight", vocab_size, dim, &Model::embed, must},
    TensorRow{kPositions, "position_embd.weight", "@wpe.weight", context, dim, &Model::positions, positions},
    TensorRow{kFinalNorm, "output_norm.weight", "@norm.weight", dim, nullptr, &Model::final_norm, must,
              kNoInput, kNorm},
    TensorRow{kFinalNormBias, "output_norm.bias", "@norm.bias", dim, nullptr, &Model::final_norm_bias,
              norm_bias},
    TensorRow{kLmHead, "output.weight", "lm_head.weight|language_model.lm_head.weight", vocab_size, dim,
              &Model::lm_head, own_head, kH},
    TensorRow{kBLmHead, "output.bias", "lm_head.bias|language_model.lm_head.bias", vocab_size, nullptr,
              &Model::lm_head_bias, may},
    TensorRow{kLayerEmbed, "per_layer_token_embd.weight", "@embed_tokens_per_layer.weight", layer_vocab,
              all_layer_inputs, &Model::layer_embed, layer_inputs},
    TensorRow{kLayerInputs, "per_layer_model_proj.weight", "@per_layer_model_projection.weight", all_layer_inputs,
              dim, &Model::layer_inputs, layer_inputs, kH},
    TensorRow{kLayerInputNorm, "per_layer_proj_norm.weight", "@per_layer_projection_norm.weight", layer_input_dim,
              nullptr, &Model::layer_input_norm, layer_inputs, kNoInput, kNorm},
    TensorRow{kSpread, "altup_proj.weight", "@altup_projections.%.weight", dim, dim, &StreamWeights::spread, altup,
              kH, kAsIs, kSpread, Copies::kStreams},
    TensorRow{kGather, "altup_unembd_proj.weight", "@altup_unembed_projections.%.weight", dim, dim,
              &StreamWeights::gather, altup, kH, kAsIs, kGather, Copies::kStreams},

    TensorRow{kAttnNorm, "blk.#.attn_norm.weight", "@layers.#.input_layernorm.weight", dim, nullptr,
              &Layer::attn_norm, before, kNoInput, kNorm},
    TensorRow{kAttnNormBias, "blk.#.attn_norm.bias", "@layers.#.input_layernorm.bias", dim, nullptr,
              &Layer::attn_norm_bias, norm_bias},
    TensorRow{kWqkv, "blk.#.attn_qkv.weight", "@layers.#.self_attn.qkv_proj.weight", qkv_dim, dim, {},
              of_attention_may},
    TensorRow{kWqGate, "blk.#.attn_q.weight", "@layers.#.self_attn.q_proj.weight", two_q_dims, dim, {}, fused_gate},
    TensorRow{kWq, "blk.#.attn_q.weight", "@layers.#.self_attn.q_proj.weight", q_dim, attention_input,
              &Layer::wq, wq,
              kH, kRotated, kWqkv},
    TensorRow{kWk, "blk.#.attn_k.weight", "@layers.#.self_attn.k_proj.weight", kv_dim, attention_input, &Layer::wk,
              plain_k, kH, kRotated, kWqkv},
    TensorRow{kWv, "blk.#.attn_v.weight", "@layers.#.self_attn.v_proj.weight", kv_dim, attention_input, &Layer::wv,
              plain_v, kH, kAsIs, kWqkv},
    TensorRow{kBqGate, "blk.#.attn_q.bias", "@layers.#.self_attn.q_proj.bias", two_q_dims, nullptr, {}, fused_gate},
    TensorRow{kBqkv, "blk.#.attn_qkv.bias", "@layers.#.self_attn.qkv_proj.bias", qkv_dim, nullptr, {},
              of_attention_may},
    TensorRow{kBq, "blk.#.attn_q.bias", "@layers.#.self_attn.q_proj.bias", q_dim, nullptr, &Layer::bq, of_attention_may,
              kNoInput, kRotated, kBqkv},
    TensorRow{kBk, "blk.#.attn_k.bias", "@layers.#.self_attn.k_proj.bias", kv_dim, nullptr, &Layer::bk, key_bias,
              kNoInput, kRotated, kBqkv},
    TensorRow{kBv, "blk.#.attn_v.bias", "@layers.#.self_attn.v_proj.bias", kv_dim, nullptr, &Layer::bv, key_bias,
              kNoInput, kAsIs, kBqkv},
    TensorRow{kQNorm, "blk.#.attn_q_norm.weight", "@layers.#.self_attn.q_norm.weight", q_norm, nullptr,
              &Layer::q_norm, q_norms, kNoInput, kRotatedNorm},
    TensorRow{kKNorm, "blk.#.attn_k_norm.weight", "@layers.#.self_attn.k_norm.weight", k_norm, nullptr,
              &Layer::k_norm, k_norms, kNoInput, kRotatedNorm},
    TensorRow{kWqA, "blk.#.attn_q_a.weight", "@layers.#.self_attn.q_a_proj.weight", q_rank, dim,
              &LatentWeights::wq_a, q_latent, kH},
    TensorRow{kBqA, "blk.#.attn_q_a.bias", "@layers.#.self_attn.q_a_proj.bias", q_rank, nullptr,
              &LatentWeights::bq_a, q_latent_may},
    TensorRow{kQANorm, "blk.#.attn_q_a_norm.weight", "@layers.#.self_attn.q_a_layernorm.weight", q_rank, nullptr,
              &LatentWeights::q_a_norm, q_latent},
    TensorRow{kWqB, "blk.#.attn_q_b.weight", "@layers.#.self_attn.q_b_proj.weight", q_dim, q_rank,
              &LatentWeights::wq_b, q_latent, InputOf::kQLatent},
    TensorRow{kWkvA, "blk.#.attn_kv_a_mqa.weight", "@layers.#.self_attn.kv_a_proj_with_mqa.weight", kv_a_dim, dim,
              &LatentWeights::wkv_a, latent, kH},
    TensorRow{kBkvA, "blk.#.attn_kv_a_mqa.bias", "@layers.#.self_attn.kv_a_proj_with_mqa.bias", kv_a_dim, nullptr,
              &LatentWeights::bkv_a, latent_may},
    TensorRow{kKvANorm, "blk.#.attn_kv_a_norm.weight", "@layers.#.self_attn.kv_a_layernorm.weight", kv_rank, nullptr,
              &LatentWeights::kv_a_norm, latent},
    TensorRow{kWkvB, "blk.#.attn_kv_b.weight", "@layers.#.self_attn.kv_b_proj.weight", kv_b_dim, kv_rank,
              &LatentWeights::wkv_b, latent, InputOf::kKvLatent},
    TensorRow{kSinks, "blk.#.attn_sinks.weight", "@layers.#.self_attn.sinks", heads, nullptr, &Layer::sinks,
              of_attention_may},
    TensorRow{kWo, "blk.#.attn_output.weight", "@layers.#.self_attn.o_proj.weight", dim, attended_dim, &Layer::wo,
              of_attention, InputOf::kAttended},
    TensorRow{kBo, "blk.#.attn_output.bias", "@layers.#.self_attn.o_proj.bias", dim, nullptr, &Layer::bo,
              of_attention_may},
    TensorRow{kWAttnGate, "blk.#.attn_gate.weight", "@layers.#.self_attn.gate_proj.weight", q_dim, dim,
              &Layer::w_attn_gate, attention_gate, kH, kAsIs, kWqGate},
    TensorRow{kBAttnGate, "blk.#.attn_gate.bias", "@layers.#.self_attn.gate_proj.bias", q_dim, nullptr,
              &Layer::b_attn_gate, attention_gate_may, kNoInput, kAsIs, kBqGate},
    TensorRow{kLaurelLeft, "blk.#.laurel_l.weight", "@layers.#.laurel.linear_left.weight", laurel_rank, dim,
              &Layer::laurel_left, laurel, kH},
    TensorRow{kLaurelRight, "blk.#.laurel_r.weight", "@layers.#.laurel.linear_right.weight", dim, laurel_rank,
              &Layer::laurel_right, laurel, InputOf::kLaurel},
    TensorRow{kLaurelNorm, "blk.#.laurel_post_norm.weight", "@layers.#.laurel.post_laurel_norm.weight", dim, nullptr,
              &Layer::laurel_norm, laurel, kNoInput, kNorm},
    TensorRow{kAttnPostNorm, "blk.#.post_attention_norm.weight",
              "@layers.#.post_attention_layernorm.weight", dim, nullptr, &Layer::attn_post_norm, after,
              kNoInput, kNorm},

    TensorRow{kFfnNorm, "blk.#.ffn_norm.weight", "@layers.#.post_attention_layernorm.weight", dim, nullptr,
              &Layer::ffn_norm, before_ffn, kNoInput, kNorm},
    TensorRow{kFfnNormBias, "blk.#.ffn_norm.bias", "@layers.#.post_attention_layernorm.bias", dim, nullptr,
              &Layer::ffn_norm_bias, norm_bias},
    TensorRow{kWGateUp, "blk.#.ffn_up.weight", "@layers.#.mlp.gate_up_proj.weight", two_ffn_dims, dim, {},
              mlp_may},
    TensorRow{kWGate, "blk.#.ffn_gate.weight", "@layers.#.mlp.gate_proj.weight", ffn_dim, dim,
              &Layer::w_gate, gate, kH, kAsIs, kWGateUp},
    TensorRow{kWUp, "blk.#.ffn_up.weight", "@layers.#.mlp.up_proj.weight", ffn_dim, dim, &Layer::w_up, mlp,
              kH, kAsIs, kWGateUp},
    TensorRow{kWDown, "blk.#.ffn_down.weight", "@layers.#.mlp.down_proj.weight", dim, ffn_dim,
              &Layer::w_down, mlp, InputOf::kGated},
    TensorRow{kBGate, "blk.#.ffn_gate.bias", "@layers.#.mlp.gate_proj.bias", ffn_dim, nullptr,
              &Layer::b_gate, gate_bias},
    TensorRow{kBUp, "blk.#.ffn_up.bias", "@layers.#.mlp.up_proj.bias", ffn_dim, nullptr, &Layer::b_up, mlp_may},
    TensorRow{kBDown, "blk.#.ffn_down.bias", "@layers.#.mlp.down_proj.bias", dim, nullptr, &Layer::b_down,
              mlp_may},
    TensorRow{kFfnPostNorm, "blk.#.post_ffw_norm.weight", "@layers.#.post_feedforward_layernorm.weight",
              dim, nullptr, &Layer::ffn_post_norm, after_ffn, kNoInput, kNorm},
    TensorRow{kLayerGate, "blk.#.inp_gate.weight", "@layers.#.per_layer_input_gate.weight", layer_input_dim, dim,
              &LayerInputWeights::gate, layer_inputs, kH},
    TensorRow{kLayerOut, "blk.#.proj.weight", "@layers.#.per_layer_projection.weight", dim, layer_input_dim,
              &LayerInputWeights::out, layer_inputs, InputOf::kLayerGated},
    TensorRow{kLayerPostNorm, "blk.#.post_norm.weight", "@layers.#.post_per_layer_input_norm.weight", dim, nullptr,
              &LayerInputWeights::post_norm, layer_inputs, kNoInput, kNorm},
    TensorRow{kOutScale, "blk.#.layer_output_scale.weight", "@layers.#.layer_scalar", one, nullptr,
              &Layer::out_scale, out_scale},
    TensorRow{kAltUpRouter, "blk.#.altup_router.weight", "@layers.#.altup.modality_router.weight", streams, dim,
              &AltUpWeights::router, altup},
    TensorRow{kAltUpRouterNorm, "blk.#.altup_router_norm.weight", "@layers.#.altup.router_norm.weight", dim, nullptr,
              &AltUpWeights::router_norm, altup, kNoInput, kNorm},
    TensorRow{kAltUpPredict, "blk.#.altup_predict_coef.weight", "@layers.#.altup.prediction_coefs.weight",
              streams_squared, streams, &AltUpWeights::predict, altup},
    TensorRow{kAltUpCorrect, "blk.#.altup_correct_coef.weight", "@layers.#.altup.correction_coefs.weight", streams,
              streams, &AltUpWeights::correct, altup},
    TensorRow{kAltUpScale, "blk.#.altup_correct_scale.weight", "@layers.#.altup.correct_output_scale", dim, nullptr,
              &AltUpWeights::active_scale, altup_scale},

    TensorRow{kRouter, "blk.#.ffn_gate_inp.weight",
              "@layers.#.mlp.gate.weight|@layers.#.block_sparse_moe.gate.weight|@layers.#.mlp.router.weight|"
              "@layers.#.block_sparse_moe.router.layer.weight|@layers.#.mlp.router.gate.weight|"
              "@layers.#.router.proj.weight",
              n_experts, dim, &MoeWeights::router, moe, kH},
    TensorRow{kBRouter, "blk.#.ffn_gate_inp.bias", "@layers.#.mlp.router.bias", n_experts, nullptr,
              &MoeWeights::router_bias, moe_may},
    TensorRow{kChoiceBias, "blk.#.exp_probs_b.bias|blk.#.exp_probs_b",
              "@layers.#.mlp.gate.e_score_correction_bias|@layers.#.mlp.moe_statics.e_score_correction_bias|"
              "@layers.#.mlp.expert_bias",
              n_experts, nullptr, &MoeWeights::choice_bias, moe_may},
    TensorRow{kRouterScale, "blk.#.ffn_gate_inp.scale", "@layers.#.router.scale", dim, nullptr,
              &MoeWeights::router_scale, moe_beside},
    TensorRow{kExpertScale, "blk.#.ffn_down_exps.scale", "@layers.#.router.per_expert_scale", n_experts, nullptr,
              &MoeWeights::expert_scale, moe_may},
    TensorRow{kMoeNorm, "blk.#.pre_ffw_norm_2.weight", "@layers.#.pre_feedforward_layernorm_2.weight", dim, nullptr,
              &MoeWeights::norm, moe_beside, kNoInput, kNorm},
    TensorRow{kMoePostNorm, "blk.#.post_ffw_norm_2.weight", "@layers.#.post_feedforward_layernorm_2.weight", dim,
              nullptr, &MoeWeights::post_norm, moe_beside, kNoInput, kNorm},
    TensorRow{kMlpPostNorm, "blk.#.post_ffw_norm_1.weight", "@layers.#.post_feedforward_layernorm_1.weight", dim,
              nullptr, &MoeWeights::mlp_post_norm, moe_beside, kNoInput, kNorm},
    TensorRow{kSharedRouter, "blk.#.ffn_gate_inp_shexp.weight", "@layers.#.mlp.shared_expert_gate.weight", one, dim,
              &MoeWeights::shared_gate, shared_may, kH},
    TensorRow{kSharedGateUp, "blk.#.ffn_gate_up_shexp.weight", "@layers.#.shared_mlp.input_linear.weight",
              two_shared_dims, dim, {}, shared_may},
    TensorRow{kSharedGate, "blk.#.ffn_gate_shexp.weight",
              "@layers.#.mlp.shared_experts.gate_proj.weight|@layers.#.mlp.shared_expert.gate_proj.weight",
              shared_dim, dim, &Expert::w_gate, shared_gate, kH, kAsIs, kSharedGateUp},
    TensorRow{kSharedUp, "blk.#.ffn_up_shexp.weight",
              "@layers.#.mlp.shared_experts.up_proj.weight|@layers.#.mlp.shared_expert.up_proj.weight", shared_dim,
              dim, &Expert::w_up, shared, kH, kAsIs, kSharedGateUp},
    TensorRow{kSharedDown, "blk.#.ffn_down_shexp.weight",
              "@layers.#.mlp.shared_experts.down_proj.weight|@layers.#.mlp.shared_expert.down_proj.weight|"
              "@layers.#.shared_mlp.output_linear.weight",
              dim, shared_dim, &Expert::w_down, shared, InputOf::kSharedGated},
    TensorRow{kBSharedGate, "blk.#.ffn_gate_shexp.bias", "@layers.#.mlp.shared_experts.gate_proj.bias", shared_dim,
              nullptr, &Expert::b_gate, shared_gate_may},
    TensorRow{kBSharedUp, "blk.#.ffn_up_shexp.bias", "@layers.#.mlp.shared_experts.up_proj.bias", shared_dim, nullptr,
              &Expert::b_up, shared_may},
    TensorRow{kBSharedDown, "blk.#.ffn_down_shexp.bias", "@layers.#.mlp.shared_experts.down_proj.bias", dim, nullptr,
              &Expert::b_down, shared_may},

    TensorRow{kExpertGateUp, "blk.#.ffn_gate_up_exps.weight",
              "@layers.#.mlp.experts.gate_up_proj|@layers.#.mlp.experts.gate_up_proj_blocks|"
              "@layers.#.block_sparse_moe.input_linear.weight|@layers.#.experts.gate_up_proj", two_expert_dims,
              dim, {}, moe_may, kNoInput, kAsIs, kExpertGateUp, Copies::kExperts},
    TensorRow{kExpertGate, "blk.#.ffn_gate_exps.weight|blk.#.ffn_gate.%.weight",
              "@layers.#.mlp.experts.%.gate_proj.weight|@layers.#.block_sparse_moe.experts.%.w1.weight", expert_dim,
              dim, &Expert::w_gate, moe_gate, kH, kAsIs, kExpertGateUp, Copies::kExperts},
    TensorRow{kExpertUp, "blk.#.ffn_up_exps.weight|blk.#.ffn_up.%.weight",
              "@layers.#.mlp.experts.%.up_proj.weight|@layers.#.block_sparse_moe.experts.%.w3.weight", expert_dim,
              dim, &Expert::w_up, moe, kH, kAsIs, kExpertGateUp, Copies::kExperts},
    TensorRow{kExpertDown, "blk.#.ffn_down_exps.weight|blk.#.ffn_down.%.weight",
              "@layers.#.mlp.experts.%.down_proj.weight|@layers.#.block_sparse_moe.experts.%.w2.weight|"
              "@layers.#.mlp.experts.down_proj|@layers.#.mlp.experts.down_proj_blocks|"
              "@layers.#.block_sparse_moe.output_linear.weight|@layers.#.experts.down_proj",
              dim, expert_dim, &Expert::w_down, moe, InputOf::kExpertGated, kAsIs, kExpertDown, Copies::kExperts},
    TensorRow{kBExpertGateUp, "blk.#.ffn_gate_up_exps.bias", "@layers.#.mlp.experts.gate_up_proj_bias",
              two_expert_dims, nullptr, {}, moe_may, kNoInput, kAsIs, kBExpertGateUp, Copies::kExperts},
    TensorRow{kBExpertGate, "blk.#.ffn_gate_exps.bias", "@layers.#.mlp.experts.gate_proj_bias", expert_dim, nullptr,
              &Expert::b_gate, moe_may, kNoInput, kAsIs, kBExpertGateUp, Copies::kExperts},
    TensorRow{kBExpertUp, "blk.#.ffn_up_exps.bias", "@layers.#.mlp.experts.up_proj_bias", expert_dim, nullptr,
              &Expert::b_up, moe_may, kNoInput, kAsIs, kBExpertGateUp, Copies::kExperts},
    TensorRow{kBExpertDown, "blk.#.ffn_down_exps.bias", "@layers.#.mlp.experts.down_proj_bias", dim, nullptr,
              &Expert::b_down, moe_may, kNoInput, kAsIs, kBExpertDown, Copies::kExperts},
};

}  // namespace

std::span<const TensorRow> tensor_table() {
  static const std::vector<TensorRow> all = [] {
    std::vector<TensorRow> rows(kTable.begin(), kTable.end());
    rows.insert(rows.end(), recurrent_tensors().begin(), recurrent_tensors().end());
    return rows;
  }();
  return all;
}

size_t n_copies(const TensorRow& row, const ModelConfig& config, size_t layer) {
  switch (row.copies) {
    case Copies::kOne: return 1;
    case Copies::kExperts: return config.layers[layer].has_experts ? config.moe.router.n_experts : 0;
    case Copies::kAdapters: return config.layers[layer].common_layer == layer ? config.common.n_uses : 0;
    case Copies::kStreams: return config.altup.used() ? config.altup.n_streams - 1 : 0;
  }
  return 0;
}

const TensorRow& tensor_row(TensorRole role) {
  for (const TensorRow& row : tensor_table()) {
    if (row.role == role) return row;
  }
  CHECK(false) << "role " << static_cast<int>(role) << " is not in the tensor table";
  return kTable[0];
}

}  // namespace ibid
