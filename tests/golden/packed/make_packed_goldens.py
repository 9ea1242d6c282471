"""Writes tests/golden/packed: one tiny Llama for each format in which checkpoints store matrices in parts.

    python3 make_packed_goldens.py OUT     needs numpy; a second, the same bytes every time

Each NAME/ holds config.json and model.safetensors as on the hub, with random integers, zero points and scales, and
values.json: for each matrix stored in parts its shape, its first and last values, and the CRC-32 of all its
values as little-endian float32, row after row. The values are computed from the packed words in the file, as
the method's own code does:
  GPTQ                words along the inputs, zero points along the outputs, stored minus one unless checkpoint_format
                      is gptq_v2; w[k, n] = scales[g_idx[k], n] (q[k, n] - zeros[g_idx[k], n])   (arXiv 2210.17323, AutoGPTQ)
  AWQ                 words along the outputs, element AWQ_ORDER[i] at bits 4 i               (arXiv 2306.00978, AutoAWQ)
  compressed-tensors  words along the inputs, signed integers stored + 8                      (pack_quantized)
  F8                  OCP 8-bit Floating Point Specification 1.0: E4M3 with a bias of 7 and no infinities, E5M2 with a
                      bias of 15; the stored scale multiplies, whatever its name
Scales are random in all bits of their type, so that every product is rounded.
"""
import json
import pathlib
import sys
import zlib

import numpy as np

DIM, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 64, 32, 2, 1, 16, 24
CONFIG = {"model_type": "llama", "vocab_size": VOCAB, "hidden_size": DIM, "intermediate_size": FFN,
          "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
          "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
          "torch_dtype": "bfloat16"}
MATRICES = {"self_attn.q_proj": (HEADS * HEAD_DIM, DIM), "self_attn.k_proj": (KV_HEADS * HEAD_DIM, DIM),
            "self_attn.v_proj": (KV_HEADS * HEAD_DIM, DIM), "self_attn.o_proj": (DIM, HEADS * HEAD_DIM),
            "mlp.gate_proj": (FFN, DIM), "mlp.up_proj": (FFN, DIM), "mlp.down_proj": (DIM, FFN)}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


# --- 16-bit numbers: (dtype name of safetensors, stored, as float32)

def bfloats(values):
    bits = np.asarray(values, "<f4").view("<u4") >> 16
    return "BF16", bits.astype("<u2"), (bits << 16).astype("<u4").view("<f4")


def halves(values):
    stored = np.asarray(values, "<f2")
    return "F16", stored, stored.astype("<f4")


def floats(values):
    stored = np.asarray(values, "<f4")
    return "F32", stored, stored


# --- 4-bit integers

def pack(columns):
    """[..., n, 8] integers to [..., n] words, the first lowest."""
    words = np.zeros(columns.shape[:-1], "<u4")
    for i in range(8):
        words |= columns[..., i].astype("<u4") << np.uint32(4 * i)
    return words.view("<i4")


