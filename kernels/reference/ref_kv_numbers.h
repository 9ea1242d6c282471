// Access to single stored numbers of keys and values, used by the reference kernels that store and read them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "kernels/layout/kv_head_block.h"

namespace ibid::reference_kernels {

template <typename T>
T read(const std::byte* base, size_t index) {
  T value;
  std::memcpy(&value, base + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void write(std::byte* base, size_t index, T value) {
  std::memcpy(base + index * sizeof(T), &value, sizeof(T));
}

struct Quantizer {
  float scale = 0;
  float inverse = 0;

  Quantizer(const float* x, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
    if (!(largest >= kMinBlockMagnitude)) return;
    scale = largest / 127.0f;
    inverse = 127.0f / largest;
  }
  int8_t operator()(float x) const { return static_cast<int8_t>(std::nearbyint(x * inverse)); }
};

inline float load_float(KvNumberFormat part, const std::byte* at) {
  return part == KvNumberFormat::kF32 ? read<float>(at, 0) : fp16_to_float(read<uint16_t>(at, 0));
}

inline int nibble(const KvPartOrder& order, const std::byte* head, size_t p, size_t d) {
  return read<uint8_t>(head + order.at(p, d), 0) >> (order.is_high(d) ? 4 : 0) & 15;
}

inline float half(const std::byte* scales, size_t index) { return fp16_to_float(read<uint16_t>(scales, index)); }

}  // namespace ibid::reference_kernels
