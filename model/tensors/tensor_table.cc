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
size_t q_dim(const Config& c, size_t l) { return c.latent.used() ? c.n_heads * c.latent.key_dim() : c.q_dim(l); }
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

bool always(const Config&, size_t) { return true; }
// True if the layer stores weights of attention: it attends, and does not use a shared block that another layer stores.
bool attends(const Config& c, size_t l) {
  const LayerConfig& of = c.layers[l];
  return of.attends && (of.common_layer == kNoLayer || of.common_layer == l);
}
bool mixes(const Config& c, size_t l) { return c.layers[l].attends || c.layers[l].state_layer != kNoState; }
bool before(const Config& c, size_t l) { return mixes(c, l) && c.norms_of(l) != NormPlaces::kAfter; }
bool after(const Config& c, size_t l) { return mixes(c, l) && c.has_post_norms(l); }
bool after_ffn(const Config& c, size_t l) { return c.has_mlp(l) && c.has_post_norms(l); }
// Presence of the norm before the MLP. A parallel MLP may share attention's norm instead.
Presence before_ffn(const Config& c, size_t l) {
  if (!c.has_mlp(l) || c.norms_of(l) == NormPlaces::kAfter) return Presence::kNo;
  return c.parallel ? Presence::kMay : Presence::kMust;
}
bool norm_bias(const Config& c, size_t) { return c.norm == NormKind::kLayer; }
bool mlp(const Config& c, size_t l) { return c.layers[l].ffn_dim != 0; }
bool gate(const Config& c, size_t l) { return c.gated && mlp(c, l); }
bool moe(const Config& c, size_t l) { return c.layers[l].has_experts; }
bool moe_gate(const Config& c, size_t l) { return moe(c, l) && c.gated; }
bool moe_beside(const Config& c, size_t l) { return moe(c, l) && mlp(c, l); }
bool shared(const Config& c, size_t l) { return moe(c, l) && c.moe.shared_ffn_dim != 0; }
bool shared_gate(const Config& c, size_t l) { return shared(c, l) && c.gated; }
bool q_norms(const Config& c, size_t l) {
  return attends(c, l) && c.qk_norm != QkNorm::kNone && c.qk_norm != QkNorm::kUnweighted;
}
bool k_norms(const Config& c, size_t l) { return q_norms(c, l) && c.layers[l].writes_kv; }
bool wq(const Config& c, size_t l) { return attends(c, l) && c.latent.q_rank == 0; }
bool key_bias(const Config& c, size_t l) { return attends(c, l) && c.layers[l].writes_kv; }
bool plain_k(const Config& c, size_t l) { return key_bias(c, l) && !c.latent.used(); }
bool plain_v(const Config& c, size_t l) { return plain_k(c, l) && !c.layers[l].value_is_key; }
bool layer_inputs(const Config& c, size_t) { return c.layer_inputs.used(); }
bool laurel(const Config& c, size_t) { return c.laurel_rank != 0; }
bool altup(const Config& c, size_t) { return c.altup.used(); }
bool altup_scale(const Config& c, size_t) { return c.altup.scales_active; }
bool out_scale(const Config& c, size_t) { return c.scaled_layers; }
bool latent(const Config& c, size_t l) { return attends(c, l) && c.latent.used(); }
bool q_latent(const Config& c, size_t l) { return attends(c, l) && c.latent.q_rank != 0; }
bool attention_gate(const Config& c, size_t l) { return attends(c, l) && c.attention_gate; }
// Queries and their gates may be one fused tensor: for each head its query, then its gate.
bool fused_gate(const Config& c, size_t l) { return attention_gate(c, l) && c.gate_beside_query; }
bool positions(const Config& c, size_t) { return c.learned_positions; }
bool own_head(const Config& c, size_t) { return !c.tied; }

using enum TensorRole;
using Layer = LayerWeights;
using Model = TransformerWeights;
constexpr auto kAsIs = FixUp::kNone, kRotated = FixUp::kRotated, kNorm = FixUp::kNorm;
constexpr auto kRotatedNorm = FixUp::kRotatedNorm;
constexpr auto kNoInput = InputOf::kNone, kH = InputOf::kH;

