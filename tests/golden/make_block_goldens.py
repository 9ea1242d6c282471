"""Writes tests/golden/blocks: block bytes and what they decode to (TYPE.blocks, TYPE.floats), values and the blocks
that encode them (values.floats, TYPE.encoded).

Both directions are those of the PyPI package gguf (0.19.0, gguf.quants), numpy's reading of ggml's formats. Run with
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
SPECIAL_HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00]
N_BLOCKS = 16


def blocks_of(qtype, rng):
    _, n_bytes = GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, size=(N_BLOCKS, n_bytes), dtype=np.uint8)
    for field, at in enumerate(HALF_FIELDS[qtype]):
        for b in range(N_BLOCKS):
            # Offset by the field, so that scale and min are not special together.
            special = (b + 5 * field) % N_BLOCKS
            half = SPECIAL_HALVES[special] if special < len(SPECIAL_HALVES) else int(rng.integers(0, 0x10000))
            if half & 0x7C00 == 0x7C00:
                half &= ~0x4000
            blocks[b, at], blocks[b, at + 1] = half & 0xFF, half >> 8
    return blocks


def main():
    out = pathlib.Path(__file__).parent / "blocks"
    out.mkdir(exist_ok=True)
    rng = np.random.default_rng(20240607)
    for qtype in HALF_FIELDS:
        blocks = blocks_of(qtype, rng)
        floats = dequantize(blocks, qtype).astype("<f4")
        assert np.isfinite(floats).all(), qtype
        (out / f"{qtype.name}.blocks").write_bytes(blocks.tobytes())
        (out / f"{qtype.name}.floats").write_bytes(floats.tobytes())
    # Values for the encoders: blocks of several magnitudes, one of zeros, one of a single non-zero value.
    magnitudes = np.float32(2.0) ** np.arange(-12, 4, dtype="<f4")[:, None]
    values = rng.normal(size=(16, 32)).astype("<f4") * magnitudes
    values[3] = 0
    values[5, 1:] = 0
    (out / "values.floats").write_bytes(values.tobytes())
    for qtype in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.BF16):
        (out / f"{qtype.name}.encoded").write_bytes(quantize(values, qtype).tobytes())
    # The 16-bit floats: every pattern with a finite value, in steps that meet all exponents.
    halves = np.array([h for h in range(0, 0x10000, 61) if h & 0x7C00 != 0x7C00], dtype="<u2")
    (out / "F16.blocks").write_bytes(halves.tobytes())
    (out / "F16.floats").write_bytes(halves.view("<f2").astype("<f4").tobytes())
    bfloats = np.array([h for h in range(0, 0x10000, 127) if h & 0x7F80 != 0x7F80], dtype="<u2")
    (out / "BF16.blocks").write_bytes(bfloats.tobytes())
    (out / "BF16.floats").write_bytes(dequantize(bfloats.view(np.uint8).reshape(1, -1), T.BF16).tobytes())


if __name__ == "__main__":
    main()
