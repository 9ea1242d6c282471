#include "model/tensors/tensor_names.h"

namespace ibid {

using enum TensorRole;

std::span<const TensorName> gpt2_names() {
  static constexpr TensorName kNames[] = {
      {kEmbed, "", "@wte.weight"},
      {kFinalNorm, "", "@ln_f.weight"},
      {kFinalNormBias, "", "@ln_f.bias"},
      {kAttnNorm, "", "@h.#.ln_1.weight"},
      {kAttnNormBias, "", "@h.#.ln_1.bias"},
      {kWqkv, "", "@h.#.attn.c_attn.weight"},
      {kBqkv, "", "@h.#.attn.c_attn.bias"},
      {kWo, "", "@h.#.attn.c_proj.weight"},
      {kBo, "", "@h.#.attn.c_proj.bias"},
      {kFfnNorm, "", "@h.#.ln_2.weight"},
      {kFfnNormBias, "", "@h.#.ln_2.bias"},
      {kWUp, "", "@h.#.mlp.c_fc.weight"},
      {kBUp, "", "@h.#.mlp.c_fc.bias"},
      {kWDown, "", "@h.#.mlp.c_proj.weight"},
      {kBDown, "", "@h.#.mlp.c_proj.bias"},
  };
  return kNames;
}

std::span<const TensorName> gpt_neox_names() {
  static constexpr TensorName kNames[] = {
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
  return kNames;
}

// GGUF has the norm of attention as attn_norm_2 where that of the MLP is another one; else attn_norm serves both.
std::span<const TensorName> falcon_names() {
  static constexpr TensorName kNames[] = {
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
  return kNames;
}

std::span<const TensorName> starcoder2_names() {
  static constexpr TensorName kNames[] = {
      {kWUp, "", "@layers.#.mlp.c_fc.weight"},
      {kBUp, "", "@layers.#.mlp.c_fc.bias"},
      {kWDown, "", "@layers.#.mlp.c_proj.weight"},
      {kBDown, "", "@layers.#.mlp.c_proj.bias"},
  };
  return kNames;
}

std::span<const TensorName> apertus_names() {
  static constexpr TensorName kNames[] = {
      {kAttnNorm, "", "@layers.#.attention_layernorm.weight"},
      {kFfnNorm, "", "@layers.#.feedforward_layernorm.weight"},
  };
  return kNames;
}

std::span<const TensorName> hunyuan_names() {
  static constexpr TensorName kNames[] = {
      {kQNorm, "", "@layers.#.self_attn.query_layernorm.weight"},
      {kKNorm, "", "@layers.#.self_attn.key_layernorm.weight"},
  };
  return kNames;
}

std::span<const TensorName> stablelm_names() {
  static constexpr TensorName kNames[] = {
      {kQNorm, "", "@layers.#.self_attn.q_layernorm.norms.%.weight"},
      {kKNorm, "", "@layers.#.self_attn.k_layernorm.norms.%.weight"},
  };
  return kNames;
}

std::span<const TensorName> gemma_names() {
  static constexpr TensorName kNames[] = {
      {kFfnNorm, "", "@layers.#.pre_feedforward_layernorm.weight"},
  };
  return kNames;
}

std::span<const TensorName> glm4_names() {
  static constexpr TensorName kNames[] = {
      {kAttnPostNorm, "", "@layers.#.post_self_attn_layernorm.weight"},
      {kFfnPostNorm, "", "@layers.#.post_mlp_layernorm.weight"},
  };
  return kNames;
}


std::span<const TensorName> afmoe_names() {
  static constexpr TensorName kNames[] = {
      {kFfnNorm, "", "@layers.#.pre_mlp_layernorm.weight"},
      {kFfnPostNorm, "", "@layers.#.post_mlp_layernorm.weight"},
  };
  return kNames;
}

std::span<const TensorName> norm_before_mlp_names() {
  static constexpr TensorName kNames[] = {
      {kFfnNorm, "blk.#.post_attention_norm.weight|blk.#.ffn_norm.weight", ""},
  };
  return kNames;
}

std::span<const TensorName> llama4_names() {
  static constexpr TensorName kNames[] = {
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
  return kNames;
}

std::span<const TensorName> granite_hybrid_names() {
  static constexpr TensorName kNames[] = {
      {kWGateUp, "", "@layers.#.shared_mlp.input_linear.weight"},
      {kWDown, "", "@layers.#.shared_mlp.output_linear.weight"},
  };
  return kNames;
}

}  // namespace ibid
