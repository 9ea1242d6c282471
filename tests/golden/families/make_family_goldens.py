"""Writes tests/golden/families: parts of architectures that no reference checkpoint covers, one tiny model each.

    python3 make_family_goldens.py OUT [NAME ...]     needs torch and transformers 5.23 (PyPI); a few seconds on a CPU

Each NAME/ holds config.json and model.safetensors as save_pretrained() writes them, random weights in BF16, and
logits.safetensors: ids.N int64 [T], logits.N float32 [T, vocab_size], computed in float32 of the weights on disk.
"""
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

LENGTHS = (40, 9)  # the first exceeds every window and chunk

SIZES = dict(vocab_size=40, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=128,
             pad_token_id=0, bos_token_id=1, eos_token_id=2)
GEMMA4 = dict(SIZES, intermediate_size=24, num_key_value_heads=2, head_dim=4, global_head_dim=12, sliding_window=7,
              layer_types=["sliding_attention", "sliding_attention", "full_attention"], hidden_size_per_layer_input=0,
              final_logit_softcapping=7.0, attention_k_eq_v=True, num_global_key_value_heads=1,
              rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                               "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.34,
                                                  "rope_theta": 1000000.0}})

ROPE3 = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 1]}
VL_TEXT = dict(SIZES, intermediate_size=24, num_key_value_heads=2, hidden_size=24, rope_parameters=ROPE3)
VISION = dict(depth=1, num_heads=2, patch_size=2, temporal_patch_size=1, spatial_merge_size=1)
VISION3 = dict(VISION, hidden_size=8, intermediate_size=12, out_hidden_size=24, num_position_embeddings=4,
               deepstack_visual_indexes=[0])

MODELS = {
    # Keys used as values; fewer and wider heads in layers without a window.
    "gemma4_key_is_value": lambda: transformers.Gemma4TextConfig(**GEMMA4),
    # Experts beside the MLP.
    "gemma4_experts": lambda: transformers.Gemma4TextConfig(**GEMMA4, enable_moe_block=True, num_experts=5,
                                                            top_k_experts=2, moe_intermediate_size=8),
    # A norm of queries and keys with weights per head: in one tensor, and in one tensor per head.
    "cohere_qk_norm": lambda: transformers.CohereConfig(**SIZES, intermediate_size=24, num_key_value_heads=2,
                                                        use_qk_norm=True, logit_scale=0.5),
    "stablelm_qk_norm": lambda: transformers.StableLmConfig(**SIZES, intermediate_size=24, num_key_value_heads=2,
                                                            qk_layernorm=True, use_parallel_residual=True,
                                                            partial_rotary_factor=0.5),
    "arcee": lambda: transformers.ArceeConfig(**SIZES, intermediate_size=24, num_key_value_heads=2, head_dim=6),
    "dots1": lambda: transformers.Dots1Config(**SIZES, intermediate_size=24, moe_intermediate_size=8, head_dim=6,
                                              num_key_value_heads=2, n_routed_experts=8, num_experts_per_tok=3,
                                              n_shared_experts=2, n_group=2, topk_group=1, first_k_dense_replace=1,
                                              norm_topk_prob=True, routed_scaling_factor=1.5),
    # Layers with chunked attention, others without RoPE and with scaled queries; expert inputs weighted by sigmoids, a
    # shared expert, layers without experts.
    "llama4_text": lambda: transformers.Llama4TextConfig(**dict(SIZES, max_position_embeddings=256, num_hidden_layers=4),
                                                         num_key_value_heads=2, head_dim=8, intermediate_size=12,
                                                         intermediate_size_mlp=24, num_local_experts=4,
                                                         num_experts_per_tok=2, interleave_moe_layer_step=2,
                                                         attention_chunk_size=64, floor_scale=16, attn_scale=0.3,
                                                         no_rope_layers=[1, 0, 1, 1]),
    # Multimodal models: for text, their three position components are equal.
    "qwen2_vl": lambda: transformers.Qwen2VLConfig(text_config=VL_TEXT, vision_config=dict(VISION, embed_dim=8,
                                                                                           hidden_size=16)),
    "qwen2_5_vl": lambda: transformers.Qwen2_5_VLConfig(text_config=VL_TEXT, vision_config=dict(
        VISION, hidden_size=8, intermediate_size=12, out_hidden_size=16, fullatt_block_indexes=[0])),
    "qwen3_vl": lambda: transformers.Qwen3VLConfig(text_config=dict(VL_TEXT, head_dim=6), vision_config=VISION3),
    "qwen3_vl_moe": lambda: transformers.Qwen3VLMoeConfig(
        text_config=dict(VL_TEXT, head_dim=6, moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2,
                         decoder_sparse_step=1), vision_config=VISION3),
}
HYBRID = dict(SIZES, intermediate_size=24, num_key_value_heads=2)
MAMBA = dict(mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_proj_bias=True)
MAMBA2 = dict(MAMBA, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2, mamba_chunk_size=16)
MOE = dict(moe_intermediate_size=8, num_experts_per_tok=2)
ZAMBA2 = dict(HYBRID, num_key_value_heads=4, mamba_d_state=8, mamba_ngroups=2, n_mamba_heads=4, num_mem_blocks=1,
              adapter_rank=6, chunk_size=16, use_mem_rope=True, layers_block_type=["hybrid", "mamba", "hybrid"])

