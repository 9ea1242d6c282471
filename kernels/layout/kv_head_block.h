// KvHeadBlock: the keys and values of one head in one page, and the constants that they are made by. Pure data; where
// each number lies is in kernels/layout/kv_part_order.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ibid/numerics.h"

namespace ibid {

// Keys and values of one KV head over one page of 64 positions, as attention reads them.
//   F32, F16: K [4 groups][head_dim][16 positions], V [64 positions][v_dim]
//   INT8:     K [4 groups][k_dim / 4][16 positions][4], V [64 / 4][v_dim][4 positions], one float scale per
//             position for each: x ~ scale * q, scale = max|x| / 127, q = round to nearest even of x * (127 / max|x|)
//   INT4:     K [4 groups][k_dim / 8][16 positions][4], dimensions d and d + 4 of eight in a byte, d in the low bits;
//             V [64 / 4][head_dim / 32][16][4 positions], dimensions d and d + 16 of 32 in a byte. A position has a
//             scale and a minimum for every 32 dimensions, in half precision: [head_dim / 32][scale, minimum][64].
//             x ~ minimum + scale * q, scale = (max - minimum) / 15, q = round of (x - minimum) / scale, in 0..15,
//             with both as they are stored; the largest and the smallest number saturate at +-65504 before
// k_dim = head_dim rounded up to 4, of INT4 to 32; v_dim = head_dim rounded up to 16, and stored of INT4 to 32; the
// padding is zero. F16 rounds to nearest even and saturates at +-65504. INT8 rows whose largest magnitude is below
// kTinyBlock are zeros. INT8 keys are stored as q + 128, as 8-bit weights are; values as q.
// KvRowFormat says which part has which; keys and values may differ, and so may layers.
//
// INT8 and INT4 parts are rotated: the stored numbers are the Hadamard transform of the head
// (kernels/layout/hadamard.h). Float parts are stored as they are.
//
// A latent row (multi-head latent attention) is key and value at once: its first latent_dim dimensions are the value,
// and there is no V. Both parts of it, those dimensions and the ones behind them, are rotated by themselves, and have a
// scale of their own in INT8, since they differ in size; both are whole groups of 32. As its one row is a key, it has
// the format of keys. Kernels::latent_values puts its values into the order of V.

inline constexpr size_t kMaxHeadDim = 1024;     // dimensions of a head
inline constexpr size_t kPagePositions = 64;    // positions of a page
inline constexpr size_t kKeyGroup = 16;         // positions that lie side by side in K
inline constexpr size_t kValueGroup = 4;        // and in V of INT8
inline constexpr size_t kNibbleGroup = 32;      // dimensions that share scale and minimum in INT4
inline constexpr size_t kLatentUnit = 32;       // both parts of a latent row are multiples of it
inline constexpr size_t kAttentionBlock = 256;  // positions whose softmax is one unit; merged in order

// How the keys, or the values, of a head are stored.
enum class KvPart : uint8_t { kF32, kF16, kInt8, kInt4 };

constexpr bool is_coded(KvPart part) { return part >= KvPart::kInt8; }  // integers with scales; they are rotated

// The formats of a layer's keys and values.
struct KvRowFormat {
  KvPart keys = KvPart::kF32;
  KvPart values = KvPart::kF32;

  // The format that a KV type has in layers without exceptions (model/weights/kv_precision.h).
  constexpr KvRowFormat(KvDType dtype)  // NOLINT: every KV type is a format
      : keys(dtype == KvDType::kK8V4 ? KvPart::kInt8 : dtype == KvDType::kInt4 ? KvPart::kInt4 : KvPart(dtype)),
        values(dtype >= KvDType::kK8V4 ? KvPart::kInt4 : KvPart(dtype)) {}
  constexpr KvRowFormat(KvPart k, KvPart v) : keys(k), values(v) {}
  bool operator==(const KvRowFormat&) const = default;
};

// Byte offsets of the four parts inside one head's block, and its size; all multiples of 64.
struct KvHeadBlock {
  KvRowFormat format{KvDType::kF32};
  size_t head_dim = 0;
  size_t latent_dim = 0;        // of a key, its first dimensions that are its value; 0: values are stored beside keys
  size_t k_dim = 0, v_dim = 0;  // INT8, INT4: dimensions of K with padding; of V with padding
  // Of latent rows v is where their values begin in what latent_values() wrote, and v_scale is k_scale.
  size_t k = 0, k_scale = 0, v = 0, v_scale = 0;
  size_t bytes = 0;
  KvPart keys() const { return format.keys; }
  KvPart values() const { return is_latent() ? keys() : format.values; }
  bool is_latent() const { return latent_dim != 0; }
  size_t value_dim() const { return is_latent() ? latent_dim : head_dim; }
  size_t nibble_groups() const { return (head_dim + kNibbleGroup - 1) / kNibbleGroup; }       // of a key
  size_t value_groups() const { return (value_dim() + kNibbleGroup - 1) / kNibbleGroup; }
  // REQUIRES: 0 < head_dim <= kMaxHeadDim; latent_dim < head_dim, and both are multiples of kLatentUnit where there is
  // one.
  static KvHeadBlock make(KvRowFormat format, size_t head_dim, size_t latent_dim = 0);  // kv_head_block.cc
};

}  // namespace ibid
