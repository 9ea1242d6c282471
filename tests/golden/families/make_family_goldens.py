"""Writes tests/golden/families: parts of architectures that the reference checkpoints do not show, one tiny model each.

    python3 make_family_goldens.py OUT [NAME ...]     needs torch and transformers 5.23 (PyPI); a few seconds on a CPU

Each NAME/ holds config.json and model.safetensors as save_pretrained() writes them, random weights in BF16, and
logits.safetensors: ids.N int64 [T], logits.N float32 [T, vocab_size], computed in float32 of the weights on disk.
"""
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

LENGTHS = (40, 9)  # the first is beyond every window and chunk

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
    # Values that are keys, fewer and wider heads in the layers without a window.
    "gemma4_key_is_value": lambda: transformers.Gemma4TextConfig(**GEMMA4),
    # Experts beside the MLP.
    "gemma4_experts": lambda: transformers.Gemma4TextConfig(**GEMMA4, enable_moe_block=True, num_experts=5,
                                                            top_k_experts=2, moe_intermediate_size=8),
    # A norm of queries and keys with a weight for each head: in one tensor, and in a tensor for each.
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
    # Layers whose attention ends at a chunk's border, others without rope whose queries grow; inputs of experts that
    # are weighed by sigmoids, a shared expert, layers without experts.
    "llama4_text": lambda: transformers.Llama4TextConfig(**dict(SIZES, max_position_embeddings=256, num_hidden_layers=4),
                                                         num_key_value_heads=2, head_dim=8, intermediate_size=12,
                                                         intermediate_size_mlp=24, num_local_experts=4,
                                                         num_experts_per_tok=2, interleave_moe_layer_step=2,
                                                         attention_chunk_size=64, floor_scale=16, attn_scale=0.3,
                                                         no_rope_layers=[1, 0, 1, 1]),
    # Models that also see: of text their three positions are one.
    "qwen2_vl": lambda: transformers.Qwen2VLConfig(text_config=VL_TEXT, vision_config=dict(VISION, embed_dim=8,
                                                                                           hidden_size=16)),
    "qwen2_5_vl": lambda: transformers.Qwen2_5_VLConfig(text_config=VL_TEXT, vision_config=dict(
        VISION, hidden_size=8, intermediate_size=12, out_hidden_size=16, fullatt_block_indexes=[0])),
    "qwen3_vl": lambda: transformers.Qwen3VLConfig(text_config=dict(VL_TEXT, head_dim=6), vision_config=VISION3),
    "qwen3_vl_moe": lambda: transformers.Qwen3VLMoeConfig(
        text_config=dict(VL_TEXT, head_dim=6, moe_intermediate_size=8, num_experts=5, num_experts_per_tok=2,
                         decoder_sparse_step=1), vision_config=VISION3),
}
OWN_LENGTHS = {"llama4_text": (150, 9)}  # over two borders of chunks


def draw(model):
    """Weights that keep the size of what goes through them; norms and scales near 1."""
    learned = list(model.named_parameters()) + [b for b in model.named_buffers() if b[0].endswith("layer_scalar")]
    for name, values in learned:
        if values.ndim >= 2 and "norm" not in name:
            size = 1.0 if "embed" in name else 1.6
            values.copy_(torch.randn_like(values) * size / values.shape[-1] ** 0.5)
        else:
            values.copy_(1 + 0.2 * torch.randn_like(values))


def main(out, only):
    torch.set_num_threads(1)
    for seed, (name, config) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        directory = out / name
        if only and name not in only:
            continue
        settings = config()
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
        for i, length in enumerate(OWN_LENGTHS.get(name, LENGTHS)):
            ids = torch.randint(3, SIZES["vocab_size"], (1, length))
            with torch.no_grad():
                logits = on_disk(input_ids=ids, use_cache=False).logits[0]
            tensors[f"ids.{i}"], tensors[f"logits.{i}"] = ids[0].contiguous(), logits.float().contiguous()
        save_file(tensors, directory / "logits.safetensors")
        print(name, f"logits up to {logits.abs().max():.1f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
