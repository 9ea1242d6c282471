#!/usr/bin/env python3
"""Writes a GGUF with the shapes and the mix of formats of a real model and random weights: for timing, not for text.
Programs that load a real file of that architecture load this one.

  make_model.py --shape SHAPE --quant f16|q8_0|q4_0|q4_1|q4_k_m|mxfp4 OUT.gguf
                [--layers N] [--tokenizer FILE.gguf] [--pure] [--plain] [--seed N]

SHAPE is one of SHAPES below: --help lists them. Formats are chosen tensor by tensor as llama-quantize chooses them:
the vocabulary's head gets more bits, rows that are not a multiple of 256 fall back from Q4_K to Q5_0 and from Q6_K to
Q8_0; mxfp4 stores experts in MXFP4 and every other matrix in Q8_0, like the files of gpt-oss. --pure stores every
matrix in the given format instead. --layers keeps the first N layers of a shape that is too large for a machine.
--plain makes a llama of these sizes, without biases, extra norms, windows and experts, for programs that support no
other architecture. --tokenizer copies the vocabulary from another file of the same size; without it, the vocabulary is
one token per byte and filler names that no text contains, with a ChatML template.

Needs the packages gguf and numpy. Only one tensor at a time is in memory.
"""
import argparse
import hashlib
import math
from dataclasses import dataclass, replace

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type


@dataclass
class Shape:
    architecture: str
    n_layers: int
    dim: int
    ffn_dim: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    context: int
    rope_theta: float
    norm_eps: float
    tied: bool
    qkv_biases: bool = False
    qk_norms: bool = False     # norms of q and k, with a weight for each element of a head
    after_norms: bool = False  # norms after attention and after the MLP, in addition to those before them
    window: int = 0
    rope_scaling: tuple = ()   # (gguf's name of the rule, factor, original context or 0)
    n_experts: int = 0
    n_experts_used: int = 0
    is_gpt_oss: bool = False   # attention sinks, more biases, and gpt-oss's name for the norm before the MLP
    # Layers with a gated delta rule, all except every `interval`-th: (number of key heads, number of value heads, width
    # of a key, width of a value, taps of the convolution, interval). Attention layers are then gated, and rotate a
    # quarter of each head.
    delta: tuple = ()


