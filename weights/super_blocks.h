// Decoders of 256-value blocks with two levels of scales: Q2_K to Q6_K, whose codes are numbers, and IQ1 to IQ3, whose
// codes are codebook entries (an index selects four or eight values; signs are stored separately).
// weights/block_formats.h describes the byte layouts; unpack_row() there calls these decoders. BlockCursor reads the
// fields of a block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "weights/block_formats.h"

namespace ibid {

// Reads a block's fields in order. Uses memcpy, because blocks of 18 or 210 bytes are unaligned.
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

// The scales of a 256-value block, each as two factors: the scale of group g is d * scales[g] (times 1/8 for
// kEighthByCode), its min is -(dmin * mins[g]).
struct SuperBlock {
  uint16_t d = 0, dmin = 0;
  std::array<int8_t, kMaxGroupsPerBlock> scales{}, mins{};
};

// Decoders of Q2_K to Q6_K. Each function writes 256 codes; if the type has no mins, the offset of its codes is
// subtracted.
SuperBlock split_q2_k(BlockCursor in, int8_t* codes);
SuperBlock split_q3_k(BlockCursor in, int8_t* codes);
SuperBlock split_q4_k(BlockCursor in, int8_t* codes);
SuperBlock split_q5_k(BlockCursor in, int8_t* codes);
SuperBlock split_q6_k(BlockCursor in, int8_t* codes);

// Decoders of IQ1 to IQ3. Each function writes 256 codes, as values of the type's table (base/number_formats.h).
SuperBlock split_iq1_s(BlockCursor in, int8_t* codes);
SuperBlock split_iq1_m(BlockCursor in, int8_t* codes);
SuperBlock split_iq2_xxs(BlockCursor in, int8_t* codes);
SuperBlock split_iq2_xs(BlockCursor in, int8_t* codes);
SuperBlock split_iq2_s(BlockCursor in, int8_t* codes);
SuperBlock split_iq3_xxs(BlockCursor in, int8_t* codes);
SuperBlock split_iq3_s(BlockCursor in, int8_t* codes);

// The codebooks of ggml's IQ formats. A codebook is a table whose entries have four or eight values. A file stores the
// index of an entry in place of four or eight weights.
enum class Codebook {
  kIq2xxs,  // 256 entries of eight values, each 8, 25 or 43
  kIq2xs,   // 512 entries of eight values, each 8, 25 or 43
  kIq2s,    // 1024 entries of eight values, each 8, 25 or 43
  kIq3xxs,  // 256 entries of four values, each 4, 12, 20, 28, 36, 44, 52 or 62
  kIq3s,    // 512 entries of four values, each 2, 6, 10 .. 30 (twice the numbers of the format)
  kIq1,     // 2048 entries of eight values, each -1, 0 or 1
};

// Returns the values of all entries, concatenated. Expanded at first use; thread-safe.
const int8_t* codebook(Codebook book);

}  // namespace ibid
