// Scalar reference kernels of kv_store-inl.h and latent_values-inl.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "kernels/layout/hadamard.h"
#include "kernels/layout/kv_head_block.h"
#include "kernels/reference/ref.h"
#include "kernels/reference/ref_kv_numbers.h"

namespace ibid {
namespace {

using namespace reference_kernels;

constexpr float kLargestHalf = 65504.0f;

float clamp_to_half(float x) { return x < -kLargestHalf ? -kLargestHalf : x > kLargestHalf ? kLargestHalf : x; }

void store_float(KvNumberFormat part, std::byte* at, float x) {
  if (part == KvNumberFormat::kF32) {
    write(at, 0, x);
  } else {
    write(at, 0, float_to_fp16(clamp_to_half(x)));
  }
}

template <typename Number>
void transform(Number* x, size_t n) {
  for (size_t begin = 0; begin < n;) {
    const size_t length = hadamard_block(n - begin);
    transform_block(x + begin, length);
    begin += length;
  }
}

void hadamard(float* x, size_t n) { transform(x, n); }

// Hadamard-transforms a key; for latent rows the first latent_dim dimensions and the rest separately.
void hadamard_of(const KvHeadBlock& block, float* k) {
  hadamard(k, block.value_dim());
  if (block.is_latent()) hadamard(k + block.latent_dim, block.head_dim - block.latent_dim);
}

// The keys or the values of a head: format, layout and offset of the scales.
struct Part {
  KvNumberFormat kind;
  KvPartOrder order;
  size_t scales;  // offset in the head's block
  size_t head_dim;
  size_t n_dims;      // with padding
  int zero;           // INT8: the code of 0
  size_t first_dims;  // INT8: number of leading dimensions with the first scale; the others have the second

  static Part keys(const KvHeadBlock& block) {
    const bool coded = block.keys() == KvNumberFormat::kInt8 || block.keys() == KvNumberFormat::kInt4;
    return {block.keys(),
            key_order(block),
            block.k_scale,
            block.head_dim,
            coded ? block.k_dim : block.head_dim,
            128,
            block.is_latent() ? block.latent_dim : block.head_dim};
  }
  // The values; for latent rows the first latent_dim dimensions of the key.
  static Part values(const KvHeadBlock& block) {
    if (block.is_latent()) {
      Part part = keys(block);
      part.head_dim = part.n_dims = block.latent_dim;
      return part;
    }
    const size_t n = block.values() == KvNumberFormat::kInt4 ? block.nibble_groups() * kNibbleGroup : block.v_dim;
    return {block.values(), value_order(block), block.v_scale, block.head_dim, n, 0, block.head_dim};
  }
};

void store_floats(const Part& part, std::byte* head, size_t p, const float* x) {
  for (size_t d = 0; d < part.n_dims; ++d) {
    store_float(part.kind, head + part.order.at(p, d), d < part.head_dim ? x[d] : 0.0f);
  }
}

void store_int8(const Part& part, std::byte* head, size_t p, const float* x) {
  const Quantizer first(x, part.first_dims), second(x + part.first_dims, part.head_dim - part.first_dims);
  write(head + part.scales, p, first.scale);
  if (part.first_dims < part.head_dim) write(head + part.scales, kPagePositions + p, second.scale);
  for (size_t d = 0; d < part.n_dims; ++d) {
    const int q = d < part.first_dims ? first(x[d]) : d < part.head_dim ? second(x[d]) : 0;
    write(head + part.order.at(p, d), 0, static_cast<uint8_t>(q + part.zero));
  }
}

// Quantiser x ~ minimum + scale * q for up to 32 numbers, which uses the stored (rounded) scale and minimum.
struct NibbleQuantizer {
  uint16_t scale_bits, minimum_bits;
  float minimum, inverse;

