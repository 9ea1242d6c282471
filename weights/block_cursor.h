// The shared parts of the decoders of quantised blocks (weights/block_formats.cc, weights/codebook_formats.cc): a
// reader of a block's fields in order, and the result of decoding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "weights/block_formats.h"

namespace ibid {

// memcpy, because blocks of 18 or 210 bytes are never aligned.
class BlockCursor {
 public:
  explicit BlockCursor(const std::byte* at) : at_(at) {}

  const uint8_t* bytes(size_t n) {
    const auto* field = reinterpret_cast<const uint8_t*>(at_);
    at_ += n;
    return field;
  }
  uint8_t u8() { return *bytes(1); }
  uint16_t u16() { return read<uint16_t>(); }
  uint32_t u32() { return read<uint32_t>(); }
  float f64() { return static_cast<float>(read<double>()); }  // rounded to nearest
  float f16() { return fp16_to_float(u16()); }

 private:
  template <typename T>
  T read() {
    T value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  const std::byte* at_;
};

inline int nibble(uint8_t byte, bool high) { return high ? byte >> 4 : byte & 15; }

// A block of 256 before its scales are multiplied: scale of group g = d * scales[g] (by 1/8 for kEighthByCode),
// min = -(dmin * mins[g]).
struct SuperBlock {
  uint16_t d = 0, dmin = 0;
  std::array<int8_t, kMaxGroupsPerBlock> scales{}, mins{};
};

}  // namespace ibid
