// How a model computes, and how keys and values are stored. Both are part of the identity of every cached key and
// value: what was computed one way is never used another way.
#pragma once

#include <cstdint>

namespace ibid {

// How numbers are computed.
enum class Numerics : uint8_t {
  kReference,  // dequantised weights, float activations, double accumulators: the oracle, slow
  kExact,      // our kernels; int8 activations for quantised weights. The same bits always.
  kFast,       // as kExact, but OpenBLAS multiplies float weights where it is faster (many rows, AVX2 alone):
               // compared by tolerance, without the promise of the same bits
};

// How keys and values are stored. Layers that would lose too much in few bits keep more of them (docs/numerics.md).
enum class KvDType : uint8_t {
  kF32,
  kF16,
  kInt8,  // 8 bits and a scale for each row, rotated first (a Hadamard transform), so that nearly nothing is lost
  kK8V4,  // keys as kInt8, values in 4 bits, 32 of them with one scale and one minimum: 0.8 of its bytes
  kInt4,  // keys and values in 4 bits: 0.6 of its bytes. The loss can be seen
};

}  // namespace ibid