SHAPES = {
    "smollm2": Shape("llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 1e5, 1e-5, tied=True),
    "qwen2.5-0.5b": Shape("qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 1e6, 1e-6, tied=True, qkv_biases=True),
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1e6, 1e-6, tied=True, qk_norms=True),
    "qwen3-4b": Shape("qwen3", 36, 2560, 9728, 32, 8, 128, 151936, 40960, 1e6, 1e-6, tied=True, qk_norms=True),
    "qwen3-30b-a3b": Shape("qwen3moe", 48, 2048, 768, 32, 4, 128, 151936, 40960, 1e6, 1e-6, tied=False, qk_norms=True,
                           n_experts=128, n_experts_used=8),
    "gemma3-270m": Shape("gemma3", 18, 640, 2048, 4, 1, 256, 262144, 32768, 1e6, 1e-6, tied=True, qk_norms=True,
                         after_norms=True, window=512),
    "gemma3-1b": Shape("gemma3", 26, 1152, 6912, 4, 1, 256, 262144, 32768, 1e6, 1e-6, tied=True, qk_norms=True,
                       after_norms=True, window=512),
    "gemma3-4b": Shape("gemma3", 34, 2560, 10240, 8, 4, 256, 262208, 131072, 1e6, 1e-6, tied=True, qk_norms=True,
                       after_norms=True, window=1024, rope_scaling=("linear", 8.0, 0)),
    "gpt-oss-20b": Shape("gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, 131072, 150000.0, 1e-5, tied=False,
                         qkv_biases=True, window=128, rope_scaling=("yarn", 32.0, 4096), n_experts=32,
                         n_experts_used=4, is_gpt_oss=True),
    "qwen3.5-0.8b": Shape("qwen35", 24, 1024, 3584, 8, 2, 256, 248320, 262144, 1e7, 1e-6, tied=True, qk_norms=True,
                          delta=(16, 16, 128, 128, 4, 4)),
    # Models with the keys, values, windows and states of larger models: as many layers, KV heads and heads with states,
    # of the same size. All else is small: query heads, layer widths and vocabulary. They measure the memory of a long
    # sequence, which depends on nothing else.
    "gemma3-4b-kv": Shape("gemma3", 34, 256, 256, 4, 4, 256, 32768, 131072, 1e6, 1e-6, tied=True, qk_norms=True,
                          after_norms=True, window=1024, rope_scaling=("linear", 8.0, 0)),
    "qwen3.5-4b-kv": Shape("qwen35", 32, 256, 256, 4, 4, 256, 32768, 262144, 1e7, 1e-6, tied=True, qk_norms=True,
                           delta=(16, 32, 128, 128, 4, 4)),
    # Grouped heads and the wide feed-forward of 7B models after the first Llamas.
    "llama-7b": Shape("llama", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 1e4, 1e-5, tied=False),
}

FILE_TYPES = {
    "f16": (gguf.LlamaFileType.MOSTLY_F16, Type.F16),
    "q8_0": (gguf.LlamaFileType.MOSTLY_Q8_0, Type.Q8_0),
    "q4_0": (gguf.LlamaFileType.MOSTLY_Q4_0, Type.Q4_0),
    "q4_1": (gguf.LlamaFileType.MOSTLY_Q4_1, Type.Q4_1),
    "q4_k_m": (gguf.LlamaFileType.MOSTLY_Q4_K_M, Type.Q4_K),
    "mxfp4": (gguf.LlamaFileType.MOSTLY_MXFP4_MOE, Type.MXFP4),
}

FALL_BACK = {Type.Q4_K: Type.Q5_0, Type.Q6_K: Type.Q8_0}

# ---- format of each matrix


def more_bits(layer, n_layers):
    """llama-quantize's use_more_bits: the first and last eighth of the layers, and every third layer between."""
    eighth = n_layers // 8
    return layer < eighth or layer >= 7 * n_layers // 8 or (layer - eighth) % 3 == 2


MORE_BITS = ("attn_v", "ffn_down", "ffn_down_exps")


def matrix_type(shape, quant, pure, role, layer, n_cols):
    wanted = FILE_TYPES[quant][1]
    if not pure and quant == "mxfp4":
        wanted = Type.MXFP4 if role.endswith("_exps") else Type.Q8_0
    elif not pure and quant not in ("f16", "q8_0"):
        is_head = role == "output" or (role == "token_embd" and shape.tied)
        if is_head:
            wanted = Type.Q6_K
        elif quant == "q4_k_m" and role in MORE_BITS and more_bits(layer, shape.n_layers):
            wanted = Type.Q6_K
    if n_cols % gguf.GGML_QUANT_SIZES[wanted][0] != 0:
        wanted = FALL_BACK.get(wanted, Type.F16)
    return wanted


def tensors(shape, quant, pure):
    """(name, type, [n] or [n_rows, n_cols] or [n_experts, n_rows, n_cols]) in the order of the file."""
    q_dim, kv_dim = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim

    def matrix(role, n_rows, n_cols, layer=None):
        name = f"{role}.weight" if layer is None else f"blk.{layer}.{role}.weight"
        return name, matrix_type(shape, quant, pure, role, layer, n_cols), [n_rows, n_cols]

    def experts(role, n_rows, n_cols, layer):
        name, kind, dims = matrix(role, n_rows, n_cols, layer)
        return name, kind, [shape.n_experts, *dims]

    def floats(name, *dims):
        return name, Type.F32, list(dims)

    def delta_layer(i):
        key_heads, heads, key_dim, value_dim, taps, _ = shape.delta
        channels = 2 * key_heads * key_dim + heads * value_dim
        yield matrix("attn_qkv", channels, shape.dim, i)
        yield matrix("attn_gate", heads * value_dim, shape.dim, i)
        yield matrix("ssm_alpha", heads, shape.dim, i)
        yield matrix("ssm_beta", heads, shape.dim, i)
        yield floats(f"blk.{i}.ssm_conv1d.weight", channels, taps)
        yield floats(f"blk.{i}.ssm_a", heads)
        yield floats(f"blk.{i}.ssm_dt.bias", heads)
        yield floats(f"blk.{i}.ssm_norm.weight", value_dim)
        yield matrix("ssm_out", shape.dim, heads * value_dim, i)

    def mlp(i):
        yield matrix("ffn_gate", shape.ffn_dim, shape.dim, i)
        yield matrix("ffn_up", shape.ffn_dim, shape.dim, i)
        yield matrix("ffn_down", shape.dim, shape.ffn_dim, i)

    yield matrix("token_embd", shape.vocab_size, shape.dim)
    for i in range(shape.n_layers):
        yield floats(f"blk.{i}.attn_norm.weight", shape.dim)
        if shape.delta and (i + 1) % shape.delta[5]:
            yield from delta_layer(i)
            yield floats(f"blk.{i}.post_attention_norm.weight", shape.dim)
            yield from mlp(i)
            continue
        yield matrix("attn_q", (2 if shape.delta else 1) * q_dim, shape.dim, i)
        yield matrix("attn_k", kv_dim, shape.dim, i)
        yield matrix("attn_v", kv_dim, shape.dim, i)
        yield matrix("attn_output", shape.dim, q_dim, i)
        if shape.qkv_biases:
            yield floats(f"blk.{i}.attn_q.bias", q_dim)
            yield floats(f"blk.{i}.attn_k.bias", kv_dim)
            yield floats(f"blk.{i}.attn_v.bias", kv_dim)
        if shape.is_gpt_oss:
            yield floats(f"blk.{i}.attn_output.bias", shape.dim)
            yield floats(f"blk.{i}.attn_sinks.weight", shape.n_heads)
        if shape.qk_norms:
            yield floats(f"blk.{i}.attn_q_norm.weight", shape.head_dim)
            yield floats(f"blk.{i}.attn_k_norm.weight", shape.head_dim)
        if shape.after_norms:
            yield floats(f"blk.{i}.post_attention_norm.weight", shape.dim)
            yield floats(f"blk.{i}.post_ffw_norm.weight", shape.dim)
        before_mlp = "post_attention_norm" if shape.is_gpt_oss or shape.delta else "ffn_norm"
        yield floats(f"blk.{i}.{before_mlp}.weight", shape.dim)
        if shape.n_experts == 0:
            yield from mlp(i)
            continue
        yield floats(f"blk.{i}.ffn_gate_inp.weight", shape.n_experts, shape.dim)
        yield experts("ffn_gate_exps", shape.ffn_dim, shape.dim, i)
        yield experts("ffn_up_exps", shape.ffn_dim, shape.dim, i)
        yield experts("ffn_down_exps", shape.dim, shape.ffn_dim, i)
        if shape.is_gpt_oss:
            yield floats(f"blk.{i}.ffn_gate_inp.bias", shape.n_experts)
            yield floats(f"blk.{i}.ffn_gate_exps.bias", shape.n_experts, shape.ffn_dim)
            yield floats(f"blk.{i}.ffn_up_exps.bias", shape.n_experts, shape.ffn_dim)
            yield floats(f"blk.{i}.ffn_down_exps.bias", shape.n_experts, shape.dim)
    yield floats("output_norm.weight", shape.dim)
    if not shape.tied:
        yield matrix("output", shape.vocab_size, shape.dim)


# ---- random blocks: codes are random bytes, scales make the standard deviation of the values approximately `sigma`

# Standard deviation of a value with uniform codes, in units of its block's scale.
CODE_DEVIATION = {Type.Q4_0: 4.61, Type.Q4_1: 4.61, Type.Q5_0: 9.23, Type.Q8_0: 73.9, Type.Q4_K: 258.0, Type.Q6_K: 1365.0,
                  Type.MXFP4: 2.93}
# SCALE_AT: offset of the scale d in a block. MIN_AT: offset of the min in a block, and the factor in min = factor * d.
SCALE_AT = {Type.Q4_0: 0, Type.Q4_1: 0, Type.Q5_0: 0, Type.Q8_0: 0, Type.Q4_K: 0, Type.Q6_K: 208}
MIN_AT = {Type.Q4_1: (2, -7.5), Type.Q4_K: (2, 7.5)}


def random_blocks(rng, kind, n_rows, n_cols, sigma):
    """[n_rows, bytes of a row]"""
    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    n_blocks = n_rows * n_cols // block
    data = np.frombuffer(rng.bytes(n_blocks * block_bytes), np.uint8).reshape(n_blocks, block_bytes).copy()
    if kind == Type.MXFP4:  # the scale is a power of two, in the first byte
        data[:, 0] = round(127 + math.log2(sigma / CODE_DEVIATION[kind])) + rng.integers(-1, 2, n_blocks)
        return data.reshape(n_rows, -1)
    scales = (sigma / CODE_DEVIATION[kind] * rng.uniform(0.75, 1.25, n_blocks)).astype(np.float32)

    def put(at, values):
        data[:, at:at + 2] = values.astype(np.float16).view(np.uint8).reshape(n_blocks, 2)

    put(SCALE_AT[kind], scales)
    if kind in MIN_AT:
        at, factor = MIN_AT[kind]
        put(at, factor * scales)
    return data.reshape(n_rows, -1)


def tensor_data(rng, name, kind, dims):
    if name.endswith(".bias"):
        return rng.normal(0.0, 0.02, dims).astype(np.float32)
    if name.endswith("attn_sinks.weight"):
        return rng.normal(0.0, 1.0, dims).astype(np.float32)
    if name.endswith("ssm_a"):
        return -rng.uniform(0.1, 2.0, dims).astype(np.float32)
    if len(dims) == 1:
        return rng.normal(1.0, 0.05, dims).astype(np.float32)
    n_cols = dims[-1]
    sigma = 1 / math.sqrt(n_cols)
    if kind in (Type.F16, Type.F32):
        values = rng.standard_normal(dims, dtype=np.float32)
        values *= sigma
        return values.astype(np.float16 if kind == Type.F16 else np.float32)
    return random_blocks(rng, kind, math.prod(dims) // n_cols, n_cols, sigma).reshape(*dims[:-1], -1)


# ---- metadata

CHAT_TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
                 "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_alphabet():
    """The characters that represent bytes in byte-level BPE."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


def add_byte_tokenizer(writer, vocab_size):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words = byte_alphabet() + ["\u0120t"]
    fillers = [f"filler{i}" for i in range(vocab_size - len(special) - len(words))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(special + words + fillers)
    writer.add_token_types([gguf.TokenType.CONTROL] * len(special) +
                           [gguf.TokenType.NORMAL] * (vocab_size - len(special)))
    writer.add_token_merges(["\u0120 t"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def copy_tokenizer(writer, path, vocab_size):
    reader = gguf.GGUFReader(path)
    n_tokens = len(reader.fields["tokenizer.ggml.tokens"].data)
    if n_tokens != vocab_size:
        raise SystemExit(f"{path}: {n_tokens} tokens, the shape has {vocab_size}")
    for field in reader.fields.values():
        if not field.name.startswith("tokenizer."):
            continue
        kind = field.types[0]
        element = field.types[1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, element)


def add_metadata(writer, shape, quant):
    writer.add_name(f"random weights, {quant}")
    writer.add_block_count(shape.n_layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.dim)
    if shape.n_experts:
        writer.add_expert_count(shape.n_experts)
        writer.add_expert_used_count(shape.n_experts_used)
        writer.add_expert_feed_forward_length(shape.ffn_dim)
    writer.add_feed_forward_length(shape.ffn_dim)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_layer_norm_rms_eps(shape.norm_eps)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_vocab_size(shape.vocab_size)
    writer.add_file_type(FILE_TYPES[quant][0])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    if shape.architecture == "llama":
        writer.add_rope_dimension_count(shape.head_dim)
    if shape.delta:
        key_heads, heads, key_dim, value_dim, taps, interval = shape.delta
        writer.add_rope_dimension_count(shape.head_dim // 4)
        writer.add_ssm_conv_kernel(taps)
        writer.add_ssm_state_size(key_dim)
        writer.add_ssm_group_count(key_heads)
        writer.add_ssm_time_step_rank(heads)
        writer.add_ssm_inner_size(heads * value_dim)
        # M-RoPE sections of image positions; text positions are the same in all of them.
        writer.add_rope_dimension_sections([11, 11, 10, 0])
        writer.add_full_attention_interval(interval)
    if shape.window:
        writer.add_sliding_window(shape.window)
    if shape.rope_scaling:
        rule, factor, original_context = shape.rope_scaling
        writer.add_rope_scaling_type(gguf.RopeScalingType(rule))
        writer.add_rope_scaling_factor(factor)
        if original_context:
            writer.add_rope_scaling_orig_ctx_len(original_context)
    if shape.head_dim != shape.dim // shape.n_heads:
        writer.add_key_length(shape.head_dim)
        writer.add_value_length(shape.head_dim)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_argument("--shape", required=True, choices=SHAPES)
    parser.add_argument("--quant", required=True, choices=FILE_TYPES)
    parser.add_argument("--tokenizer", metavar="FILE.gguf")
    parser.add_argument("--layers", type=int, metavar="N", help="the first N layers alone")
    parser.add_argument("--pure", action="store_true", help="every matrix in the one format")
    parser.add_argument("--plain", action="store_true", help="the sizes alone, as a llama")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    shape = SHAPES[options.shape]
    if options.layers:
        shape = replace(shape, n_layers=options.layers)
    if options.plain:
        shape = replace(shape, architecture="llama", qkv_biases=False, qk_norms=False, after_norms=False, window=0,
                        rope_scaling=(), n_experts=0, is_gpt_oss=False, delta=())
    writer = gguf.GGUFWriter(options.out, shape.architecture)
    add_metadata(writer, shape, options.quant)
    if options.tokenizer:
        copy_tokenizer(writer, options.tokenizer, shape.vocab_size)
    else:
        add_byte_tokenizer(writer, shape.vocab_size)

    table = list(tensors(shape, options.quant, options.pure))
    for name, kind, dims in table:
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        n_bytes = math.prod(dims) // block * block_bytes
        writer.add_tensor_info(name, dims, np.dtype(np.float32), n_bytes, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    totals = {}
    for name, kind, dims in table:
        # A separate generator: a tensor's content depends only on its name.
        digest = hashlib.sha256(f"{options.seed} {name}".encode()).digest()
        data = tensor_data(np.random.Generator(np.random.SFC64(int.from_bytes(digest[:8], "little"))), name, kind, dims)
        writer.write_tensor_data(data)
        totals[kind.name] = totals.get(kind.name, 0) + data.nbytes
    writer.close()
    print(options.out, ", ".join(f"{name} {n / 1e6:.1f} MB" for name, n in totals.items()))


if __name__ == "__main__":
    main()