  NibbleQuantizer(const float* x, size_t n) {
    const float lowest = clamp_to_half(*std::min_element(x, x + n)) + 0.0f;  // + 0.0f replaces -0 by 0
    const float highest = clamp_to_half(*std::max_element(x, x + n)) + 0.0f;
    minimum_bits = float_to_fp16(lowest);
    scale_bits = float_to_fp16((highest - lowest) / 15.0f);
    minimum = fp16_to_float(minimum_bits);
    const float scale = fp16_to_float(scale_bits);
    inverse = scale > 0 ? 1.0f / scale : 0.0f;
  }
  unsigned operator()(float x) const {
    const float q = (x - minimum) * inverse;
    return static_cast<unsigned>(std::nearbyint(q < 0 ? 0.0f : q > 15 ? 15.0f : q));
  }
};

void store_int4(const Part& part, std::byte* head, size_t p, const float* x) {
  for (size_t d = 0; d < part.n_dims; ++d) {
    if (!part.order.is_high(d)) write(head + part.order.at(p, d), 0, uint8_t{0});
  }
  for (size_t first = 0; first < part.head_dim; first += kNibbleGroup) {
    const size_t n = std::min(kNibbleGroup, part.head_dim - first);
    const NibbleQuantizer quantizer(x + first, n);
    const size_t at = nibble_scale(first / kNibbleGroup, p);
    write(head + part.scales, at, quantizer.scale_bits);
    write(head + part.scales, at + kPagePositions, quantizer.minimum_bits);
    for (size_t d = first; d < first + n; ++d) {
      std::byte* byte = head + part.order.at(p, d);
      write(byte, 0, static_cast<uint8_t>(read<uint8_t>(byte, 0) | quantizer(x[d]) << (part.order.is_high(d) ? 4 : 0)));
    }
  }
}

void store_part(const Part& part, std::byte* head, size_t p, const float* x) {
  switch (part.kind) {
    case KvNumberFormat::kF32:
    case KvNumberFormat::kF16: return store_floats(part, head, p, x);
    case KvNumberFormat::kInt8: return store_int8(part, head, p, x);
    case KvNumberFormat::kInt4: return store_int4(part, head, p, x);
  }
}

void kv_store(const KvHeadBlock& block, std::byte* head, size_t p, const float* k, const float* v) {
  float keys[kMaxHeadDim], values[kMaxHeadDim];
  std::copy_n(k, block.head_dim, keys);
  if (is_coded(block.keys())) hadamard_of(block, keys);
  store_part(Part::keys(block), head, p, keys);
  if (block.is_latent()) return;
  std::copy_n(v, block.head_dim, values);
  if (is_coded(block.values())) hadamard(values, block.head_dim);
  store_part(Part::values(block), head, p, values);
}

// Copies number by number from the layout of K to that of V.
void latent_values(const KvHeadBlock& block, const std::byte* head, std::byte* values) {
  const KvPartOrder from = key_order(block), to = value_order(block);
  const size_t number = size_t{1} << from.element_bits;
  for (size_t p = 0; p < kPagePositions; ++p) {
    for (size_t d = 0; d < block.latent_dim; ++d) {
      const std::byte* const source = head + from.at(p, d);
      std::byte* const target = values + to.at(p, d);
      if (from.paired()) {
        const auto code = static_cast<std::byte>(read<uint8_t>(source, 0) >> (from.is_high(d) ? 4 : 0) & 15);
        *target = to.is_high(d) ? *target | code << 4 : code;  // the low half is written first and clears the high half
      } else {
        std::memcpy(target, source, number);
        if (block.keys() == KvNumberFormat::kInt8) *target ^= std::byte{0x80};
      }
    }
  }
}

// Loads one position written by store_part(), as floats.
void load_part(const Part& part, const std::byte* head, size_t p, float* x) {
  for (size_t d = 0; d < part.head_dim; ++d) {
    const std::byte* at = head + part.order.at(p, d);
    const size_t scale = nibble_scale(d / kNibbleGroup, p);
    switch (part.kind) {
      case KvNumberFormat::kF32:
      case KvNumberFormat::kF16: x[d] = load_float(part.kind, at); break;
      case KvNumberFormat::kInt8:
        x[d] = read<float>(head + part.scales, d < part.first_dims ? p : kPagePositions + p) *
               static_cast<float>(static_cast<int8_t>(read<uint8_t>(at, 0) - part.zero));
        break;
      case KvNumberFormat::kInt4:
        x[d] = std::fma(half(head + part.scales, scale), static_cast<float>(nibble(part.order, head, p, d)),
                        half(head + part.scales, scale + kPagePositions));
        break;
    }
  }
}

}  // namespace

void ref_stored_row(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v) {
  load_part(Part::keys(block), head, position, k);
  load_part(Part::values(block), head, position, v);
}

void ref_kv_load(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v) {
  ref_stored_row(block, head, position, k, v);
  if (is_coded(block.keys())) {
    ref_hadamard_in_double(k, block.value_dim());
    if (block.is_latent()) ref_hadamard_in_double(k + block.latent_dim, block.head_dim - block.latent_dim);
  }
  if (is_coded(block.values())) ref_hadamard_in_double(v, block.value_dim());
}

void ref_hadamard_in_double(float* x, size_t n) {
  double wide[kMaxHeadDim];
  std::copy_n(x, n, wide);
  transform(wide, n);
  for (size_t d = 0; d < n; ++d) x[d] = static_cast<float>(wide[d]);
}

void fill_ref_kv_rows(Kernels& table) {
  table.hadamard = hadamard;
  table.kv_store = kv_store;
  table.kv_load = ref_kv_load;
  table.latent_values = latent_values;
}

}  // namespace ibid