# Biases, adapters and scales that an option of the configuration turns on or off.
MODELS |= {
    "jamba_biases": lambda: transformers.JambaConfig(
        **HYBRID, **MAMBA, mamba_dt_rank=4, attn_layer_period=3, attn_layer_offset=1, expert_layer_period=2,
        expert_layer_offset=1, num_experts=4, num_experts_per_tok=2, use_mamba_kernels=False),
    "lfm2_biases": lambda: transformers.Lfm2Config(
        **HYBRID, conv_bias=True, conv_L_cache=3, block_auto_adjust_ff_dim=False,
        layer_types=["conv", "full_attention", "conv"]),
    "lfm2_moe_biases": lambda: transformers.Lfm2MoeConfig(
        **HYBRID, **MOE, conv_bias=True, conv_L_cache=3, num_experts=4, num_dense_layers=1,
        layer_types=["conv", "full_attention", "conv"]),
    "mamba2_biases": lambda: transformers.Mamba2Config(
        vocab_size=40, hidden_size=16, num_hidden_layers=3, num_heads=4, head_dim=8, state_size=8, n_groups=2,
        chunk_size=16, use_bias=True, rms_norm=False, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "zamba2_adapters": lambda: transformers.Zamba2Config(**ZAMBA2, use_shared_attention_adapter=True,
                                                         add_bias_linear=True),
    "bamba_biases": lambda: transformers.BambaConfig(**HYBRID, **MAMBA2, attn_layer_indices=[1], attention_bias=True,
                                                     mlp_bias=True),
    "granitemoehybrid_biases": lambda: transformers.GraniteMoeHybridConfig(
        **HYBRID, **MAMBA2, layer_types=["mamba", "attention", "mamba"], num_local_experts=0, attention_bias=True,
        shared_intermediate_size=24, attention_multiplier=0.5, residual_multiplier=0.7, logits_scaling=2.0),
    "falcon_h1_biases": lambda: transformers.FalconH1Config(
        **HYBRID, **MAMBA2, head_dim=4, attention_bias=True, mlp_bias=True, projectors_bias=True, mamba_d_ssm=32,
        attention_in_multiplier=0.7, attention_out_multiplier=0.8, key_multiplier=0.6, ssm_in_multiplier=1.3,
        ssm_out_multiplier=0.9, ssm_multipliers=[0.7, 0.8, 1.2, 1.3, 0.9], mlp_multipliers=[0.8, 1.2]),
    # The output head is not tied, whatever the configuration says.
    "nemotron_h_biases": lambda: transformers.NemotronHConfig(
        **dict(HYBRID, num_hidden_layers=4), **MOE, layers_block_type=["mamba", "attention", "mlp", "moe"], head_dim=4,
        tie_word_embeddings=True, attention_bias=True, mlp_bias=True, mamba_proj_bias=True, mamba_num_heads=4,
        mamba_head_dim=8, n_groups=2, ssm_state_size=8, chunk_size=16, n_routed_experts=4, n_shared_experts=1,
        moe_shared_expert_intermediate_size=8),
    "qwen3_5_biases": lambda: transformers.Qwen3_5TextConfig(
        **HYBRID, head_dim=8, attention_bias=True, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=4, linear_value_head_dim=4,
        layer_types=["linear_attention", "full_attention", "linear_attention"]),
    "gemma4_biases": lambda: transformers.Gemma4TextConfig(**GEMMA4, attention_bias=True),
    "ernie4_5_moe_biases": lambda: transformers.Ernie4_5_MoeConfig(
        **HYBRID, moe_intermediate_size=8, moe_num_experts=4, moe_k=2, moe_num_shared_experts=1,
        moe_layer_start_index=1, use_bias=True),
    "kimi_linear": lambda: transformers.KimiLinearConfig(
        **dict(HYBRID, num_key_value_heads=4), moe_intermediate_size=8, num_experts=4, num_experts_per_token=2,
        num_shared_experts=1, kv_lora_rank=8, qk_nope_head_dim=4, qk_rope_head_dim=4, v_head_dim=4, head_dim=8,
        first_k_dense_replace=1, model_max_length=128, linear_attn_config=dict(
            full_attn_layers=[2], kda_layers=[1, 3], num_heads=4, head_dim=4, short_conv_kernel_size=4)),
    "deepseek_v3_halves": lambda: transformers.DeepseekV3Config(
        **dict(HYBRID, num_key_value_heads=4), **MOE, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4,
        qk_nope_head_dim=4, v_head_dim=4, n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1,
        first_k_dense_replace=1, rope_interleave=False, attention_bias=True),
    "afmoe_unscaled": lambda: transformers.AfmoeConfig(
        **HYBRID, **MOE, head_dim=4, num_experts=4, num_shared_experts=1, num_dense_layers=1, sliding_window=7,
        global_attn_every_n_layers=3, mup_enabled=False),
    "gpt2_unscaled": lambda: transformers.GPT2Config(
        vocab_size=40, n_positions=128, n_embd=16, n_layer=3, n_head=4, scale_attn_weights=False,
        scale_attn_by_inverse_layer_idx=True, bos_token_id=1, eos_token_id=2),
    "zamba2_untied": lambda: transformers.Zamba2Config(
        **dict(ZAMBA2, num_hidden_layers=2, layers_block_type=["hybrid", "hybrid"], tie_word_embeddings=False)),
    "gemma2_uncapped": lambda: transformers.Gemma2Config(
        **HYBRID, head_dim=4, sliding_window=7, query_pre_attn_scalar=4, attn_logit_softcapping=None,
        final_logit_softcapping=None),
}
OWN_LENGTHS = {"llama4_text": (150, 9)}  # crosses two chunk boundaries


def draw(model):
    """Weights that preserve the magnitude of activations; norms and scales near 1."""
    learned = list(model.named_parameters()) + [b for b in model.named_buffers() if b[0].endswith("layer_scalar")]
    for name, values in learned:
        if values.ndim >= 2 and "norm" not in name:
            size = 1.0 if "embed" in name else 1.6
            values.copy_(torch.randn_like(values) * size / values.shape[-1] ** 0.5)
        else:
            values.copy_(1 + 0.2 * torch.randn_like(values))


def noise(model, tensors):
    """Maximum change of the logits for random relative changes of all weights of about 1e-6."""
    generator = torch.Generator().manual_seed(0)
    moved = 0.0
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + 1e-6 * torch.randn(weight.shape, generator=generator))
        for i in range(2):
            logits = model(input_ids=tensors[f"ids.{i}"][None], use_cache=False).logits[0]
            moved = max(moved, (logits - tensors[f"logits.{i}"]).abs().max().item())
    return moved


