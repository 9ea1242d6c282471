"""Converts models with recurrent layers as llama.cpp's converter does, for write_gguf_twins.py beside this file."""
import numpy as np

ARCHITECTURES = {
    "bamba": "granitehybrid", "lfm2": "lfm2", "lfm2_moe": "lfm2moe", "falcon_h1": "falcon-h1", "mamba2": "mamba2",
    "jamba": "jamba", "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe", "qwen3_next": "qwen3next",
    "kimi_linear": "kimi-linear"}
NO_ROPE = {"nemotron_h", "mamba2", "jamba", "kimi_linear"}
QWEN = {"qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"}


def architecture_of(config):
    """Returns None for a model without recurrent layers, or without a name in llama.cpp."""
    kind = config["model_type"]
    if kind == "granitemoehybrid":
        return "granitehybrid" if "mamba" in (config.get("layer_types") or []) else None
    if kind == "nemotron_h":
        return "nemotron_h_moe" if config.get("n_routed_experts") else "nemotron_h"
    return ARCHITECTURES.get(kind)


def attends(config):
    """True for each layer with attention."""
    n = config["num_hidden_layers"]
    if config["model_type"] == "falcon_h1":
        return [True] * n
    if config["model_type"] == "mamba2":
        return [False] * n
    if "hybrid_override_pattern" in config:
        return [letter == "*" for letter in config["hybrid_override_pattern"]]
    if "layer_types" in config:
        return [kind in ("attention", "full_attention") for kind in config["layer_types"]]
    if "attn_layer_indices" in config:
        return [i in config["attn_layer_indices"] for i in range(n)]
    if "attn_layer_period" in config:
        return [i % config["attn_layer_period"] == config["attn_layer_offset"] for i in range(n)]
    if "linear_attn_config" in config:
        return [i + 1 in config["linear_attn_config"]["full_attn_layers"] for i in range(n)]
    return [(i + 1) % config["full_attention_interval"] == 0 for i in range(n)]


def write_keys(writer, config, arch, heads):
    kind, n = config["model_type"], config["num_hidden_layers"]
    get = lambda *names: next((config[k] for k in names if config.get(k) is not None), None)
    layers = attends(config)
    kv_heads = get("num_key_value_heads") or 0
    if kind in QWEN:
        writer.add_full_attention_interval(n if sum(layers) == 1 and layers[-1] else config["full_attention_interval"])
        writer.add_head_count_kv(kv_heads)
    elif kind in ("falcon_h1", "mamba2"):
        writer.add_head_count_kv(kv_heads)
    else:
        writer.add_head_count_kv([(1 if kind == "kimi_linear" else kv_heads) if a else 0 for a in layers])
    if kind in ("lfm2", "lfm2_moe"):
        writer.add_shortconv_l_cache(config["conv_L_cache"])
        return
    if kind == "kimi_linear":
        linear = config["linear_attn_config"]
        writer.add_ssm_conv_kernel(linear["short_conv_kernel_size"])
        writer.add_kda_head_dim(linear["head_dim"])
        return
    writer.add_ssm_conv_kernel(get("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel"))
    writer.add_ssm_state_size(get("linear_key_head_dim", "mamba_d_state", "ssm_state_size", "state_size"))
    if kind == "jamba":
        writer.add_ssm_inner_size(config["mamba_expand"] * config["hidden_size"])
        writer.add_ssm_time_step_rank(config["mamba_dt_rank"])
        return
    n_heads = get("linear_num_value_heads", "mamba_n_heads", "mamba_num_heads", "num_heads")
    width = get("linear_value_head_dim", "mamba_d_head", "mamba_head_dim", "head_dim")
    writer.add_ssm_group_count(get("linear_num_key_heads", "mamba_n_groups", "n_groups"))
    writer.add_ssm_time_step_rank(n_heads)
    writer.add_ssm_inner_size(n_heads * width)
    if arch == "granitehybrid":
        writer.add_rope_scaling_finetuned(kind == "bamba")


def tiled(values, axis, config, width):
    """Reorders value heads, of `width` rows each, to llama.cpp's order: one head of each key head in turn."""
    groups = config["linear_num_key_heads"]
    each = config["linear_num_value_heads"] // groups
    shape = values.shape
    split = values.reshape(*shape[:axis], groups, each, width, *shape[axis + 1:])
    return np.ascontiguousarray(split.swapaxes(axis, axis + 1)).reshape(shape)


def split_qwen35(name, values, config):
    width = config["linear_value_head_dim"]
    keys = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
        return np.concatenate([values[:keys], tiled(values[keys:], 0, config, width)])
    if name.endswith("in_proj_z.weight"):
        return tiled(values, 0, config, width)
    if name.endswith("out_proj.weight"):
        return tiled(values, 1, config, width)
    if name.endswith(("in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias")):
        return tiled(values, 0, config, 1)
    return values


