"""Writes tests/golden/blocks: block bytes and what they decode to (TYPE.blocks, TYPE.floats), values and the blocks
that encode them (values.floats, TYPE.encoded).

Both directions use the PyPI package gguf (0.19.0, gguf.quants), the numpy implementation of ggml's formats. Run with
any Python that has gguf and numpy:  python3 make_block_goldens.py
All files are little endian; floats are float32. Every bit pattern of the codes is random; the f16 scales include
zeros, subnormals, negatives and the largest finite value, never infinities or NaNs.
"""
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

# Byte offsets of the f16 fields in a block.
HALF_FIELDS = {
    T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}
# From a separate generator, so that the files above stay unchanged.
LATER_HALF_FIELDS = {
    T.TQ1_0: [52], T.TQ2_0: [64], T.IQ1_S: [0], T.IQ1_M: [], T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0],
    T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ4_XS: [0], T.IQ4_NL: [0], T.MXFP4: [], T.NVFP4: [],
}
SPECIAL_HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00]
N_BLOCKS = 16


def special_bits(block, field, rng):
    # Offset by the field, so that scale and min do not have special values together.
    special = (block + 5 * field) % N_BLOCKS
    half = SPECIAL_HALVES[special] if special < len(SPECIAL_HALVES) else int(rng.integers(0, 0x10000))
    return half & ~0x4000 if half & 0x7C00 == 0x7C00 else half


def blocks_of(qtype, fields, rng):
    _, n_bytes = GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, size=(N_BLOCKS, n_bytes), dtype=np.uint8)
    for field, at in enumerate(fields):
        for b in range(N_BLOCKS):
            half = special_bits(b, field, rng)
            blocks[b, at], blocks[b, at + 1] = half & 0xFF, half >> 8
    if qtype == T.IQ1_M:  # the f16 scale is in the high nibbles of the four words of scales
        for b in range(N_BLOCKS):
            half = special_bits(b, 0, rng)
            for w in range(4):
                at = 48 + 2 * w + 1
                blocks[b, at] = blocks[b, at] & 0x0F | (half >> 4 * w & 15) << 4
    if qtype == T.MXFP4:  # exponents with finite largest values, including subnormal ones
        blocks[:, 0] = [0, 1, 2, 3, 126, 127, 128, 250] + list(rng.integers(0, 251, size=N_BLOCKS - 8))
    return blocks


def write_type(out, qtype, fields, rng):
    blocks = blocks_of(qtype, fields, rng)
    floats = dequantize(blocks, qtype).astype("<f4")
    assert np.isfinite(floats).all(), qtype
    (out / f"{qtype.name}.blocks").write_bytes(blocks.tobytes())
    (out / f"{qtype.name}.floats").write_bytes(floats.tobytes())


def main():
    out = pathlib.Path(__file__).parent / "blocks"
    out.mkdir(exist_ok=True)
    rng = np.random.default_rng(20240607)
    for qtype, fields in HALF_FIELDS.items():
        write_type(out, qtype, fields, rng)
    later = np.random.default_rng(20260501)
    for qtype, fields in LATER_HALF_FIELDS.items():
        write_type(out, qtype, fields, later)
    # Values for the encoders: blocks of several magnitudes, one of zeros, one of a single non-zero value.
    magnitudes = np.float32(2.0) ** np.arange(-12, 4, dtype="<f4")[:, None]
    values = rng.normal(size=(16, 32)).astype("<f4") * magnitudes
    values[3] = 0
    values[5, 1:] = 0
    (out / "values.floats").write_bytes(values.tobytes())
    for qtype in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.BF16):
        (out / f"{qtype.name}.encoded").write_bytes(quantize(values, qtype).tobytes())
    # The 16-bit floats: patterns with finite values, in steps that reach all exponents.
    halves = np.array([h for h in range(0, 0x10000, 61) if h & 0x7C00 != 0x7C00], dtype="<u2")
    (out / "F16.blocks").write_bytes(halves.tobytes())
    (out / "F16.floats").write_bytes(halves.view("<f2").astype("<f4").tobytes())
    bfloats = np.array([h for h in range(0, 0x10000, 127) if h & 0x7F80 != 0x7F80], dtype="<u2")
    (out / "BF16.blocks").write_bytes(bfloats.tobytes())
    (out / "BF16.floats").write_bytes(dequantize(bfloats.view(np.uint8).reshape(1, -1), T.BF16).tobytes())


if __name__ == "__main__":
    main()
