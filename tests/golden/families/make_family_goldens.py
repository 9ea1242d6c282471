"""Writes tests/golden/families: parts of architectures that the reference checkpoints do not show, one tiny model each.

    python3 make_family_goldens.py OUT     needs torch and transformers 5.23 (PyPI); a few seconds on a CPU

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
}


def draw(model):
    """Weights that keep the size of what goes through them; norms and scales near 1."""
    learned = list(model.named_parameters()) + [b for b in model.named_buffers() if b[0].endswith("layer_scalar")]
    for name, values in learned:
        if values.ndim >= 2 and "norm" not in name:
            size = 1.0 if "embed" in name else 1.6
            values.copy_(torch.randn_like(values) * size / values.shape[-1] ** 0.5)
        else:
            values.copy_(1 + 0.2 * torch.randn_like(values))


def main(out):
    torch.set_num_threads(1)
    for seed, (name, config) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        directory = out / name
        model = transformers.AutoModelForCausalLM.from_config(config())
        with torch.no_grad():
            draw(model)
        model.to(torch.bfloat16).save_pretrained(directory)
        (directory / "generation_config.json").unlink()
        on_disk = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
        tensors = {}
        for i, length in enumerate(LENGTHS):
            ids = torch.randint(3, SIZES["vocab_size"], (1, length))
            with torch.no_grad():
                logits = on_disk(input_ids=ids, use_cache=False).logits[0]
            tensors[f"ids.{i}"], tensors[f"logits.{i}"] = ids[0].contiguous(), logits.float().contiguous()
        save_file(tensors, directory / "logits.safetensors")
        print(name, f"logits up to {logits.abs().max():.1f}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
