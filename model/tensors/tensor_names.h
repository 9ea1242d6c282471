// Tensor names of an architecture's files that differ from those in the tensor table. Data for the rows of
// model/architectures/architectures.cc; tensor_table.h explains '@', '#' and '|'.
#pragma once

#include "model/tensors/tensor_table.h"

namespace ibid::names {

using enum TensorRole;

inline constexpr TensorName kGpt2[] = {
    {kEmbed, "", "@wte.weight"},           {kFinalNorm, "", "@ln_f.weight"},
    {kFinalNormBias, "", "@ln_f.bias"},    {kAttnNorm, "", "@h.#.ln_1.weight"},
    {kAttnNormBias, "", "@h.#.ln_1.bias"}, {kWqkv, "", "@h.#.attn.c_attn.weight"},
    {kBqkv, "", "@h.#.attn.c_attn.bias"},  {kWo, "", "@h.#.attn.c_proj.weight"},
    {kBo, "", "@h.#.attn.c_proj.bias"},    {kFfnNorm, "", "@h.#.ln_2.weight"},
    {kFfnNormBias, "", "@h.#.ln_2.bias"},  {kWUp, "", "@h.#.mlp.c_fc.weight"},
    {kBUp, "", "@h.#.mlp.c_fc.bias"},      {kWDown, "", "@h.#.mlp.c_proj.weight"},
    {kBDown, "", "@h.#.mlp.c_proj.bias"},
};

inline constexpr TensorName kGptNeox[] = {
    {kEmbed, "", "@embed_in.weight"},
    {kLmHead, "", "embed_out.weight"},
    {kFinalNorm, "", "@final_layer_norm.weight"},
    {kFinalNormBias, "", "@final_layer_norm.bias"},
    {kWqkv, "", "@layers.#.attention.query_key_value.weight"},
    {kBqkv, "", "@layers.#.attention.query_key_value.bias"},
    {kWo, "", "@layers.#.attention.dense.weight"},
    {kBo, "", "@layers.#.attention.dense.bias"},
    {kWUp, "", "@layers.#.mlp.dense_h_to_4h.weight"},
    {kBUp, "", "@layers.#.mlp.dense_h_to_4h.bias"},
    {kWDown, "", "@layers.#.mlp.dense_4h_to_h.weight"},
    {kBDown, "", "@layers.#.mlp.dense_4h_to_h.bias"},
};

// If the MLP has a norm of its own, GGUF calls it attn_norm, and attention's norm attn_norm_2; otherwise attn_norm is
// the one norm of attention and MLP.
inline constexpr TensorName kFalcon[] = {
    {kEmbed, "", "@word_embeddings.weight"},
    {kFinalNorm, "", "@ln_f.weight"},
    {kFinalNormBias, "", "@ln_f.bias"},
    {kAttnNorm, "blk.#.attn_norm_2.weight|blk.#.attn_norm.weight", "@h.#.ln_attn.weight|@h.#.input_layernorm.weight"},
    {kFfnNorm, "blk.#.attn_norm.weight", "@h.#.ln_mlp.weight|@h.#.post_attention_layernorm.weight"},
    {kAttnNormBias, "blk.#.attn_norm_2.bias|blk.#.attn_norm.bias", "@h.#.ln_attn.bias|@h.#.input_layernorm.bias"},
    {kFfnNormBias, "blk.#.attn_norm.bias", "@h.#.ln_mlp.bias|@h.#.post_attention_layernorm.bias"},
    {kWqkv, "", "@h.#.self_attention.query_key_value.weight"},
    {kBqkv, "", "@h.#.self_attention.query_key_value.bias"},
    {kWo, "", "@h.#.self_attention.dense.weight"},
    {kBo, "", "@h.#.self_attention.dense.bias"},
    {kWUp, "", "@h.#.mlp.dense_h_to_4h.weight"},
    {kBUp, "", "@h.#.mlp.dense_h_to_4h.bias"},
    {kWDown, "", "@h.#.mlp.dense_4h_to_h.weight"},
    {kBDown, "", "@h.#.mlp.dense_4h_to_h.bias"},
};

inline constexpr TensorName kStarcoder2[] = {
    {kWUp, "", "@layers.#.mlp.c_fc.weight"},
    {kBUp, "", "@layers.#.mlp.c_fc.bias"},
    {kWDown, "", "@layers.#.mlp.c_proj.weight"},
    {kBDown, "", "@layers.#.mlp.c_proj.bias"},
};

inline constexpr TensorName kApertus[] = {
    {kAttnNorm, "", "@layers.#.attention_layernorm.weight"},
    {kFfnNorm, "", "@layers.#.feedforward_layernorm.weight"},
};

inline constexpr TensorName kHunyuan[] = {
    {kQNorm, "", "@layers.#.self_attn.query_layernorm.weight"},
    {kKNorm, "", "@layers.#.self_attn.key_layernorm.weight"},
};

// Each head has its own norm, which is a separate tensor ('%' is the head).
inline constexpr TensorName kStablelm[] = {
    {kQNorm, "", "@layers.#.self_attn.q_layernorm.norms.%.weight"},
    {kKNorm, "", "@layers.#.self_attn.k_layernorm.norms.%.weight"},
};

// Names of the norms before and after attention and MLP.
inline constexpr TensorName kGemma[] = {
    {kFfnNorm, "", "@layers.#.pre_feedforward_layernorm.weight"},
};

inline constexpr TensorName kGlm4[] = {
    {kAttnPostNorm, "", "@layers.#.post_self_attn_layernorm.weight"},
    {kFfnPostNorm, "", "@layers.#.post_mlp_layernorm.weight"},
};

inline constexpr TensorName kAfmoe[] = {
    {kFfnNorm, "", "@layers.#.pre_mlp_layernorm.weight"},
    {kFfnPostNorm, "", "@layers.#.post_mlp_layernorm.weight"},
};

// GGUF names the norm before the MLP as if it were after attention.
inline constexpr TensorName kNormBeforeMlp[] = {
    {kFfnNorm, "blk.#.post_attention_norm.weight|blk.#.ffn_norm.weight", ""},
};

inline constexpr TensorName kLlama4[] = {
    {kWGate, "", "@layers.#.feed_forward.gate_proj.weight"},
    {kWUp, "", "@layers.#.feed_forward.up_proj.weight"},
    {kWDown, "", "@layers.#.feed_forward.down_proj.weight"},
    {kRouter, "", "@layers.#.feed_forward.router.weight"},
    {kSharedGate, "", "@layers.#.feed_forward.shared_expert.gate_proj.weight"},
    {kSharedUp, "", "@layers.#.feed_forward.shared_expert.up_proj.weight"},
    {kSharedDown, "", "@layers.#.feed_forward.shared_expert.down_proj.weight"},
    {kExpertGateUp, "", "@layers.#.feed_forward.experts.gate_up_proj"},
    {kExpertDown, "", "@layers.#.feed_forward.experts.down_proj"},
};

inline constexpr TensorName kGraniteHybrid[] = {
    {kWGateUp, "", "@layers.#.shared_mlp.input_linear.weight"},
    {kWDown, "", "@layers.#.shared_mlp.output_linear.weight"},
};

}  // namespace ibid::names
