"""compare_gguf_names.py IBID DIRECTORIES TWINS OUT: whether `ibid convert` writes what write_gguf_twins.py writes.

Converts each tiny checkpoint that has a twin to OUT/NAME.gguf. The two files must have the same tensors, with the same
shapes, types and bytes, and the converted one every key of the twin with the same value. Intended differences are
listed below; any other is an error.
"""
import pathlib
import subprocess
import sys

import gguf
import numpy as np

# llama.cpp reads both forms; ibid writes the expansion of keys and values as one tensor, as in checkpoints.
ONE_TENSOR = {"attn_k_b.weight": "attn_kv_b.weight", "attn_v_b.weight": "attn_kv_b.weight"}
LATENT_KEYS = ("attention.key_length", "attention.value_length", "attention.head_count_kv", "attention.key_length_mla",
               "attention.value_length_mla")
# No layer of such a model has RoPE.
UNUSED_ROPE = ("rope.dimension_count", "rope.freq_base")
# ibid writes a period if there is one (GgufKeys.PeriodicWindowsAreWrittenAsAPeriod).
WINDOWS = "attention.sliding_window_pattern"
# Their factors are multiplied in another order, or into another tensor: compares only names and shapes.
FOLDED = ("falcon-h1",)
# Small matrices that ibid stores as floats.
FLOATS = ("altup_correct_coef.weight", "altup_predict_coef.weight")


def tensors_of(reader):
    tensors = {}
    for tensor in reader.tensors:
        name = tensor.name
        for old, new in ONE_TENSOR.items():
            name = name.replace(old, new)
        shape = [int(n) for n in tensor.shape]
        tensors[name] = [n for n in shape if n != 1] if name == tensor.name and "attn_kv_b" not in name else None
    return tensors


def keys_of(reader):
    return {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}


def same_value(a, b):
    """True if equal; a number common to all layers may also be an array."""
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    a, b = np.broadcast_arrays(np.atleast_1d(a), np.atleast_1d(b)) if np.ndim(a) == 0 or np.ndim(b) == 0 else (a, b)
    return np.shape(a) == np.shape(b) and bool(np.allclose(a, b, rtol=1e-6, atol=0))


def is_meant(key, twin):
    latent = any(".kv_lora_rank" in k for k in twin)
    if latent and key.endswith(LATENT_KEYS):
        return True
    if key.endswith(UNUSED_ROPE) and any(k.endswith("rope.scaling.finetuned") and not twin[k] for k in twin):
        return True
    return key.startswith(("general.", "tokenizer.")) or key.endswith(WINDOWS)


def values_of(tensor):
    """The values as floats, since equal vectors may have different types."""
    if tensor.tensor_type == gguf.GGMLQuantizationType.BF16:
        return (np.asarray(tensor.data).view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(-1)
    if tensor.tensor_type == gguf.GGMLQuantizationType.F16:
        return np.asarray(tensor.data).astype(np.float32).reshape(-1)
    return np.asarray(tensor.data).reshape(-1)


def differing_values(twin_reader, converted_reader):
    converted = {tensor.name: tensor for tensor in converted_reader.tensors}
    for tensor in twin_reader.tensors:
        other = converted.get(tensor.name)
        if other is None or np.prod(tensor.shape) != np.prod(other.shape):
            continue
        is_few = max(map(int, tensor.shape)) == np.prod(tensor.shape) or tensor.name.endswith(FLOATS)
        if not is_few and tensor.tensor_type != other.tensor_type:
            yield f"tensor {tensor.name} is {tensor.tensor_type.name} in the twin, {other.tensor_type.name} converted"
        elif not np.array_equal(values_of(tensor), values_of(other)):
            yield f"tensor {tensor.name} has other values in the converted file"


def differences(twin_reader, converted_reader):
    twin, converted = tensors_of(twin_reader), tensors_of(converted_reader)
    for tensor in sorted(set(twin) ^ set(converted)):
        yield f"tensor {tensor} is in {'the twin' if tensor in twin else 'the converted file'} alone"
    for tensor in sorted(set(twin) & set(converted)):
        if twin[tensor] != converted[tensor]:
            yield f"tensor {tensor} is {twin[tensor]} in the twin, {converted[tensor]} in the converted file"
    twin, converted = keys_of(twin_reader), keys_of(converted_reader)
    if twin["general.architecture"] != converted["general.architecture"]:
        yield f"architecture {twin['general.architecture']} in the twin, {converted['general.architecture']} converted"
    for key, value in twin.items():
        if is_meant(key, twin):
            continue
        if key not in converted:
            yield f"key {key} ({value}) is missing"
        elif not same_value(value, converted[key]):
            yield f"key {key} is {value} in the twin, {converted[key]} in the converted file"
    if twin["general.architecture"] not in FOLDED:
        yield from differing_values(twin_reader, converted_reader)


if __name__ == "__main__":
    ibid, directories, twins, out = sys.argv[1], *map(pathlib.Path, sys.argv[2:5])
    out.mkdir(parents=True, exist_ok=True)
    n_different = 0
    for path in sorted(twins.glob("*.gguf")):
        converted = out / path.name
        changed = path.with_suffix("")  # changed for its twin
        checkpoint = changed if changed.exists() else directories / path.stem
        run = subprocess.run([ibid, "convert", str(checkpoint), str(converted)], capture_output=True, text=True)
        found = [run.stderr.strip()] if run.returncode else list(
            differences(gguf.GGUFReader(path), gguf.GGUFReader(converted)))
        extra = [] if run.returncode else sorted(
            k for k in set(keys_of(gguf.GGUFReader(converted))) - set(keys_of(gguf.GGUFReader(path)))
            if not k.startswith(("general.", "tokenizer.")))
        n_different += bool(found)
        print(f"{path.stem:24} {'differs' if found else 'same'}" + (f"  beside: {', '.join(extra)}" if extra else ""))
        for line in found:
            print("    " + line)
    sys.exit(f"{n_different} differ" if n_different else 0)
