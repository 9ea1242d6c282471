"""Writes tests/golden/logits: tiny Llama models (NAME/) and their logits, computed by an independent implementation.

Shares no code with the C++ implementation and needs only Python: lists, math and double precision throughout, after
"LLaMA: Open and Efficient Foundation Language Models" (arXiv 2302.13971) and, for RoPE, its conventions in
Hugging Face's modeling_llama.py and modeling_rope_utils.py.

    python3 make_logits_goldens.py                 writes the goldens (a few seconds; the same bytes every time)
    python3 make_logits_goldens.py --against DIR   compares itself with a checkpoint whose logits.safetensors is from
                                                   another implementation (same tensor names); prints max |dlogit|

Each NAME/ holds model.safetensors with config.json as on the hub, model.gguf if GGUF stores the same model
differently, and logits.safetensors: ids.N int64 [T], logits.N float32 [T, vocab_size], nothing prepended.
"""
import argparse
import json
import math
import pathlib
import struct

LENGTHS = (40, 9)  # tokens of the two sequences; 40 exceeds llama3's original context of 32

MODELS = {
    # Grouped-query attention, a separate output head.
    "llama": {
        "dtype": "F16", "gguf": True, "seed": 1,
        "config": {"vocab_size": 40, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
                   "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float16"}},
    # The llama3 rule with frequencies in each of its three bands, a tied head, heads wider than dim / n_heads. In GGUF
    # the rule is a tensor of factors.
    "llama3": {
        "dtype": "BF16", "gguf": True, "seed": 2,
        "config": {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
                   "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 128,
                   "rms_norm_eps": 1e-5, "rope_theta": 500.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
                   "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                    "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}},
    # The linear rule, sizes that are not round, config.json as transformers 5 writes it.
    "llama_linear": {
        "dtype": "F32", "gguf": False, "seed": 3,
        "config": {"vocab_size": 37, "hidden_size": 18, "intermediate_size": 22, "num_hidden_layers": 2,
                   "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 6, "max_position_embeddings": 128,
                   "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "dtype": "float32",
                   "rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 2.5}}},
}


# --- Numbers

LETTERS = {"F32": "f", "F16": "e", "I64": "q"}  # format characters of struct


def random_bits(seed, n):
    """The nth 64 bits of SplitMix64 (Steele, Lea & Flood 2014)."""
    mask = (1 << 64) - 1
    z = (seed + (n + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
    return z ^ z >> 31


def to_bytes(values, dtype):
    if dtype == "BF16":  # the upper half of float32, to nearest even
        bits = [struct.unpack("<I", struct.pack("<f", v))[0] for v in values]
        return struct.pack(f"<{len(bits)}H", *((b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits))
    return struct.pack(f"<{len(values)}{LETTERS[dtype]}", *values)


def from_bytes(data, dtype):
    if dtype == "BF16":
        halves = struct.unpack(f"<{len(data) // 2}H", data)
        return list(struct.unpack(f"<{len(halves)}f", struct.pack(f"<{len(halves)}I", *(h << 16 for h in halves))))
    letter = LETTERS[dtype]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data))


# --- Files. A tensor is (dtype, shape, values), row after row.

def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        raw = to_bytes(values, dtype)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    raw = path.read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in entry["data_offsets"])
            tensors[name] = (entry["dtype"], entry["shape"], from_bytes(raw[begin:end], entry["dtype"]))
    return tensors


GGUF_U32, GGUF_F32, GGUF_STRING = 4, 6, 8
GGUF_TENSOR_TYPES = {"F32": 0, "F16": 1, "BF16": 30}


def write_gguf(path, metadata, tensors):
    """Version 3, alignment 32, as in ggml's docs/gguf.md; dimensions are written innermost first."""
    def string(text):
        return struct.pack("<Q", len(text.encode())) + text.encode()

    def value(v):
        if isinstance(v, str):
            return struct.pack("<I", GGUF_STRING) + string(v)
        return struct.pack("<If", GGUF_F32, v) if isinstance(v, float) else struct.pack("<II", GGUF_U32, v)

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(string(key) + value(v) for key, v in metadata.items())
    data = b""
    for name, (dtype, shape, values) in tensors.items():
        data += b"\0" * (-len(data) % 32)
        head += string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", GGUF_TENSOR_TYPES[dtype], len(data))
        data += to_bytes(values, dtype)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


# --- The model

def shape_of(config):
    n_heads = config["num_attention_heads"]
    head_dim = config.get("head_dim", config["hidden_size"] // n_heads)
    return n_heads, config["num_key_value_heads"], head_dim


def random_weights(model):
    config = model["config"]
    n_heads, n_kv_heads, head_dim = shape_of(config)
    vocab, dim, ffn = config["vocab_size"], config["hidden_size"], config["intermediate_size"]
    n_drawn = 0
    weights = {}

    def draw(name, shape, gain, mean=0.0):
        nonlocal n_drawn
        count = math.prod(shape)
        # Uniform, with the deviation that preserves the magnitude of the input, times `gain`.
        reach = gain * math.sqrt(3.0 / shape[-1]) if len(shape) == 2 else gain
        values = [mean + reach * ((random_bits(model["seed"], n_drawn + i) >> 11) / 2**52 - 1) for i in range(count)]
        n_drawn += count
        dtype = model["dtype"]
        weights[name] = (dtype, shape, from_bytes(to_bytes(values, dtype), dtype))  # rounded as in the file

    draw("model.embed_tokens.weight", [vocab, dim], 3.0)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        draw(at + "input_layernorm.weight", [dim], 0.4, 1.0)
        draw(at + "self_attn.q_proj.weight", [n_heads * head_dim, dim], 1.5)
        draw(at + "self_attn.k_proj.weight", [n_kv_heads * head_dim, dim], 1.5)
        draw(at + "self_attn.v_proj.weight", [n_kv_heads * head_dim, dim], 1.5)
        draw(at + "self_attn.o_proj.weight", [dim, n_heads * head_dim], 1.5)
        draw(at + "post_attention_layernorm.weight", [dim], 0.4, 1.0)
        draw(at + "mlp.gate_proj.weight", [ffn, dim], 1.5)
        draw(at + "mlp.up_proj.weight", [ffn, dim], 1.5)
        draw(at + "mlp.down_proj.weight", [dim, ffn], 1.5)
    draw("model.norm.weight", [dim], 0.4, 1.0)
    if not config["tie_word_embeddings"]:
        draw("lm_head.weight", [vocab, dim], 3.0)
    return weights


def rope_rule(config):
    rule = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = rule.get("rope_theta", config.get("rope_theta", 10000.0))
    return theta, rule, rule.get("rope_type", rule.get("type", "default"))


def llama3_factor(frequency, rule):
    """Divisor of the frequency: 1 for short waves, `factor` for long ones, interpolated between."""
    context = rule["original_max_position_embeddings"]
    low, high = rule["low_freq_factor"], rule["high_freq_factor"]
    n_waves = context * frequency / (2 * math.pi)
    if n_waves > high:
        return 1.0
    if n_waves < low:
        return rule["factor"]
    smooth = (n_waves - low) / (high - low)
    return 1 / ((1 - smooth) / rule["factor"] + smooth)


def rope_factors(config, head_dim):
    theta, rule, kind = rope_rule(config)
    plain = [theta ** (-2 * i / head_dim) for i in range(head_dim // 2)]
    if kind == "linear":
        return plain, [rule["factor"]] * len(plain)
    if kind == "llama3":
        return plain, [llama3_factor(f, rule) for f in plain]
    assert kind == "default", kind
    return plain, [1.0] * len(plain)


def forward(config, weights, ids, scale_rope=True):
    """The logits after each token: a list of T lists."""
    n_heads, n_kv_heads, head_dim = shape_of(config)
    half = head_dim // 2
    plain, factors = rope_factors(config, head_dim)
    frequencies = [f / s for f, s in zip(plain, factors)] if scale_rope else plain

    def matrix(name):
        _, (n_rows, n_cols), values = weights[name]
        return [values[r * n_cols:(r + 1) * n_cols] for r in range(n_rows)]

    def times(rows, x):
        return [sum(w * v for w, v in zip(row, x)) for row in rows]

    def norm(x, name):
        scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + config["rms_norm_eps"])
        return [v * scale * w for v, w in zip(x, weights[name][2])]

    def rotated(x, position):
        out = []
        for begin in range(0, len(x), head_dim):
            first, second = x[begin:begin + half], x[begin + half:begin + head_dim]
            turns = [(math.cos(position * f), math.sin(position * f)) for f in frequencies]
            out += [a * c - b * s for a, b, (c, s) in zip(first, second, turns)]
            out += [b * c + a * s for a, b, (c, s) in zip(first, second, turns)]
        return out

    def attend(q, keys, values, head):
        of_kv = slice(head // (n_heads // n_kv_heads) * head_dim, (head // (n_heads // n_kv_heads) + 1) * head_dim)
        query = q[head * head_dim:(head + 1) * head_dim]
        scores = [sum(a * b for a, b in zip(query, k[of_kv])) / math.sqrt(head_dim) for k in keys]
        largest = max(scores)
        exps = [math.exp(s - largest) for s in scores]
        total = sum(exps)
        return [sum(e * v for e, v in zip(exps, column)) / total for column in zip(*(v[of_kv] for v in values))]

    embed = matrix("model.embed_tokens.weight")
    hidden = [list(embed[i]) for i in ids]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        wq, wk, wv, wo = (matrix(f"{at}self_attn.{n}_proj.weight") for n in "qkvo")
        gate, up, down = (matrix(f"{at}mlp.{n}_proj.weight") for n in ("gate", "up", "down"))
        keys, values = [], []
        for position, x in enumerate(hidden):
            h = norm(x, at + "input_layernorm.weight")
            keys.append(rotated(times(wk, h), position))
            values.append(times(wv, h))
            q = rotated(times(wq, h), position)
            attended = [v for head in range(n_heads) for v in attend(q, keys, values, head)]
            x = [a + b for a, b in zip(x, times(wo, attended))]
            h = norm(x, at + "post_attention_layernorm.weight")
            gated = [g / (1 + math.exp(-g)) * u for g, u in zip(times(gate, h), times(up, h))]
            hidden[position] = [a + b for a, b in zip(x, times(down, gated))]
    head = embed if config["tie_word_embeddings"] else matrix("lm_head.weight")
    return [times(head, norm(x, "model.norm.weight")) for x in hidden]


# --- The same model in GGUF

GGUF_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def interleaved(tensor, n_heads):
    """Rows of each head as llama.cpp's conversion stores them: (0, half), (1, half + 1) ... instead of halves."""
    dtype, (n_rows, n_cols), values = tensor
    half = n_rows // n_heads // 2
    order = [head * 2 * half + part * half + i for head in range(n_heads) for i in range(half) for part in (0, 1)]
    return dtype, [n_rows, n_cols], [v for r in order for v in values[r * n_cols:(r + 1) * n_cols]]


def gguf_of(config, weights):
    n_heads, n_kv_heads, head_dim = shape_of(config)
    theta, _, _ = rope_rule(config)
    metadata = {
        "general.architecture": "llama", "llama.block_count": config["num_hidden_layers"],
        "llama.context_length": config["max_position_embeddings"], "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"], "llama.attention.head_count": n_heads,
        "llama.attention.head_count_kv": n_kv_heads, "llama.attention.key_length": head_dim,
        "llama.attention.value_length": head_dim, "llama.rope.dimension_count": head_dim,
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"], "llama.rope.freq_base": theta,
        "llama.vocab_size": config["vocab_size"],
    }
    tensors = {}
    for name, tensor in weights.items():
        if "q_proj" in name or "k_proj" in name:
            tensor = interleaved(tensor, n_heads if "q_proj" in name else n_kv_heads)
        if len(tensor[1]) == 1:
            tensor = ("F32", tensor[1], tensor[2])  # conversion keeps vectors in full
        if name.startswith("model.layers."):
            layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
            name = f"blk.{layer}.{GGUF_NAMES[part]}.weight"
        else:
            name = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                    "lm_head.weight": "output.weight"}[name]
        tensors[name] = tensor
    _, factors = rope_factors(config, head_dim)
    if any(f != 1.0 for f in factors):
        assert min(factors) == 1.0 and max(factors) == 8.0 and len(set(factors)) > 2  # all three bands
        tensors["rope_freqs.weight"] = ("F32", [len(factors)], factors)
    return metadata, tensors


def largest_difference(a, b):
    return max(abs(x - y) for row_a, row_b in zip(a, b) for x, y in zip(row_a, row_b))


def write_goldens(out):
    for name, model in MODELS.items():
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", **model["config"]}
        weights = random_weights(model)
        folder = out / name
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        write_safetensors(folder / "model.safetensors", weights)
        if model["gguf"]:
            write_gguf(folder / "model.gguf", *gguf_of(config, weights))
        reference = {}
        for n, length in enumerate(LENGTHS):
            vocab = config["vocab_size"]
            ids = [random_bits(100 * model["seed"] + n, i) % vocab for i in range(length)]
            logits = forward(config, weights, ids)
            reference[f"ids.{n}"] = ("I64", [length], ids)
            reference[f"logits.{n}"] = ("F32", [length, vocab], [v for row in logits for v in row])
            if n == 0:
                scaled = rope_rule(config)[2] != "default"
                moved = largest_difference(logits, forward(config, weights, ids, False)) if scaled else None
                print(f"{name}: logits {min(map(min, logits)):.1f} .. {max(map(max, logits)):.1f}"
                      + (f"; without the rope rule they move by {moved:.2f}" if scaled else ""))
        write_safetensors(folder / "logits.safetensors", reference)


def hold_against(folder):
    config = json.loads((folder / "config.json").read_text())
    weights = read_safetensors(folder / "model.safetensors")
    reference = read_safetensors(folder / "logits.safetensors")
    for n in range(sum(name.startswith("ids.") for name in reference)):
        _, (length, vocab), values = reference[f"logits.{n}"]
        rows = [values[i * vocab:(i + 1) * vocab] for i in range(length)]
        got = forward(config, weights, reference[f"ids.{n}"][2])
        print(f"{folder.name} sequence {n}, {length} ids: max |dlogit| {largest_difference(got, rows):.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.against:
        hold_against(arguments.against)
    else:
        write_goldens(pathlib.Path(__file__).parent)
