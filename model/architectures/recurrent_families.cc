#include "model/architectures/architecture.h"

#include <array>

#include "model/tensors/tensor_names.h"

namespace ibid {

namespace {

using enum TensorRole;
using Kind = Activation::Kind;

constexpr TensorName kLfm2Names[] = {
    {kFinalNorm, "token_embd_norm.weight|output_norm.weight", "@embedding_norm.weight"},
    {kAttnNorm, "", "@layers.#.operator_norm.weight"},
    {kWo, "", "@layers.#.self_attn.out_proj.weight"},
    {kQNorm, "", "@layers.#.self_attn.q_layernorm.weight"},
    {kKNorm, "", "@layers.#.self_attn.k_layernorm.weight"},
    {kFfnNorm, "", "@layers.#.ffn_norm.weight"},
    {kWGate, "", "@layers.#.feed_forward.w1.weight"},
    {kWUp, "", "@layers.#.feed_forward.w3.weight"},
    {kWDown, "", "@layers.#.feed_forward.w2.weight"},
    {kRouter, "", "@layers.#.feed_forward.gate.weight"},
    {kChoiceBias, "", "@layers.#.feed_forward.expert_bias"},
    {kExpertGate, "", "@layers.#.feed_forward.experts.%.w1.weight"},
    {kExpertUp, "", "@layers.#.feed_forward.experts.%.w3.weight"},
    {kExpertDown, "", "@layers.#.feed_forward.experts.%.w2.weight"},
};

constexpr std::array kFeedForwardNames = {
    TensorName{kFfnNorm, "", "@layers.#.pre_ff_layernorm.weight"},
    TensorName{kFinalNorm, "", "@final_layernorm.weight"},
    TensorName{kWGate, "", "@layers.#.feed_forward.gate_proj.weight"},
    TensorName{kWUp, "", "@layers.#.feed_forward.up_proj.weight"},
    TensorName{kWDown, "", "@layers.#.feed_forward.down_proj.weight"},
    TensorName{kBGate, "", "@layers.#.feed_forward.gate_proj.bias"},
    TensorName{kBUp, "", "@layers.#.feed_forward.up_proj.bias"},
    TensorName{kBDown, "", "@layers.#.feed_forward.down_proj.bias"},
    TensorName{kRouter, "", "@layers.#.feed_forward.router.weight"},
    TensorName{kExpertGate, "", "@layers.#.feed_forward.experts.%.gate_proj.weight"},
    TensorName{kExpertUp, "", "@layers.#.feed_forward.experts.%.up_proj.weight"},
    TensorName{kExpertDown, "", "@layers.#.feed_forward.experts.%.down_proj.weight"},
};

// llama.cpp requires that one of the norms has a name without a suffix.
constexpr auto kFalconH1Names = [] {
  auto names = kFeedForwardNames;
  names.front().gguf = "blk.#.ffn_norm|blk.#.ffn_norm.weight";
  return names;
}();

constexpr TensorName kZamba2Names[] = {
    {kFinalNorm, "", "@final_layernorm.weight"},
    {kAttnNorm, "", "@layers.#.mamba_decoder.input_layernorm.weight|@layers.#.input_layernorm.weight"},
    {kWq, "", "@layers.#.shared_transformer.self_attn.q_proj.weight"},
    {kWk, "", "@layers.#.shared_transformer.self_attn.k_proj.weight"},
    {kWv, "", "@layers.#.shared_transformer.self_attn.v_proj.weight"},
    {kWo, "", "@layers.#.shared_transformer.self_attn.o_proj.weight"},
};

// Tensor names of families in which each layer is one norm and one block.
constexpr TensorName kBackboneNames[] = {
    {kEmbed, "", "@embeddings.weight"},
    {kFinalNorm, "", "@norm_f.weight"},
    {kAttnNorm, "", "@layers.#.norm.weight"},
    {kWq, "", "@layers.#.mixer.q_proj.weight"},
    {kWk, "", "@layers.#.mixer.k_proj.weight"},
    {kWv, "", "@layers.#.mixer.v_proj.weight"},
    {kWo, "", "@layers.#.mixer.o_proj.weight"},
    {kBq, "", "@layers.#.mixer.q_proj.bias"},
    {kBk, "", "@layers.#.mixer.k_proj.bias"},
    {kBv, "", "@layers.#.mixer.v_proj.bias"},
    {kBo, "", "@layers.#.mixer.o_proj.bias"},
    {kFfnNorm, "blk.#.attn_norm.weight", "@layers.#.norm.weight"},
    {kWUp, "", "@layers.#.mixer.up_proj.weight"},
    {kWDown, "", "@layers.#.mixer.down_proj.weight"},
    {kBUp, "", "@layers.#.mixer.up_proj.bias"},
    {kBDown, "", "@layers.#.mixer.down_proj.bias"},
    {kRouter, "", "@layers.#.mixer.gate.weight"},
    {kChoiceBias, "", "@layers.#.mixer.gate.e_score_correction_bias"},
    {kSharedUp, "", "@layers.#.mixer.shared_experts.up_proj.weight"},
    {kSharedDown, "", "@layers.#.mixer.shared_experts.down_proj.weight"},
    {kBSharedUp, "", "@layers.#.mixer.shared_experts.up_proj.bias"},
    {kBSharedDown, "", "@layers.#.mixer.shared_experts.down_proj.bias"},
    {kExpertUp, "", "@layers.#.mixer.experts.%.up_proj.weight"},
    {kExpertDown, "", "@layers.#.mixer.experts.%.down_proj.weight"},
};

// Checkpoints have two names per norm, and the same name means different norms in layers with and without attention.
constexpr TensorName kOlmoHybridNames[] = {
    {kAttnNorm, "", "@layers.#.attention_layer_norm.weight|@layers.#.input_layernorm.weight"},
    {kAttnPostNorm, "", "@layers.#.feedforward_layer_norm.weight|@layers.#.post_attention_layernorm.weight"},
    {kFfnNorm, "", "@layers.#.feedforward_layer_norm.weight|@layers.#.post_attention_layernorm.weight"},
};

// In transformers, the MLP of a layer without experts has the name that the experts have in other layers.
constexpr TensorName kKimiNames[] = {
    {kWGate, "", "@layers.#.mlp.gate_proj.weight|@layers.#.block_sparse_moe.gate_proj.weight"},
    {kWUp, "", "@layers.#.mlp.up_proj.weight|@layers.#.block_sparse_moe.up_proj.weight"},
    {kWDown, "", "@layers.#.mlp.down_proj.weight|@layers.#.block_sparse_moe.down_proj.weight"},
    {kChoiceBias, "", "@layers.#.block_sparse_moe.gate.e_score_correction_bias"},
    {kSharedGate, "", "@layers.#.block_sparse_moe.shared_experts.gate_proj.weight"},
    {kSharedUp, "", "@layers.#.block_sparse_moe.shared_experts.up_proj.weight"},
    {kSharedDown, "", "@layers.#.block_sparse_moe.shared_experts.down_proj.weight"},
};

constexpr RecurrentFamily kShortConvs{
    .rule = RecurrentRule::kShortConv, .fused = FusedInputs::kKqv, .gguf_fused = FusedInputs::kKqv};
constexpr RecurrentFamily kMamba2s{
    .rule = RecurrentRule::kMamba2, .fused = FusedInputs::kZvkq, .gguf_fused = FusedInputs::kZvkq};
constexpr RecurrentFamily kNemotronH{
    .rule = RecurrentRule::kMamba2, .fused = FusedInputs::kZvkq, .gguf_fused = FusedInputs::kZvkq, .one_block = true};
constexpr RecurrentFamily kGatedDeltas{
    .rule = RecurrentRule::kGatedDelta, .gate = OutputGate::kNormThenGate, .tiled_in_gguf = true};

const std::array kFamilies = {
    Architecture{.gguf_name = "lfm2",
                 .hf_model_type = "lfm2",
                 .tensor_names = kLfm2Names,
                 .qk_norm = QkNorm::kPerHead,
                 .recurrent = kShortConvs},
    Architecture{.gguf_name = "lfm2moe",
                 .hf_model_type = "lfm2_moe",
                 .tensor_names = kLfm2Names,
                 .qk_norm = QkNorm::kPerHead,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth,
                 .recurrent = kShortConvs},
    // Granite models without recurrent layers are converted to the other Granite architectures.
    Architecture{.gguf_name = "granitehybrid",
                 .hf_model_type = "granitemoehybrid",
                 .written_dense = "granite",
                 .written_moe = "granitemoe",
                 .written_recurrent = "granitehybrid",
                 .tensor_names = names::kGraniteHybrid,
                 .adjacent_pairs = In::kGguf,
                 .gguf_splits_gate_up = true,
                 .rope_layers = RopeLayers::kIfNamed,
                 .router_scores = RouterScores::kSoftmaxOfChosen,
                 .recurrent = kMamba2s,
                 .logits_are_divided = true},
    // llama.cpp uses one architecture for Bamba and Granite.
    Architecture{.hf_model_type = "bamba",
                 .written_recurrent = "granitehybrid",
                 .tensor_names = kFeedForwardNames,
                 .rotary_share = 0.5,
                 .rotary_share_is_fixed = true,
                 .recurrent = kMamba2s},
    Architecture{.gguf_name = "falcon-h1",
                 .hf_model_type = "falcon_h1",
                 .tensor_names = kFalconH1Names,
                 .recurrent = {.rule = RecurrentRule::kMamba2,
                               .fused = FusedInputs::kZvkq,
                               .gguf_fused = FusedInputs::kZvkq,
                               .beside_attention = true,
                               .gguf_folds_factors = true}},
    Architecture{.gguf_name = "nemotron_h",
                 .hf_model_type = "nemotron_h",
                 .written_moe = "nemotron_h_moe",
                 .tensor_names = kBackboneNames,
                 .hf_prefix = "backbone.",
                 .rope_layers = RopeLayers::kNever,
                 .activation = Kind::kReluSquared,
                 .gated = false,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth,
                 .recurrent = kNemotronH},
    Architecture{.gguf_name = "nemotron_h_moe",
                 .tensor_names = kBackboneNames,
                 .rope_layers = RopeLayers::kNever,
                 .activation = Kind::kReluSquared,
                 .gated = false,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth,
                 .recurrent = kNemotronH},
    Architecture{.gguf_name = "mamba2",
                 .hf_model_type = "mamba2",
                 .tensor_names = kBackboneNames,
                 .hf_prefix = "backbone.",
                 .rope_layers = RopeLayers::kNever,
                 .recurrent = {.rule = RecurrentRule::kMamba2,
                               .fused = FusedInputs::kZvkq,
                               .gguf_fused = FusedInputs::kZvkq,
                               .without_attention = true}},
    Architecture{
        .gguf_name = "jamba",
        .hf_model_type = "jamba",
        .tensor_names = kFeedForwardNames,
        .rope_layers = RopeLayers::kNever,
        .recurrent = {.rule = RecurrentRule::kMamba1, .fused = FusedInputs::kVz, .gguf_fused = FusedInputs::kVz}},
    Architecture{.gguf_name = "qwen35",
                 .hf_model_type = "qwen3_5_text",
                 .tensor_names = names::kNormBeforeMlp,
                 .norms_minus_one = In::kHf,
                 .qk_norm = QkNorm::kPerHead,
                 .attention_gate = true,
                 .gate_beside_query = true,
                 .rotary_share = 0.25,
                 .recurrent = kGatedDeltas},
    Architecture{.gguf_name = "qwen35moe",
                 .hf_model_type = "qwen3_5_moe_text",
                 .tensor_names = names::kNormBeforeMlp,
                 .norms_minus_one = In::kHf,
                 .qk_norm = QkNorm::kPerHead,
                 .attention_gate = true,
                 .gate_beside_query = true,
                 .rotary_share = 0.25,
                 .router_normalizes = In::kBoth,
                 .recurrent = kGatedDeltas},
    Architecture{.gguf_name = "qwen3next",
                 .hf_model_type = "qwen3_next",
                 .tensor_names = names::kNormBeforeMlp,
                 .norms_minus_one = In::kHf,
                 .qk_norm = QkNorm::kPerHead,
                 .attention_gate = true,
                 .gate_beside_query = true,
                 .rotary_share = 0.25,
                 .router_normalizes = In::kBoth,
                 .recurrent = {.rule = RecurrentRule::kGatedDelta,
                               .gate = OutputGate::kNormThenGate,
                               .fused = FusedInputs::kGroups}},
    Architecture{
        .hf_model_type = "olmo_hybrid",
        .tensor_names = kOlmoHybridNames,
        .norm_places = NormPlaces::kAfter,
        .qk_norm = QkNorm::kWhole,
        .rope_layers = RopeLayers::kIfTheta,
        .recurrent = {.rule = RecurrentRule::kGatedDelta, .gate = OutputGate::kNormThenGate, .norm_eps = 1e-5f}},
    Architecture{.gguf_name = "kimi-linear",
                 .hf_model_type = "kimi_linear",
                 .tensor_names = kKimiNames,
                 .latent = true,
                 .rope_layers = RopeLayers::kNever,
                 .router_scores = RouterScores::kSigmoid,
                 .router_normalizes = In::kBoth,
                 .recurrent = {.rule = RecurrentRule::kKeyedDelta, .gate = OutputGate::kNormThenSigmoid}},
    Architecture{.hf_model_type = "zamba2",
                 .tensor_names = kZamba2Names,
                 .rope_layers = RopeLayers::kIfEnabled,
                 .activation = Kind::kGelu,
                 .recurrent = {.rule = RecurrentRule::kMamba2,
                               .fused = FusedInputs::kZvkq,
                               .common_blocks = true,
                               .norm_eps = 1e-5f}},
    Architecture{.hf_model_type = "minimax",
                 .router_normalizes = In::kBoth,
                 .recurrent = {.rule = RecurrentRule::kLightning,
                               .gate = OutputGate::kNormThenSigmoid,
                               .fused = FusedInputs::kHeads,
                               .norm_eps = 1e-6f}},
};

}  // namespace

std::span<const Architecture> recurrent_families() { return kFamilies; }

}  // namespace ibid