def write(directory, settings, lengths):
    """Returns the noise of the written logits."""
    sees = hasattr(settings, "vision_config")
    family = transformers.AutoModelForImageTextToText if sees else transformers.AutoModelForCausalLM
    model = family.from_config(settings)
    with torch.no_grad():
        draw(model)
    model.to(torch.bfloat16).save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    on_disk = family.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    tensors = {}
    for i, length in enumerate(lengths):
        ids = torch.randint(3, SIZES["vocab_size"], (1, length))
        with torch.no_grad():
            logits = on_disk(input_ids=ids, use_cache=False).logits[0]
        tensors[f"ids.{i}"], tensors[f"logits.{i}"] = ids[0].contiguous(), logits.float().contiguous()
    save_file(tensors, directory / "logits.safetensors")
    return noise(on_disk, tensors)


def main(out, only):
    torch.set_num_threads(1)
    for index, (name, config) in enumerate(MODELS.items()):
        if only and name not in only:
            continue
        # Seeds of one model are 28 apart. Weights whose activations grow without bound from layer to layer test only
        # the order of sums, so the next seed is used.
        for seed in range(index, index + 2800, 28):
            torch.manual_seed(seed)
            moved = write(out / name, config(), OWN_LENGTHS.get(name, LENGTHS))
            if moved < 4e-4:
                break
        print(name, f"seed {seed}, moved by {moved:.1e}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