def unpack(words):
    """[..., n] words to [..., 8 n] integers."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return (words.view("<u4")[..., None] >> shifts & np.uint32(15)).astype(np.int32).reshape(*words.shape[:-1], -1)


def draw_scales(rng, shape, typed, size=0.01):
    return typed(rng.uniform(size, 2 * size, shape))


def gptq(rng, n_out, n_in, group, symmetric=False, order=None, version=1):
    n_groups = n_in // group
    q = rng.integers(0, 16, (n_in, n_out))
    zeros = np.full((n_groups, n_out), 8) if symmetric else rng.integers(1, 16, (n_groups, n_out))
    stored_zeros = zeros - 1 if version == 1 else zeros
    dtype, scales, wide = draw_scales(rng, (n_groups, n_out), halves)
    g_idx = np.arange(n_in, dtype="<i4") // group
    if order == "shuffled":
        rng.shuffle(g_idx)
    parts = {"qweight": ("I32", pack(q.T.reshape(n_out, n_in // 8, 8)).T),
             "qzeros": ("I32", pack(stored_zeros.reshape(n_groups, n_out // 8, 8))), "scales": (dtype, scales)}
    if order is not None:
        parts["g_idx"] = ("I32", g_idx)
    # From the words, as in AutoGPTQ's linear layer without kernels.
    weight = unpack(np.ascontiguousarray(parts["qweight"][1].T)).T
    read_zeros = unpack(parts["qzeros"][1])
    if version == 1:
        read_zeros = read_zeros + 1 & 15
    values = wide[g_idx] * (weight - read_zeros[g_idx]).astype("<f4")
    return {f".{name}": part for name, part in parts.items()}, values.T


def awq(rng, n_out, n_in, group):
    n_groups = n_in // group
    q = rng.integers(0, 16, (n_in, n_out))
    zeros = rng.integers(0, 16, (n_groups, n_out))
    dtype, scales, wide = draw_scales(rng, (n_groups, n_out), halves)
    qweight = pack(q.reshape(n_in, n_out // 8, 8)[..., AWQ_ORDER])
    qzeros = pack(zeros.reshape(n_groups, n_out // 8, 8)[..., AWQ_ORDER])
    reverse = np.argsort(AWQ_ORDER)  # AutoAWQ's AWQ_REVERSE_ORDER

    def ordered(words):
        return unpack(words).reshape(words.shape[0], -1, 8)[..., reverse].reshape(words.shape[0], -1)

    values = np.repeat(wide, group, axis=0) * (ordered(qweight) - np.repeat(ordered(qzeros), group, axis=0)).astype("<f4")
    return {".qweight": ("I32", qweight), ".qzeros": ("I32", qzeros), ".scales": (dtype, scales)}, values.T


def compressed(rng, n_out, n_in, group=None, zero_points=False, shuffled=False, typed=bfloats):
    n_groups = n_in // group if group else 1
    q = rng.integers(-8, 8, (n_out, n_in))
    zeros = rng.integers(-8, 8, (n_out, n_groups)) if zero_points else np.zeros((n_out, n_groups), int)
    dtype, scales, wide = draw_scales(rng, (n_out, n_groups), typed)
    g_idx = np.arange(n_in, dtype="<i4") // (n_in // n_groups)
    if shuffled:
        rng.shuffle(g_idx)
    packed = pack((q + 8).reshape(n_out, n_in // 8, 8))
    parts = {".weight_packed": ("I32", packed), ".weight_scale": (dtype, scales),
             ".weight_shape": ("I64", np.array([n_out, n_in], "<i8"))}
    read_zeros = np.zeros((n_out, n_groups), np.int32)
    if zero_points:  # packed along the outputs
        packed_zeros = pack(np.ascontiguousarray((zeros + 8).T).reshape(n_groups, n_out // 8, 8)).T
        parts[".weight_zero_point"] = ("I32", packed_zeros)
        read_zeros = (unpack(np.ascontiguousarray(packed_zeros.T)) - 8).T
    if shuffled:
        parts[".weight_g_idx"] = ("I32", g_idx)
    return parts, wide[:, g_idx] * (unpack(packed) - 8 - read_zeros[:, g_idx]).astype("<f4")


# --- one-byte floats

def f8_values(codes, exponent_bits, mantissa_bits, bias):
    codes = codes.astype(np.int64)
    sign = np.where(codes >> 7, -1.0, 1.0)
    exponent, mantissa = codes >> mantissa_bits & (1 << exponent_bits) - 1, codes & (1 << mantissa_bits) - 1
    normal = (1 + mantissa / 2.0**mantissa_bits) * 2.0 ** (exponent - bias)
    subnormal = mantissa / 2.0**mantissa_bits * 2.0 ** (1 - bias)
    return (sign * np.where(exponent == 0, subnormal, normal)).astype("<f4")


def f8(rng, n_out, n_in, dtype="F8_E4M3", tile=None, scale_name="weight_scale", typed=floats, input_scale=False):
    e4m3 = dtype == "F8_E4M3"
    codes = rng.integers(0, 256, (n_out, n_in)).astype(np.uint8)
    # NaN, and the infinities of E5M2.
    bad = (codes & 0x7F) == 0x7F if e4m3 else (codes & 0x7F) >= 0x7C
    codes[bad] &= 0x8F
    if tile is None:
        codes &= 0xBF  # below 2: a model of larger weights overflows
    values = f8_values(codes, 4, 3, 7) if e4m3 else f8_values(codes, 5, 2, 15)
    parts = {".weight": (dtype, codes)}
    if tile is not None:
        rows, cols, shape = {"tensor": (n_out, n_in, ()), "one": (n_out, n_in, (1,)), "row": (1, n_in, (n_out, 1))}.get(
            tile, (*tile, None) if isinstance(tile, tuple) else None)
        shape = (-(-n_out // rows), -(-n_in // cols)) if shape is None else shape
        name, scales, wide = draw_scales(rng, shape, typed, 0.0007)
        parts[f".{scale_name}"] = (name, scales)
        tiles = wide.reshape(-(-n_out // rows), -(-n_in // cols))
        values = np.repeat(np.repeat(tiles, rows, axis=0)[:n_out], cols, axis=1)[:, :n_in] * values
    if input_scale:  # of activations; does not affect weights
        parts[".input_scale"] = floats(np.array([0.5], "<f4"))[:2]
    return parts, values


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized",
          "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}}}
FLOAT = {"quant_method": "compressed-tensors", "format": "float-quantized",
         "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}}}
MODELS = {
    "gptq_symmetric": (dict(GPTQ, sym=True, desc_act=False), lambda *of: gptq(*of, 32, symmetric=True, order="in order")),
    "gptq_zeros": (dict(GPTQ, sym=False), lambda *of: gptq(*of, 32)),
    "gptq_desc_act": (dict(GPTQ, sym=False, desc_act=True), lambda *of: gptq(*of, 32, order="shuffled")),
    "gptq_desc_act_symmetric": (dict(GPTQ, group_size=16, sym=True, desc_act=True),
                                lambda *of: gptq(*of, 16, symmetric=True, order="shuffled")),
    "gptq_v2": (dict(GPTQ, sym=False, checkpoint_format="gptq_v2"),
                lambda *of: gptq(*of, 32, order="in order", version=2)),
    "gptq_channel": (dict(GPTQ, group_size=-1, sym=False), lambda rng, n_out, n_in: gptq(rng, n_out, n_in, n_in)),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True},
            lambda *of: awq(*of, 32)),
    "compressed_symmetric": (PACKED, lambda *of: compressed(*of, 32)),
    "compressed_zeros": (PACKED, lambda *of: compressed(*of, 32, zero_points=True, typed=halves)),
    "compressed_channel": (PACKED, lambda *of: compressed(*of)),
    "compressed_channel_zeros": (PACKED, lambda *of: compressed(*of, zero_points=True)),
    "compressed_actorder": (PACKED, lambda *of: compressed(*of, 16, shuffled=True, typed=floats)),
    "f8_blocks": ({"quant_method": "fp8", "weight_block_size": [48, 32]},
                  lambda *of: f8(*of, tile=(48, 32), scale_name="weight_scale_inv")),
    "f8_small_blocks": ({"quant_method": "fp8", "weight_block_size": [20, 24]},
                        lambda *of: f8(*of, tile=(20, 24), scale_name="weight_scale_inv", typed=bfloats)),
    "f8_tensor": (FLOAT, lambda *of: f8(*of, tile="one", typed=bfloats, input_scale=True)),
    "f8_rows": (FLOAT, lambda *of: f8(*of, tile="row")),
    "f8_e5m2": ({"quant_method": "fp8"}, lambda *of: f8(*of, dtype="F8_E5M2", tile="tensor")),
    "f8_e5m2_no_scale": ({"quant_method": "fp8"}, lambda *of: f8(*of, dtype="F8_E5M2")),
}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, values) in tensors.items():
        content = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_model(directory, quantization, draw, seed):
    rng = np.random.default_rng(seed)
    directory.mkdir(parents=True, exist_ok=True)
    plain = {"model.embed_tokens.weight": (VOCAB, DIM), "model.norm.weight": (DIM,),
             "model.layers.0.input_layernorm.weight": (DIM,), "model.layers.0.post_attention_layernorm.weight": (DIM,)}
    tensors, about = {}, {}
    for name, shape in plain.items():
        values = rng.normal(size=shape) if len(shape) == 2 else 1 + 0.1 * rng.normal(size=shape)
        tensors[name] = bfloats(values)[:2]
    for matrix, (n_out, n_in) in MATRICES.items():
        stem = f"model.layers.0.{matrix}"
        parts, values = draw(rng, n_out, n_in)
        values = np.ascontiguousarray(values, "<f4")
        assert values.shape == (n_out, n_in) and np.isfinite(values).all()
        tensors |= {stem + name: part for name, part in parts.items()}
        ends = [float(values[0, 0]), float(values[0, 1]), float(values[1, 0]), float(values[-1, -1])]
        about[f"{stem}.weight"] = {"shape": [n_out, n_in], "crc32": zlib.crc32(values.tobytes()),
                                   "values": {"0,0": ends[0], "0,1": ends[1], "1,0": ends[2], "last": ends[3]}}
    write_safetensors(directory / "model.safetensors", tensors)
    (directory / "config.json").write_text(json.dumps(dict(CONFIG, quantization_config=quantization), indent=1) + "\n")
    (directory / "values.json").write_text(json.dumps(about, indent=1) + "\n")


def main(out):
    for seed, (name, (quantization, draw)) in enumerate(MODELS.items()):
        write_model(out / name, quantization, draw, seed)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