// In the order of the forward pass: tensors of the model, then those of a layer from first to last norm.
constexpr std::array kTable = {
    TensorRow{kEmbed, "token_embd.weight", "@embed_tokens.weight", vocab_size, dim, &Model::embed, must<always>},
    TensorRow{kPositions, "position_embd.weight", "@wpe.weight", context, dim, &Model::positions, must<positions>},
    TensorRow{kFinalNorm, "output_norm.weight", "@norm.weight", dim, nullptr, &Model::final_norm, must<always>,
              kNoInput, kNorm},
    TensorRow{kFinalNormBias, "output_norm.bias", "@norm.bias", dim, nullptr, &Model::final_norm_bias, may<norm_bias>},
    TensorRow{kLmHead, "output.weight", "lm_head.weight|language_model.lm_head.weight", vocab_size, dim,
              &Model::lm_head, may<own_head>, kH},
    TensorRow{kBLmHead, "output.bias", "lm_head.bias|language_model.lm_head.bias", vocab_size, nullptr,
              &Model::lm_head_bias, may<always>},
    TensorRow{kLayerEmbed, "per_layer_token_embd.weight", "@embed_tokens_per_layer.weight", layer_vocab,
              all_layer_inputs, &Model::layer_embed, must<layer_inputs>},
    TensorRow{kLayerInputs, "per_layer_model_proj.weight", "@per_layer_model_projection.weight", all_layer_inputs, dim,
              &Model::layer_inputs, must<layer_inputs>, kH},
    TensorRow{kLayerInputNorm, "per_layer_proj_norm.weight", "@per_layer_projection_norm.weight", layer_input_dim,
              nullptr, &Model::layer_input_norm, must<layer_inputs>, kNoInput, kNorm},
    TensorRow{kSpread, "altup_proj.weight", "@altup_projections.%.weight", dim, dim, &StreamWeights::spread,
              must<altup>, kH, kAsIs, kSpread, Copies::kStreams},
    TensorRow{kGather, "altup_unembd_proj.weight", "@altup_unembed_projections.%.weight", dim, dim,
              &StreamWeights::gather, must<altup>, kH, kAsIs, kGather, Copies::kStreams},

    TensorRow{kAttnNorm, "blk.#.attn_norm.weight", "@layers.#.input_layernorm.weight", dim, nullptr, &Layer::attn_norm,
              must<before>, kNoInput, kNorm},
    TensorRow{kAttnNormBias, "blk.#.attn_norm.bias", "@layers.#.input_layernorm.bias", dim, nullptr,
              &Layer::attn_norm_bias, may<norm_bias>},
    TensorRow{kWqkv, "blk.#.attn_qkv.weight", "@layers.#.self_attn.qkv_proj.weight", qkv_dim, dim, {}, may<attends>},
    TensorRow{
        kWqGate, "blk.#.attn_q.weight", "@layers.#.self_attn.q_proj.weight", two_q_dims, dim, {}, may<fused_gate>},
    TensorRow{kWq, "blk.#.attn_q.weight", "@layers.#.self_attn.q_proj.weight", q_dim, attention_input, &Layer::wq,
              must<wq>, kH, kRotated, kWqkv},
    TensorRow{kWk, "blk.#.attn_k.weight", "@layers.#.self_attn.k_proj.weight", kv_dim, attention_input, &Layer::wk,
              must<plain_k>, kH, kRotated, kWqkv},
    TensorRow{kWv, "blk.#.attn_v.weight", "@layers.#.self_attn.v_proj.weight", kv_dim, attention_input, &Layer::wv,
              must<plain_v>, kH, kAsIs, kWqkv},
    TensorRow{
        kBqGate, "blk.#.attn_q.bias", "@layers.#.self_attn.q_proj.bias", two_q_dims, nullptr, {}, may<fused_gate>},
    TensorRow{kBqkv, "blk.#.attn_qkv.bias", "@layers.#.self_attn.qkv_proj.bias", qkv_dim, nullptr, {}, may<attends>},
    TensorRow{kBq, "blk.#.attn_q.bias", "@layers.#.self_attn.q_proj.bias", q_dim, nullptr, &Layer::bq, may<attends>,
              kNoInput, kRotated, kBqkv},
    TensorRow{kBk, "blk.#.attn_k.bias", "@layers.#.self_attn.k_proj.bias", kv_dim, nullptr, &Layer::bk, may<key_bias>,
              kNoInput, kRotated, kBqkv},
    TensorRow{kBv, "blk.#.attn_v.bias", "@layers.#.self_attn.v_proj.bias", kv_dim, nullptr, &Layer::bv, may<key_bias>,
              kNoInput, kAsIs, kBqkv},
    TensorRow{kQNorm, "blk.#.attn_q_norm.weight", "@layers.#.self_attn.q_norm.weight", q_norm, nullptr, &Layer::q_norm,
              must<q_norms>, kNoInput, kRotatedNorm},
    TensorRow{kKNorm, "blk.#.attn_k_norm.weight", "@layers.#.self_attn.k_norm.weight", k_norm, nullptr, &Layer::k_norm,
              must<k_norms>, kNoInput, kRotatedNorm},
    TensorRow{kWqA, "blk.#.attn_q_a.weight", "@layers.#.self_attn.q_a_proj.weight", q_rank, dim, &LatentWeights::wq_a,
              must<q_latent>, kH},
    TensorRow{kBqA, "blk.#.attn_q_a.bias", "@layers.#.self_attn.q_a_proj.bias", q_rank, nullptr, &LatentWeights::bq_a,
              may<q_latent>},
    TensorRow{kQANorm, "blk.#.attn_q_a_norm.weight", "@layers.#.self_attn.q_a_layernorm.weight", q_rank, nullptr,
              &LatentWeights::q_a_norm, must<q_latent>},
    TensorRow{kWqB, "blk.#.attn_q_b.weight", "@layers.#.self_attn.q_b_proj.weight", q_dim, q_rank, &LatentWeights::wq_b,
              must<q_latent>, InputOf::kQLatent},
    TensorRow{kWkvA, "blk.#.attn_kv_a_mqa.weight", "@layers.#.self_attn.kv_a_proj_with_mqa.weight", kv_a_dim, dim,
              &LatentWeights::wkv_a, must<latent>, kH},
    TensorRow{kBkvA, "blk.#.attn_kv_a_mqa.bias", "@layers.#.self_attn.kv_a_proj_with_mqa.bias", kv_a_dim, nullptr,
              &LatentWeights::bkv_a, may<latent>},
    TensorRow{kKvANorm, "blk.#.attn_kv_a_norm.weight", "@layers.#.self_attn.kv_a_layernorm.weight", kv_rank, nullptr,
              &LatentWeights::kv_a_norm, must<latent>},
    TensorRow{kWkvB, "blk.#.attn_kv_b.weight", "@layers.#.self_attn.kv_b_proj.weight", kv_b_dim, kv_rank,
              &LatentWeights::wkv_b, must<latent>, InputOf::kKvLatent},
    TensorRow{kSinks, "blk.#.attn_sinks.weight", "@layers.#.self_attn.sinks", heads, nullptr, &Layer::sinks,
              may<attends>},
    TensorRow{kWo, "blk.#.attn_output.weight", "@layers.#.self_attn.o_proj.weight", dim, attended_dim, &Layer::wo,
              must<attends>, InputOf::kAttended},
    TensorRow{kBo, "blk.#.attn_output.bias", "@layers.#.self_attn.o_proj.bias", dim, nullptr, &Layer::bo, may<attends>},
    TensorRow{kWAttnGate, "blk.#.attn_gate.weight", "@layers.#.self_attn.gate_proj.weight", q_dim, dim,
              &Layer::w_attn_gate, must<attention_gate>, kH, kAsIs, kWqGate},
    TensorRow{kBAttnGate, "blk.#.attn_gate.bias", "@layers.#.self_attn.gate_proj.bias", q_dim, nullptr,
              &Layer::b_attn_gate, may<attention_gate>, kNoInput, kAsIs, kBqGate},
    TensorRow{kLaurelLeft, "blk.#.laurel_l.weight", "@layers.#.laurel.linear_left.weight", laurel_rank, dim,
              &Layer::laurel_left, must<laurel>, kH},
    TensorRow{kLaurelRight, "blk.#.laurel_r.weight", "@layers.#.laurel.linear_right.weight", dim, laurel_rank,
              &Layer::laurel_right, must<laurel>, InputOf::kLaurel},
    TensorRow{kLaurelNorm, "blk.#.laurel_post_norm.weight", "@layers.#.laurel.post_laurel_norm.weight", dim, nullptr,
              &Layer::laurel_norm, must<laurel>, kNoInput, kNorm},
    TensorRow{kAttnPostNorm, "blk.#.post_attention_norm.weight", "@layers.#.post_attention_layernorm.weight", dim,
              nullptr, &Layer::attn_post_norm, must<after>, kNoInput, kNorm},

    TensorRow{kFfnNorm, "blk.#.ffn_norm.weight", "@layers.#.post_attention_layernorm.weight", dim, nullptr,
              &Layer::ffn_norm, before_ffn, kNoInput, kNorm},
    TensorRow{kFfnNormBias, "blk.#.ffn_norm.bias", "@layers.#.post_attention_layernorm.bias", dim, nullptr,
              &Layer::ffn_norm_bias, may<norm_bias>},
    TensorRow{kWGateUp, "blk.#.ffn_up.weight", "@layers.#.mlp.gate_up_proj.weight", two_ffn_dims, dim, {}, may<mlp>},
    TensorRow{kWGate, "blk.#.ffn_gate.weight", "@layers.#.mlp.gate_proj.weight", ffn_dim, dim, &Layer::w_gate,
              must<gate>, kH, kAsIs, kWGateUp},
    TensorRow{kWUp, "blk.#.ffn_up.weight", "@layers.#.mlp.up_proj.weight", ffn_dim, dim, &Layer::w_up, must<mlp>, kH,
              kAsIs, kWGateUp},
    TensorRow{kWDown, "blk.#.ffn_down.weight", "@layers.#.mlp.down_proj.weight", dim, ffn_dim, &Layer::w_down,
              must<mlp>, InputOf::kGated},
    TensorRow{kBGate, "blk.#.ffn_gate.bias", "@layers.#.mlp.gate_proj.bias", ffn_dim, nullptr, &Layer::b_gate,
              may<gate>},
    TensorRow{kBUp, "blk.#.ffn_up.bias", "@layers.#.mlp.up_proj.bias", ffn_dim, nullptr, &Layer::b_up, may<mlp>},
    TensorRow{kBDown, "blk.#.ffn_down.bias", "@layers.#.mlp.down_proj.bias", dim, nullptr, &Layer::b_down, may<mlp>},
    TensorRow{kFfnPostNorm, "blk.#.post_ffw_norm.weight", "@layers.#.post_feedforward_layernorm.weight", dim, nullptr,
              &Layer::ffn_post_norm, must<after_ffn>, kNoInput, kNorm},
    TensorRow{kLayerGate, "blk.#.inp_gate.weight", "@layers.#.per_layer_input_gate.weight", layer_input_dim, dim,
              &LayerInputWeights::gate, must<layer_inputs>, kH},
    TensorRow{kLayerOut, "blk.#.proj.weight", "@layers.#.per_layer_projection.weight", dim, layer_input_dim,
              &LayerInputWeights::out, must<layer_inputs>, InputOf::kLayerGated},
    TensorRow{kLayerPostNorm, "blk.#.post_norm.weight", "@layers.#.post_per_layer_input_norm.weight", dim, nullptr,
              &LayerInputWeights::post_norm, must<layer_inputs>, kNoInput, kNorm},
    TensorRow{kOutScale, "blk.#.layer_output_scale.weight", "@layers.#.layer_scalar", one, nullptr, &Layer::out_scale,
              may<out_scale>},
    TensorRow{kAltUpRouter, "blk.#.altup_router.weight", "@layers.#.altup.modality_router.weight", streams, dim,
              &AltUpWeights::router, must<altup>},
    TensorRow{kAltUpRouterNorm, "blk.#.altup_router_norm.weight", "@layers.#.altup.router_norm.weight", dim, nullptr,
              &AltUpWeights::router_norm, must<altup>, kNoInput, kNorm},
    TensorRow{kAltUpPredict, "blk.#.altup_predict_coef.weight", "@layers.#.altup.prediction_coefs.weight",
              streams_squared, streams, &AltUpWeights::predict, must<altup>},
    TensorRow{kAltUpCorrect, "blk.#.altup_correct_coef.weight", "@layers.#.altup.correction_coefs.weight", streams,
              streams, &AltUpWeights::correct, must<altup>},
    TensorRow{kAltUpScale, "blk.#.altup_correct_scale.weight", "@layers.#.altup.correct_output_scale", dim, nullptr,
              &AltUpWeights::active_scale, must<altup_scale>},

    TensorRow{kRouter, "blk.#.ffn_gate_inp.weight",
              "@layers.#.mlp.gate.weight|@layers.#.block_sparse_moe.gate.weight|@layers.#.mlp.router.weight|"
              "@layers.#.block_sparse_moe.router.layer.weight|@layers.#.mlp.router.gate.weight|"
              "@layers.#.router.proj.weight",
              n_experts, dim, &MoeWeights::router, must<moe>, kH},
    TensorRow{kBRouter, "blk.#.ffn_gate_inp.bias", "@layers.#.mlp.router.bias", n_experts, nullptr,
              &MoeWeights::router_bias, may<moe>},
    TensorRow{kChoiceBias, "blk.#.exp_probs_b.bias|blk.#.exp_probs_b",
              "@layers.#.mlp.gate.e_score_correction_bias|@layers.#.mlp.moe_statics.e_score_correction_bias|"
              "@layers.#.mlp.expert_bias",
              n_experts, nullptr, &MoeWeights::choice_bias, may<moe>},
    TensorRow{kRouterScale, "blk.#.ffn_gate_inp.scale", "@layers.#.router.scale", dim, nullptr,
              &MoeWeights::router_scale, must<moe_beside>},
    TensorRow{kExpertScale, "blk.#.ffn_down_exps.scale", "@layers.#.router.per_expert_scale", n_experts, nullptr,
              &MoeWeights::expert_scale, may<moe>},
    TensorRow{kMoeNorm, "blk.#.pre_ffw_norm_2.weight", "@layers.#.pre_feedforward_layernorm_2.weight", dim, nullptr,
              &MoeWeights::norm, must<moe_beside>, kNoInput, kNorm},
    TensorRow{kMoePostNorm, "blk.#.post_ffw_norm_2.weight", "@layers.#.post_feedforward_layernorm_2.weight", dim,
              nullptr, &MoeWeights::post_norm, must<moe_beside>, kNoInput, kNorm},
    TensorRow{kMlpPostNorm, "blk.#.post_ffw_norm_1.weight", "@layers.#.post_feedforward_layernorm_1.weight", dim,
              nullptr, &MoeWeights::mlp_post_norm, must<moe_beside>, kNoInput, kNorm},
    TensorRow{kSharedRouter, "blk.#.ffn_gate_inp_shexp.weight", "@layers.#.mlp.shared_expert_gate.weight", one, dim,
              &MoeWeights::shared_gate, may<shared>, kH},
    TensorRow{kSharedGateUp,
              "blk.#.ffn_gate_up_shexp.weight",
              "@layers.#.shared_mlp.input_linear.weight",
              two_shared_dims,
              dim,
              {},
              may<shared>},
    TensorRow{kSharedGate, "blk.#.ffn_gate_shexp.weight",
              "@layers.#.mlp.shared_experts.gate_proj.weight|@layers.#.mlp.shared_expert.gate_proj.weight", shared_dim,
              dim, &Expert::w_gate, must<shared_gate>, kH, kAsIs, kSharedGateUp},
    TensorRow{kSharedUp, "blk.#.ffn_up_shexp.weight",
              "@layers.#.mlp.shared_experts.up_proj.weight|@layers.#.mlp.shared_expert.up_proj.weight", shared_dim, dim,
              &Expert::w_up, must<shared>, kH, kAsIs, kSharedGateUp},
    TensorRow{kSharedDown, "blk.#.ffn_down_shexp.weight",
              "@layers.#.mlp.shared_experts.down_proj.weight|@layers.#.mlp.shared_expert.down_proj.weight|"
              "@layers.#.shared_mlp.output_linear.weight",
              dim, shared_dim, &Expert::w_down, must<shared>, InputOf::kSharedGated},
    TensorRow{kBSharedGate, "blk.#.ffn_gate_shexp.bias", "@layers.#.mlp.shared_experts.gate_proj.bias", shared_dim,
              nullptr, &Expert::b_gate, may<shared_gate>},
    TensorRow{kBSharedUp, "blk.#.ffn_up_shexp.bias", "@layers.#.mlp.shared_experts.up_proj.bias", shared_dim, nullptr,
              &Expert::b_up, may<shared>},
    TensorRow{kBSharedDown, "blk.#.ffn_down_shexp.bias", "@layers.#.mlp.shared_experts.down_proj.bias", dim, nullptr,
              &Expert::b_down, may<shared>},

    TensorRow{kExpertGateUp,
              "blk.#.ffn_gate_up_exps.weight",
              "@layers.#.mlp.experts.gate_up_proj|@layers.#.mlp.experts.gate_up_proj_blocks|"
              "@layers.#.block_sparse_moe.input_linear.weight|@layers.#.experts.gate_up_proj",
              two_expert_dims,
              dim,
              {},
              may<moe>,
              kNoInput,
              kAsIs,
              kExpertGateUp,
              Copies::kExperts},
    TensorRow{kExpertGate, "blk.#.ffn_gate_exps.weight|blk.#.ffn_gate.%.weight",
              "@layers.#.mlp.experts.%.gate_proj.weight|@layers.#.block_sparse_moe.experts.%.w1.weight", expert_dim,
              dim, &Expert::w_gate, must<moe_gate>, kH, kAsIs, kExpertGateUp, Copies::kExperts},
    TensorRow{kExpertUp, "blk.#.ffn_up_exps.weight|blk.#.ffn_up.%.weight",
              "@layers.#.mlp.experts.%.up_proj.weight|@layers.#.block_sparse_moe.experts.%.w3.weight", expert_dim, dim,
              &Expert::w_up, must<moe>, kH, kAsIs, kExpertGateUp, Copies::kExperts},
    TensorRow{kExpertDown, "blk.#.ffn_down_exps.weight|blk.#.ffn_down.%.weight",
              "@layers.#.mlp.experts.%.down_proj.weight|@layers.#.block_sparse_moe.experts.%.w2.weight|"
              "@layers.#.mlp.experts.down_proj|@layers.#.mlp.experts.down_proj_blocks|"
              "@layers.#.block_sparse_moe.output_linear.weight|@layers.#.experts.down_proj",
              dim, expert_dim, &Expert::w_down, must<moe>, InputOf::kExpertGated, kAsIs, kExpertDown, Copies::kExperts},
    TensorRow{kBExpertGateUp,
              "blk.#.ffn_gate_up_exps.bias",
              "@layers.#.mlp.experts.gate_up_proj_bias",
              two_expert_dims,
              nullptr,
              {},
              may<moe>,
              kNoInput,
              kAsIs,
              kBExpertGateUp,
              Copies::kExperts},
    TensorRow{kBExpertGate, "blk.#.ffn_gate_exps.bias", "@layers.#.mlp.experts.gate_proj_bias", expert_dim, nullptr,
              &Expert::b_gate, may<moe>, kNoInput, kAsIs, kBExpertGateUp, Copies::kExperts},
    TensorRow{kBExpertUp, "blk.#.ffn_up_exps.bias", "@layers.#.mlp.experts.up_proj_bias", expert_dim, nullptr,
              &Expert::b_up, may<moe>, kNoInput, kAsIs, kBExpertGateUp, Copies::kExperts},
    TensorRow{kBExpertDown, "blk.#.ffn_down_exps.bias", "@layers.#.mlp.experts.down_proj_bias", dim, nullptr,
              &Expert::b_down, may<moe>, kNoInput, kAsIs, kBExpertDown, Copies::kExperts},
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
    case Copies::kNone: return 1;
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
