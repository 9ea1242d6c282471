// The keys of each hyperparameter in GGUF and config.json. The readers (architectures.cc, *_rules.cc) use them, and
// write_gguf_keys(), which writes the first spelling. A key that only one container has may be defined in the file that
// reads it instead.
#pragma once

#include "model/architectures/hyperparameters.h"

namespace ibid::keys {

// --- shape, attention, factors
inline constexpr Key kNLayers{"n_layers", "block_count", "num_hidden_layers|n_layer"};
inline constexpr Key kDim{"dim", "embedding_length", "hidden_size|n_embd"};
inline constexpr Key kFfnDim{"ffn_dim", "feed_forward_length",
                             "block_ff_dim|intermediate_size|n_inner|ffn_hidden_size"};
inline constexpr Key kNHeads{"n_heads", "attention.head_count", "num_attention_heads|n_head"};
inline constexpr Key kNKvHeads{"n_kv_heads", "attention.head_count_kv", "num_key_value_heads|num_kv_heads|n_head_kv"};
inline constexpr Key kHeadDim{"head_dim", "attention.key_length", "head_dim"};
inline constexpr Key kValueDim{"value head_dim", "attention.value_length", ""};
// head_dim of the layers that kHeadDim does not describe: those with a window (GGUF) or without (config.json).
inline constexpr Key kOtherHeadDim{"head_dim of the other layers", "attention.key_length_swa", "global_head_dim"};
inline constexpr Key kOtherValueDim{"value head_dim of the other layers", "attention.value_length_swa", ""};
inline constexpr Key kSharedKvLayers{"layers with shared KV", "attention.shared_kv_layers", "num_kv_shared_layers"};
inline constexpr Key kTrainedContext{"trained_context", "context_length",
                                     "max_position_embeddings|n_positions|model_max_length"};
// GGUF key of embedding models only; Hugging Face directories store the pooling elsewhere (read_pooling()).
inline constexpr Key kPooling{"pooling", "pooling_type", ""};
inline constexpr Key kCausal{"causal attention", "attention.causal", "is_causal"};
inline constexpr Key kVocabSize{"vocab_size", "vocab_size", "vocab_size"};
inline constexpr Key kNormEps{"norm_eps", "attention.layer_norm_rms_epsilon|attention.layer_norm_epsilon",
                              "rms_norm_eps|layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps"};
inline constexpr Key kAttentionScale{"attention scale", "attention.scale", "attention_multiplier"};
inline constexpr Key kAttentionSoftcap{"attention softcap", "attn_logit_softcapping", "attn_logit_softcapping"};
inline constexpr Key kQueryGrowth{
    "query growth", "attention.temperature_scale",
    "llama_4_scaling_beta|rope_parameters.llama_4_scaling_beta|rope_scaling.llama_4_scaling_beta"};
inline constexpr Key kEmbedScale{"embedding scale", "embedding_scale", "embedding_multiplier"};
inline constexpr Key kResidualScale{"residual scale", "residual_scale", "residual_multiplier"};
inline constexpr Key kLogitScale{"logit scale", "logit_scale", "logit_scale|logits_scaling|lm_head_multiplier"};
inline constexpr Key kLogitSoftcap{"logit softcap", "final_logit_softcapping", "final_logit_softcapping"};
inline constexpr Key kParallel{"parallel", "use_parallel_residual", "use_parallel_residual|parallel_attn"};

// --- beside the layers
inline constexpr Key kLayerInputs{"width of layer inputs", "embedding_length_per_layer_input",
                                  "hidden_size_per_layer_input"};
inline constexpr Key kStreams{"streams", "altup.num_inputs", "altup_num_inputs"};
inline constexpr Key kActiveStream{"active stream", "altup.active_idx", "altup_active_idx"};
inline constexpr Key kGateCutoffs{"sparsity cutoffs of gate activations", "activation_sparsity_scale", ""};

// --- latent attention
inline constexpr Key kQRank{"rank of the queries' latent", "attention.q_lora_rank", "q_lora_rank"};
inline constexpr Key kKvRank{"rank of the latent of keys and values", "attention.kv_lora_rank", "kv_lora_rank"};
inline constexpr Key kLatentRopeDim{"rotary dimensions of a key", "rope.dimension_count", "qk_rope_head_dim"};
inline constexpr Key kLatentValueDim{"value head_dim", "attention.value_length_mla|attention.value_length",
                                     "v_head_dim"};
inline constexpr Key kLatentKeyDim{"head_dim", "attention.key_length_mla|attention.key_length", ""};
inline constexpr Key kYarnTenth{"mscale_all_dim", "rope.scaling.yarn_log_multiplier", ""};
inline constexpr Key kMscaleOfAll{"mscale_all_dim", "", "rope_scaling.mscale_all_dim|rope_parameters.mscale_all_dim"};

// --- windows
inline constexpr Key kWindow{"window", "attention.sliding_window", "sliding_window"};
inline constexpr Key kWindowPattern{"period of layers with a window", "attention.sliding_window_pattern",
                                    "sliding_window_pattern"};

// --- experts
inline constexpr Key kExperts{"n_experts", "expert_count",
                              "num_local_experts|num_experts|n_routed_experts|moe_num_experts"};
inline constexpr Key kExpertsActive{"n_experts_active", "expert_used_count",
                                    "num_experts_per_tok|moe_k|num_experts_per_token|top_k_experts"};
inline constexpr Key kExpertGroups{"number of expert groups", "expert_group_count", "n_group|num_expert_group"};
inline constexpr Key kExpertGroupsActive{"number of active expert groups", "expert_group_used_count", "topk_group"};
inline constexpr Key kRouterScores{"gating function", "expert_gating_func", ""};
inline constexpr Key kRouterNormalized{"normalisation of the experts' weights", "expert_weights_norm",
                                       "norm_topk_prob|route_norm|moe_renormalize"};
inline constexpr Key kRouterScale{"scale of the experts' weights", "expert_weights_scale",
                                  "routed_scaling_factor|route_scale"};
inline constexpr Key kExpertFfnDim{"ffn_dim of experts", "expert_feed_forward_length", "moe_intermediate_size"};
inline constexpr Key kSharedFfnDim{"ffn_dim of the shared expert", "expert_shared_feed_forward_length",
                                   "shared_expert_intermediate_size|shared_intermediate_size|"
                                   "moe_shared_expert_intermediate_size"};
inline constexpr Key kSharedCount{"shared experts", "expert_shared_count",
                                  "n_shared_experts|num_shared_experts|moe_num_shared_experts"};
inline constexpr Key kSwigluLimit{"clamp of SwiGLU", "swiglu_clamp_exp", "swiglu_limit"};
inline constexpr Key kLeadingDense{"leading layers without experts", "leading_dense_block_count",
                                   "first_k_dense_replace|num_dense_layers|moe_layer_start_index"};
inline constexpr Key kExpertStep{"period of layers with experts", "interleave_moe_layer_step",
                                 "moe_layer_interval|decoder_sparse_step|interleave_moe_layer_step|expert_layer_period|"
                                 "moe_layer_freq"};

// --- recurrent layers
inline constexpr Key kConvTaps{"kernel size of the convolution", "ssm.conv_kernel|shortconv.l_cache",
                               "mamba_d_conv|conv_kernel|conv_L_cache|linear_conv_kernel_dim|"
                               "linear_attn_config.short_conv_kernel_size"};
inline constexpr Key kStateSize{"size of the recurrent state", "ssm.state_size",
                                "mamba_d_state|ssm_state_size|state_size|linear_key_head_dim"};
inline constexpr Key kStateGroups{"number of groups of the recurrent state", "ssm.group_count",
                                  "mamba_n_groups|mamba_ngroups|n_groups|linear_num_key_heads"};
inline constexpr Key kStateHeads{"number of heads of the recurrent state", "ssm.time_step_rank",
                                 "mamba_n_heads|mamba_num_heads|n_mamba_heads|num_heads|linear_num_value_heads"};
inline constexpr Key kStateWidth{"width of recurrent layers", "ssm.inner_size", "mamba_d_ssm|mamba_intermediate"};
inline constexpr Key kStepRank{"rank of steps", "ssm.time_step_rank", "mamba_dt_rank|time_step_rank"};
inline constexpr Key kKeyedHeadDim{"head_dim of recurrent layers", "kda.head_dim", "linear_attn_config.head_dim"};
inline constexpr Key kFullInterval{"period of layers with attention", "full_attention_interval",
                                   "full_attention_interval"};

// --- rope
inline constexpr Key kRopeUsed{"use of rope", "rope.scaling.finetuned", ""};
inline constexpr Key kTheta{"rope_theta", "rope.freq_base", "rope_theta|rotary_emb_base"};
inline constexpr Key kWindowedTheta{"rope_theta of windowed layers", "rope.freq_base_swa", "rope_local_base_freq"};
inline constexpr Key kRopeScaling{"rope scaling", "rope.scaling.type", ""};
inline constexpr Key kRopeFactor{"rope factor", "rope.scaling.factor|rope.scale_linear", ""};
inline constexpr Key kRopeOriginal{"original context", "rope.scaling.original_context_length", ""};
// With YaRN the magnitude of rotated vectors is this key times a default; with longrope it is this key alone.
inline constexpr Key kRopeMagnitude{"attention factor", "rope.scaling.attn_factor", ""};
inline constexpr Key kYarnFast{"beta_fast", "rope.scaling.yarn_beta_fast", ""};
inline constexpr Key kYarnSlow{"beta_slow", "rope.scaling.yarn_beta_slow", ""};
inline constexpr Key kRotaryDim{"rotary_dim", "rope.dimension_count", ""};
inline constexpr Key kWindowedRotaryDim{"rotary_dim of windowed layers", "rope.dimension_count_swa", ""};

// --- xIELU's learned numbers, one per layer; in checkpoints they are tensors, not keys
inline constexpr Key kXieluAlphaP{"xielu alpha_p", ":xielu.alpha_p", "alpha_p"};
inline constexpr Key kXieluAlphaN{"xielu alpha_n", ":xielu.alpha_n", "alpha_n"};
inline constexpr Key kXieluBeta{"xielu beta", ":xielu.beta", "beta"};
inline constexpr Key kXieluEps{"xielu eps", ":xielu.eps", "eps"};

}  // namespace ibid::keys
