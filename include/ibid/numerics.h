// How a model computes, and how keys and values are stored. Cached keys and values record both settings, and are never
// used with others.
#pragma once

#include <cstdint>

namespace ibid {

// Arithmetic of the kernels.
enum class Numerics : uint8_t {
  kReference,  // dequantised weights, float activations, double accumulators: slow, for comparison
  kExact,      // our kernels; int8 activations for quantised weights. The same bits on every machine
  kFast,  // as kExact, but OpenBLAS multiplies float weights if that is faster; results may differ between machines
};

// How keys and values are stored. Layers that are sensitive to rounding are stored in more bits (docs/numerics.md).
enum class KvDType : uint8_t {
  kF32,
  kF16,
  kInt8,  // 8 bits and one scale per row, after a Hadamard rotation: nearly lossless
  kK8V4,  // keys as kInt8; values in 4 bits, one scale and minimum for 32 values: 0.8 times the bytes of kInt8
  kInt4,  // keys and values in 4 bits: 0.6 times the bytes of kInt8. The loss of quality is measurable
};

}  // namespace ibid
