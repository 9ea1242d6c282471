"""write_gguf_twins.py DIRECTORIES.. OUT: writes each tiny checkpoint that llama.cpp supports to OUT/NAME.gguf.

A directory is a checkpoint or contains some. For Llama 4, llama.cpp has constants instead of GGUF keys: OUT/NAME is a
copy of the checkpoint with these constants.

Names, keys and constants are from the `gguf` package (PyPI), the changes to tensors of a family from llama.cpp's
convert_hf_to_gguf.py: an implementation independent of ibid. tests/model/gguf_twins_test.cc compares the logits.
"""
import json
import math
import pathlib
import shutil
import statistics
import struct
import sys

import gguf
import numpy as np

import recurrent_twins

ARCHITECTURES = {
    "llama": "llama", "mistral": "llama", "ministral3": "mistral3", "qwen2": "qwen2", "qwen3": "qwen3",
    "gemma": "gemma", "gemma2": "gemma2", "gemma3_text": "gemma3", "gemma3n_text": "gemma3n",
    "gemma4_text": "gemma4", "phi3": "phi3", "smollm3": "smollm3",
    "granite": "granite", "olmo2": "olmo2", "olmo3": "olmo2", "glm4": "glm4", "cohere": "command-r",
    "cohere2": "cohere2", "exaone4": "exaone4", "ernie4_5": "ernie4_5", "hunyuan_v1_dense": "hunyuan-dense",
    "seed_oss": "seed_oss", "stablelm": "stablelm", "starcoder2": "starcoder2", "gpt2": "gpt2",
    "gpt_neox": "gptneox", "falcon": "falcon", "nemotron": "nemotron", "apertus": "apertus",
    "afmoe": "afmoe", "deepseek_v3": "deepseek2", "ernie4_5_moe": "ernie4_5-moe", "glm4_moe": "glm4moe",
    "glm4_moe_lite": "deepseek2", "gpt_oss": "gpt-oss", "granitemoe": "granitemoe", "granitemoehybrid": "granite",
    "llama4_text": "llama4", "mixtral": "llama", "olmoe": "olmoe", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe"}
PERMUTED = {"llama", "mistral", "mixtral", "ministral3", "smollm3", "granite", "granitemoe", "granitemoehybrid", "bamba"}
LATENT = {"deepseek_v3", "glm4_moe_lite", "kimi_linear"}
BY_SIGMOID = {"deepseek_v3", "glm4_moe_lite", "glm4_moe", "afmoe", "lfm2_moe", "nemotron_h", "kimi_linear"}
ONE_IS_ADDED = {"gemma", "gemma2", "gemma3_text", "nemotron"} | recurrent_twins.QWEN
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U8": np.uint8}


def read_tensors(directory):
    for path in sorted(directory.glob("model*.safetensors")):
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                values = np.frombuffer(data[8 + length + begin:8 + length + end], DTYPES[entry["dtype"]])
                yield name, entry["dtype"], values.reshape(entry["shape"])


def widened(dtype, values):
    if dtype == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


class Shape:
    def __init__(self, config):
        get = lambda *names: next((config[n] for n in names if config.get(n) is not None), None)
        self.kind = config["model_type"]
        self.layers = get("num_hidden_layers", "n_layer")
        self.dim = get("hidden_size", "n_embd")
        self.recurrent = recurrent_twins.architecture_of(config)
        self.heads = get("num_attention_heads", "n_head") or 0
        self.kv_heads = get("num_key_value_heads", "num_kv_heads") or self.heads
        self.head_dim = get("head_dim") or self.dim // max(self.heads, 1)
        self.ffn = get("block_ff_dim", "intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_hidden_size") or 4 * self.dim
        if self.kind in LATENT:
            self.head_dim = config["qk_rope_head_dim"]
        self.has_experts = bool(get("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"))
        self.context = get("max_position_embeddings", "n_positions") or 2 ** 20
        self.rms_eps = get("rms_norm_eps")
        self.eps = get("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
        if self.recurrent:
            self.rms_eps, self.eps = self.rms_eps or self.eps, None
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        self.windowed_rope = rope.get("sliding_attention")
        rope = rope.get("full_attention", rope)
        self.windowed_head_dim = self.head_dim
        self.head_dim = get("global_head_dim") or self.head_dim
        self.rope = rope
        share = get("partial_rotary_factor", "rotary_pct") or (rope.get("partial_rotary_factor") if self.recurrent else 1)
        self.rotary_dim = int(self.head_dim * (share or 1.0))
        self.rope_kind = rope.get("rope_type", rope.get("type", "default"))
        self.has_rope = self.kind not in {"gpt2"} | recurrent_twins.NO_ROPE
        self.theta = rope.get("rope_theta") or get("rope_theta", "rotary_emb_base") or 10000.0


def write_rope(writer, config, s):
    writer.add_rope_dimension_count(s.rotary_dim)
    writer.add_rope_freq_base(float(s.theta))
    half = s.rotary_dim // 2
    original = config.get("original_max_position_embeddings") or s.rope.get("original_max_position_embeddings")
    if s.windowed_rope:
        writer.add_rope_freq_base_swa(s.windowed_rope["rope_theta"])
    if s.rope_kind == "proportional":
        turning = int(s.head_dim * s.rope["partial_rotary_factor"] / 2)
        writer.add_tensor("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (half - turning), np.float32))
    if s.rope_kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(s.rope["factor"])
    elif s.rope_kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(s.rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(original)
        if "attention_factor" in s.rope:
            # Omitted by the converter: published models have the default, which llama.cpp multiplies by this factor.
            writer.add_rope_scaling_attn_factors(s.rope["attention_factor"] / (1 + 0.1 * math.log(s.rope["factor"])))
        if "mscale_all_dim" in s.rope and s.kind in LATENT:
            writer.add_rope_scaling_yarn_log_mul(0.1 * s.rope["mscale_all_dim"])
        elif "mscale_all_dim" in s.rope:
            writer.add_rope_scaling_yarn_log_mul(s.rope["mscale_all_dim"])
            writer.add_rope_scaling_yarn_beta_fast(s.rope["beta_fast"])
            writer.add_rope_scaling_yarn_beta_slow(s.rope["beta_slow"])
            writer.add_attn_temperature_scale(s.rope["llama_4_scaling_beta"])
    elif s.rope_kind == "longrope":
        scale = s.context / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(
            math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)
        for which in ("long", "short"):
            writer.add_tensor(f"rope_factors_{which}.weight", np.array(s.rope[f"{which}_factor"], np.float32))
    elif s.rope_kind == "llama3":
        factors = []
        for i in range(half):
            wave = 2 * math.pi * s.theta ** (2 * i / s.rotary_dim)
            low, high = (s.rope["original_max_position_embeddings"] / s.rope[k]
                         for k in ("low_freq_factor", "high_freq_factor"))
            smooth = 0 if low == high else (s.rope["original_max_position_embeddings"] / wave
                                            - s.rope["low_freq_factor"]) / (s.rope["high_freq_factor"]
                                                                           - s.rope["low_freq_factor"])
            factors.append(1 if wave < high else s.rope["factor"] if wave > low
                           else 1 / ((1 - smooth) / s.rope["factor"] + smooth))
        writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))


def write_gemma_keys(writer, config, s):
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    if s.kind == "gemma4_text":
        writer.add_key_length_swa(s.windowed_head_dim)
        writer.add_value_length_swa(s.windowed_head_dim)
        writer.add_rope_dimension_count_swa(s.windowed_head_dim)
        return
    writer.add_altup_active_idx(config["altup_active_idx"])
    writer.add_altup_num_inputs(config["altup_num_inputs"])
    normal = statistics.NormalDist()
    writer.add_activation_sparsity_scale(
        [normal.inv_cdf(share) if share > 0 else -math.inf for share in config["activation_sparsity_pattern"]])


def write_latent_keys(writer, config):
    if config.get("q_lora_rank"):
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    # llama.cpp computes with the latents: one key and value for all heads.
    writer.add_key_length(config["kv_lora_rank"] + config["qk_rope_head_dim"])
    writer.add_value_length(config["kv_lora_rank"])
    writer.add_key_length_mla(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
    writer.add_value_length_mla(config["v_head_dim"])


def write_expert_keys(writer, config, s):
    get = lambda *names: next((config[n] for n in names if config.get(n) is not None), None)
    writer.add_expert_count(get("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"))
    writer.add_expert_used_count(get("num_experts_per_tok", "moe_k", "num_experts_per_token"))
    width = get("moe_intermediate_size") or {"gpt_oss": s.ffn, "llama4_text": get("intermediate_size")}.get(s.kind)
    if width:
        writer.add_expert_feed_forward_length(width)
    if s.kind == "gpt_oss":  # the converter omits it: llama.cpp has a default of 7
        writer.add_float32("gpt-oss.swiglu_clamp_exp", config["swiglu_limit"])
    n_shared = get("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    if n_shared is not None:
        writer.add_expert_shared_count(n_shared)
        if s.kind == "ernie4_5_moe":
            writer.add_expert_shared_feed_forward_length(n_shared * width)
    if s.recurrent and n_shared == 1 and s.kind == "kimi_linear":
        writer.add_expert_shared_feed_forward_length(width)
    wide = get("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
               "shared_intermediate_size" if s.recurrent else "shared_expert_intermediate_size")
    if wide:
        writer.add_expert_shared_feed_forward_length(wide)
    if s.kind in BY_SIGMOID:
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    scale, norm = get("routed_scaling_factor", "route_scale"), get("norm_topk_prob", "route_norm", "moe_renormalize")
    if scale is not None:
        writer.add_expert_weights_scale(scale)
    if norm is not None:
        writer.add_expert_weights_norm(norm)
    elif s.kind == "afmoe":
        writer.add_expert_weights_norm(True)
    if (config.get("n_group") or 1) > 1:
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    leading = get("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
    if leading is not None:
        writer.add_leading_dense_block_count(leading)
    if get("moe_layer_interval", "interleave_moe_layer_step"):
        writer.add_interleave_moe_layer_step(get("moe_layer_interval", "interleave_moe_layer_step"))


def write_keys(writer, config, s):
    writer.add_context_length(s.context)
    writer.add_embedding_length(s.dim)
    writer.add_block_count(s.layers)
    doubled = config.get("num_kv_shared_layers", 0) if config.get("use_double_wide_mlp") else 0
    widths = s.ffn
    if s.kind == "nemotron_h":
        widths = [{"-": s.ffn, "E": config["moe_intermediate_size"]}.get(c, 0) for c in config["hybrid_override_pattern"]]
    elif s.kind == "mamba2":
        widths = 0
    writer.add_feed_forward_length(widths if s.recurrent else [s.ffn] * (s.layers - doubled) + [2 * s.ffn] * doubled if doubled else s.ffn)
    writer.add_head_count(s.heads)
    if s.recurrent:
        recurrent_twins.write_keys(writer, config, s.recurrent, s.heads)
    else:
        writer.add_head_count_kv(1 if s.kind in LATENT else s.kv_heads)
    writer.add_vocab_size(config["vocab_size"])
    if s.kind in LATENT:
        write_latent_keys(writer, config)
    elif config.get("head_dim") and s.heads:
        writer.add_key_length(s.head_dim)
        writer.add_value_length(s.head_dim)
    if s.kind in ("gemma3n_text", "gemma4_text"):
        write_gemma_keys(writer, config, s)
    if s.has_experts:
        write_expert_keys(writer, config, s)
    if s.rms_eps is not None:
        writer.add_layer_norm_rms_eps(s.rms_eps)
    if s.eps is not None:
        writer.add_layer_norm_eps(s.eps)
    if s.kind in LATENT and not s.has_rope:
        writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    if s.has_rope:
        write_rope(writer, config, s)
    windows = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    if windows:  # also in Mistral and StarCoder 2, for which the converter omits them: llama.cpp has no windows there
        writer.add_sliding_window(windows)
        # The converter writes a list only if llama.cpp has no default period for the architecture; these models are too
        # small to have the default one.
        if "layer_types" in config:
            writer.add_sliding_window_pattern([t == "sliding_attention" for t in config["layer_types"]])
        elif "max_window_layers" in config:
            writer.add_sliding_window_pattern([i >= config["max_window_layers"] for i in range(s.layers)])
    if s.kind == "gemma2":
        # The converter omits it, since all published models have the default; the tiny one does not.
        writer.add_attention_scale(config["query_pre_attn_scalar"] ** -0.5)
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if s.kind == "gemma3_text":
        writer.add_float32("gemma3.rope.freq_base_swa", config["rope_local_base_freq"])
    if s.kind.startswith("granite"):
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if "logit_scale" in config:
        writer.add_logit_scale(config["logit_scale"])
    if "use_parallel_residual" in config:
        writer.add_parallel_residual(config["use_parallel_residual"])


def converted(name, values, s):
    """A tensor as the converter changes it; name is Hugging Face's."""
    if s.kind in PERMUTED and name.endswith(("q_proj.weight", "k_proj.weight")):
        # The converter permutes all rows of a partly rotated head, but llama.cpp requires only the rotated ones.
        heads = s.heads if ".q_proj." in name else s.kv_heads
        by_head = values.reshape(heads, -1, values.shape[1])
        turned = by_head[:, :s.rotary_dim].reshape(heads, 2, s.rotary_dim // 2, -1).swapaxes(1, 2)
        rest = by_head[:, s.rotary_dim:]
        return np.concatenate([turned.reshape(heads, s.rotary_dim, -1), rest], axis=1).reshape(values.shape)
    if s.kind == "gpt2" and values.ndim == 2 and ".h." in name:
        return values.T
    if "query_key_value" in name:
        group = s.heads // s.kv_heads
        by_group = values.reshape(s.kv_heads, group + 2, s.head_dim, *values.shape[1:])
        parts = [by_group[:, :group], by_group[:, group], by_group[:, group + 1]]
        return np.concatenate([part.reshape(-1, *values.shape[1:]) for part in parts])
    return values


def swapped(blocks):
    """16 bytes in ggml's order (byte j has values j and j + 16) from gpt-oss's (byte j has values 2 j and 2 j + 1)."""
    values = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    return values[..., :16] | values[..., 16:] << 4


def split(name, dtype, values, config, s, parts):
    """Yields the converter's tensors for one of a checkpoint, with names that the map has; parts: tensors that wait for
    others."""
    if name.endswith("kv_b_proj.weight"):
        by_head = values.reshape(s.heads, -1, values.shape[-1])
        nope = config["qk_nope_head_dim"]
        yield name.replace("kv_b_proj", "k_b_proj"), dtype, by_head[:, :nope].swapaxes(1, 2)
        yield name.replace("kv_b_proj", "v_b_proj"), dtype, by_head[:, nope:]
    elif "shared_mlp.input_linear" in name:
        half, mlp = values.shape[0] // 2, "mlp.shared_expert" if s.recurrent and s.has_experts else "mlp"
        yield name.replace("shared_mlp.input_linear", mlp + ".gate_proj"), dtype, values[:half]
        yield name.replace("shared_mlp.input_linear", mlp + ".up_proj"), dtype, values[half:]
    elif "shared_mlp.output_linear" in name:
        mlp = "mlp.shared_expert" if s.recurrent and s.has_experts else "mlp"
        yield name.replace("shared_mlp.output_linear", mlp + ".down_proj"), dtype, values
    elif "block_sparse_moe.input_linear" in name:
        half = values.shape[1] // 2
        yield name.replace("block_sparse_moe.input_linear", "mlp.experts.gate_proj"), dtype, values[:, :half]
        yield name.replace("block_sparse_moe.input_linear", "mlp.experts.up_proj"), dtype, values[:, half:]
    elif s.kind == "llama4_text" and name.endswith("experts.gate_up_proj"):
        gate, up = np.split(values.swapaxes(1, 2), 2, axis=1)
        yield name.replace("gate_up_proj", "gate_proj.weight"), dtype, gate
        yield name.replace("gate_up_proj", "up_proj.weight"), dtype, up
    elif s.kind == "llama4_text" and name.endswith("experts.down_proj"):
        yield name + ".weight", dtype, values.swapaxes(1, 2)
    elif s.kind == "gpt_oss" and ".experts." in name:
        if name.endswith(("_blocks", "_scales")):
            stem = name.rsplit("_", 1)[0]
            parts.setdefault(stem, {})[name[-6:]] = values
            if len(parts[stem]) < 2:
                return
            dtype = "MXFP4"
            values = np.concatenate([parts[stem]["scales"][..., None], swapped(parts[stem]["blocks"])], axis=-1)
            values = values.reshape(*values.shape[:2], -1)
            name = stem
        elif not name.endswith("_bias"):
            values = values.swapaxes(1, 2)
        suffix = ".bias" if name.endswith("_bias") else ".weight"
        name = name.removesuffix("_bias")
        if name.endswith("gate_up_proj"):
            yield name.replace("gate_up_proj", "gate_proj") + suffix, dtype, values[:, 0::2]
            yield name.replace("gate_up_proj", "up_proj") + suffix, dtype, values[:, 1::2]
        else:
            yield name + suffix, dtype, values
    elif ".experts." in name and name.split(".experts.")[1][0].isdigit():
        before, after = name.split(".experts.")
        number, which = after.split(".", 1)
        experts = parts.setdefault(f"{before}.experts.{which}", {})
        experts[int(number)] = values
        count = next(config[n] for n in ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
                     if config.get(n))
        if len(experts) == count:
            yield f"{before}.experts.{which}", dtype, np.stack([experts[i] for i in range(count)])
    else:
        name = name.replace(".moe_statics.e_score_correction_bias", ".moe_statics.e_score_correction.bias")
        name = name.replace(".gate.e_score_correction_bias", ".e_score_correction.bias")
        if name.endswith((".expert_bias", ".sinks")):
            name += ".bias" if name.endswith(".expert_bias") else ".weight"
        yield name, dtype, values


def split_tensors(directory, config, s):
    parts = {}
    tensors = read_tensors(directory)
    for name, dtype, values in recurrent_twins.tensors_of(tensors, config, widened) if s.recurrent else tensors:
        yield from split(name, dtype, values, config, s, parts)


def write_twin(directory, out):
    config = json.loads((directory / "config.json").read_text())
    s = Shape(config)
    name_of = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}
    arch = s.recurrent or ARCHITECTURES[s.kind]
    writer = gguf.GGUFWriter(str(out), arch)
    writer.add_tokenizer_model("none")
    write_keys(writer, config, s)
    names = gguf.get_tensor_name_map(name_of[arch], s.layers)
    learned = {}
    stacked = {}
    for name, dtype, values in split_tensors(directory, config, s):
        if ".act_fn." in name:
            learned.setdefault(name.rsplit(".", 1)[1], []).append(float(widened(dtype, values).reshape(-1)[0]))
            continue
        if name.startswith(("model.altup_projections.", "model.altup_unembed_projections.")):
            stacked.setdefault(name.split(".")[1], []).append(values)
            continue
        if name.endswith(("layer_scalar", "correct_output_scale")):
            name += ".weight"
        mapped = names.get_name(recurrent_twins.known_name(name), try_suffixes=(".weight", ".bias"))
        assert mapped is not None, f"{directory.name}: gguf has no name for {name}"
        values = np.ascontiguousarray(converted(name, values, s))
        if dtype == "MXFP4":
            writer.add_tensor(mapped, values, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
        elif values.ndim == 1 or "ffn_gate_inp" in mapped or mapped.endswith((".bias", "_norm.weight")):
            values = widened(dtype, values)
            if s.kind in ONE_IS_ADDED and name.endswith("norm.weight") and "linear_attn" not in name:
                values = values + np.float32(1)
            writer.add_tensor(mapped, values)
        elif dtype == "BF16":
            writer.add_tensor(mapped, values.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(mapped, values)
    for kind, matrices in stacked.items():
        mapped = names.get_name(f"model.{kind}.weight", try_suffixes=(".weight",))
        writer.add_tensor(mapped, np.stack(matrices).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    for which, numbers in learned.items():
        getattr(writer, f"add_xielu_{which}")(numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def with_numbers_of_llama_cpp(checkpoint, config, out):
    n = config["num_hidden_layers"]
    turns = [(i + 1) % 4 != 0 for i in range(n)]
    config |= {"attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1,
               "no_rope_layers": [int(t) for t in turns],
               "layer_types": ["chunked_attention" if t else "full_attention" for t in turns]}
    out.mkdir(exist_ok=True)
    (out / "config.json").write_text(json.dumps(config))
    shutil.copyfile(checkpoint / "model.safetensors", out / "model.safetensors")
    return out


if __name__ == "__main__":
    *sources, target = map(pathlib.Path, sys.argv[1:])
    target.mkdir(parents=True, exist_ok=True)
    checkpoints = [p for source in sources for p in (source, *source.iterdir()) if (p / "config.json").exists()]
    for checkpoint in sorted(checkpoints):
        config = json.loads((checkpoint / "config.json").read_text())
        kind = config["model_type"]
        if kind == "llama4_text":
            checkpoint = with_numbers_of_llama_cpp(checkpoint, config, target / checkpoint.name)
        if kind in ARCHITECTURES or recurrent_twins.architecture_of(config):
            write_twin(checkpoint, target / (checkpoint.name + ".gguf"))
            print(checkpoint.name)