def split_groups(values, config):
    """Splits in_proj_qkvz of Qwen3-Next into q | k | v and z."""
    groups, n = config["linear_num_key_heads"], config["linear_key_head_dim"]
    width = config["linear_num_value_heads"] // groups * config["linear_value_head_dim"]
    by_group = values.reshape(groups, 2 * n + 2 * width, -1)
    q, k, v, z = np.split(by_group, [n, 2 * n, 2 * n + width], axis=1)
    flat = lambda part: part.reshape(-1, values.shape[1])
    return np.concatenate([flat(q), flat(k), flat(v)]), flat(z)


def multiplied(name, values, config):
    """Multiplies Falcon-H1's factors into the weights, as in GGUF. values: floats."""
    m = config["ssm_multipliers"]
    if "down_proj" in name:
        return values * config["mlp_multipliers"][1]
    if "gate_proj" in name:
        return values * config["mlp_multipliers"][0]
    if "k_proj" in name:
        return values * config["key_multiplier"] * config["attention_in_multiplier"]
    if "q_proj" in name or "v_proj" in name:
        return values * config["attention_in_multiplier"]
    if "o_proj" in name:
        return values * config["attention_out_multiplier"]
    if "out_proj" in name:
        return values * config["ssm_out_multiplier"]
    if "in_proj" in name:
        d, gn = config["mamba_d_ssm"], config["mamba_n_groups"] * config["mamba_d_state"]
        factors = np.repeat(m, [d, d, gn, gn, config["mamba_n_heads"]])
        return values * config["ssm_in_multiplier"] * factors[:, None]
    if "lm_head" in name:
        return values * config["lm_head_multiplier"]
    if "embed_tokens" in name:
        return values * config["embedding_multiplier"]
    return values


def tensors_of(tensors, config, widened):
    """Yields (name, dtype, values) of the tensors as the converter has them before it renames them."""
    kind = config["model_type"]
    for name, dtype, values in tensors:
        if kind in ("qwen3_5_text", "qwen3_5_moe_text"):
            values = split_qwen35(name, values, config)
        if kind == "falcon_h1":
            dtype, values = "F32", multiplied(name, widened(dtype, values).astype(np.float64), config).astype(np.float32)
        if name.endswith("in_proj_qkvz.weight"):
            qkv, z = split_groups(values, config)
            yield name.replace("in_proj_qkvz", "in_proj_qkv"), dtype, qkv
            yield name.replace("in_proj_qkvz", "in_proj_z"), dtype, z
            continue
        if ".experts.gate_up_proj" in name:
            half = values.shape[1] // 2
            yield name.replace("gate_up_proj", "gate_proj") + ".weight", dtype, values[:, :half]
            yield name.replace("gate_up_proj", "up_proj") + ".weight", dtype, values[:, half:]
            continue
        if ".experts.down_proj" in name and name.endswith("down_proj"):
            name += ".weight"
        if name.endswith("A_log"):
            rates = -np.exp(widened(dtype, values).astype(np.float64))
            shape = rates.shape if kind in ("jamba", "kimi_linear") else (-1,) if kind in QWEN else (-1, 1)
            yield name, "F32", rates.astype(np.float32).reshape(shape)
            continue
        if name.endswith((".D", "dt_bias")) or "conv" in name.split(".")[-2]:
            values = widened(dtype, values)
            dtype = "F32"
            if name.endswith(".D") and kind != "jamba":
                values = values.reshape(-1, 1)
        if kind == "kimi_linear" and "_conv1d" in name:
            values = values.reshape(1, values.shape[0], 1, values.shape[-1])
        if values.ndim == 3 and values.shape[1] == 1:
            values = values[:, 0, :]
        if name.endswith(("mamba.norm.weight", "mixer.norm.weight")) and "out_proj" not in name:
            groups = config.get("mamba_n_groups") or config.get("n_groups")
            values = values.reshape(groups, -1)
        yield name.replace("dt_bias", "dt_proj.bias"), dtype, values


def known_name(name):
    """The name that the `gguf` package has for a tensor; some converters rename tensors first."""
    for old, new in ((".feed_forward.experts.", ".mlp.experts."), (".feed_forward.router.", ".mlp.gate."),
                     (".mlp.experts.w1.", ".mlp.experts.gate_proj."), (".mlp.experts.w2.", ".mlp.experts.down_proj."),
                     (".mlp.experts.w3.", ".mlp.experts.up_proj."),
                     (".mixer.e_score_correction", ".mixer.gate.e_score_correction"),
                     (".block_sparse_moe.shared_experts.", ".mlp.shared_experts.")):
        name = name.replace(old, new)
    if ".mixer.experts." in name:
        name = name.replace("backbone.", "model.").replace(".mixer.", ".mlp.")
    return name
