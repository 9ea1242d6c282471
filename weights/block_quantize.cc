#include "weights/block_quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace ibid {

namespace {

// Writes the fields of one block in order.
class BlockWriter {
 public:
  explicit BlockWriter(std::byte* at) : at_(at) {}

  void u8(int value) { *at_++ = static_cast<std::byte>(value); }
  void f16(float value) { raw(float_to_fp16(value)); }
  template <typename T>
  void raw(T value) {
    std::memcpy(at_, &value, sizeof(value));
    at_ += sizeof(value);
  }

 private:
  std::byte* at_;
};

// Returns 1 / d. If d is 0, all values of the block are 0, and the function returns 0 as the reference encoders do.
float inverse(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }

// --- Blocks of 256: Q4_K, Q5_K, Q6_K. Scales are searched as in ggml's quantize_row_*_ref
// (https://github.com/ggml-org/ggml, src/ggml-quants.c), so that the error equals that of other encoders.

constexpr size_t kValues = 256;
using Codes = std::array<int, kValues>;

int rounded(float value) { return static_cast<int>(std::nearbyint(value)); }

// A group's scale and min: value = scale * code - min, with min >= 0.
struct Range32 {
  float scale = 0, min = 0;
};

// Weighted sums over a group: w are the weights, x the values, l the codes; xl, for example, is the sum of w x l.
struct Moments {
  float w = 0, x = 0, l = 0, ll = 0, xl = 0;

  void add(float weight, float value, float code) {
    w += weight;
    x += weight * value;
    l += weight * code;
    ll += weight * code * code;
    xl += weight * value * code;
  }
  // Computes the least-squares scale and min for the summed codes. Returns false if the sums do not determine them.
  bool solve(Range32& out) const {
    const float determinant = w * ll - l * l;
    if (!(determinant > 0)) return false;
    out.scale = (w * xl - x * l) / determinant;
    out.min = -(ll * x - l * xl) / determinant;
    if (out.min < 0) {  // mins must not be negative, so use the best scale for a min of 0
      out.min = 0;
      out.scale = ll > 0 ? xl / ll : 0;
    }
    return true;
  }
};

float weighted_error(std::span<const float> x, std::span<const float> weights, const std::array<int, 32>& codes,
                     const Range32& range) {
  float error = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const float difference = range.scale * static_cast<float>(codes[i]) - range.min - x[i];
    error += weights[i] * difference * difference;
  }
  return error;
}

// As ggml's make_qkx2_quants: tries several scales around (largest - smallest value) / max_code. For each of them it
// rounds the codes and computes the least-squares scale and min. Returns the scale and min with the smallest weighted
// error.
Range32 search_range(std::span<const float> x, int max_code, int steps, float first, float step) {
  float squares = 0;
  for (const float value : x) squares += value * value;
  const float root = std::sqrt(squares / static_cast<float>(x.size()));
  std::array<float, 32> weights;
  for (size_t i = 0; i < x.size(); ++i) weights[i] = root + std::fabs(x[i]);
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  Range32 best{0, -std::min(*low, 0.0f)};
  if (!(*high + best.min > 0)) return best;
  const auto codes_for = [&](float inverse_scale) {
    std::array<int, 32> codes;
    for (size_t i = 0; i < x.size(); ++i) {
      codes[i] = std::clamp(rounded(inverse_scale * (x[i] + best.min)), 0, max_code);
    }
    return codes;
  };
  best.scale = (*high + best.min) / static_cast<float>(max_code);
  float least = weighted_error(x, weights, codes_for(1 / best.scale), best);
  for (int s = 0; s <= steps; ++s) {
    const float inverse_scale =
        (first + step * static_cast<float>(s) + static_cast<float>(max_code)) / (*high + best.min);
    const std::array<int, 32> codes = codes_for(inverse_scale);
    Moments moments;
    for (size_t i = 0; i < x.size(); ++i) moments.add(weights[i], x[i], static_cast<float>(codes[i]));
    Range32 range;
    if (!moments.solve(range)) continue;
    const float error = weighted_error(x, weights, codes, range);
    if (error < least) least = error, best = range;
  }
  return best;
}

// The scales and mins of Q4_K and Q5_K as 6-bit multiples of FP16 numbers.
struct SixBits {
  std::array<int, 8> scales, mins;
  float d, dmin;
};

SixBits to_six_bits(const std::array<Range32, 8>& ranges) {
  float largest_scale = 0, largest_min = 0;
  for (const Range32& range : ranges) {
    largest_scale = std::max(largest_scale, range.scale);
    largest_min = std::max(largest_min, range.min);
  }
  SixBits six{};
  const float scale_factor = 63 * inverse(largest_scale), min_factor = 63 * inverse(largest_min);
  for (size_t g = 0; g < 8; ++g) {
    six.scales[g] = std::clamp(rounded(scale_factor * ranges[g].scale), 0, 63);
    six.mins[g] = std::clamp(rounded(min_factor * ranges[g].min), 0, 63);
  }
  six.d = fp16_to_float(float_to_fp16(largest_scale / 63));
  six.dmin = fp16_to_float(float_to_fp16(largest_min / 63));
  return six;
}

// Returns the squared error of a group for a scale and min as stored.
float stored_error(std::span<const float> x, float scale, float min, int max_code) {
  float error = 0;
  for (const float value : x) {
    const int code = scale == 0 ? 0 : std::clamp(rounded((value + min) / scale), 0, max_code);
    const float difference = scale * static_cast<float>(code) - min - value;
    error += difference * difference;
  }
  return error;
}

// After the scale and the min were each rounded to six bits, they no longer fit each other. So this function takes the
// pair with the smallest error among the neighbouring six-bit values. ggml does not do this.
void take_best_neighbours(std::span<const float> x, int max_code, size_t group, SixBits& six) {
  const int scale = six.scales[group], min = six.mins[group];
  const auto error_of = [&](int s, int m) {
    return stored_error(x, six.d * static_cast<float>(s), six.dmin * static_cast<float>(m), max_code);
  };
  float least = error_of(scale, min);
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, 63); ++s) {
    for (int m = std::max(min - 1, 0); m <= std::min(min + 1, 63); ++m) {
      const float error = error_of(s, m);
      if (error < least) least = error, six.scales[group] = s, six.mins[group] = m;
    }
  }
}

void write_six_bits(const SixBits& six, BlockWriter& out) {
  out.f16(six.d);
  out.f16(six.dmin);
  for (size_t g = 0; g < 4; ++g) out.u8(six.scales[g] | ((six.scales[g + 4] >> 4) << 6));
  for (size_t g = 0; g < 4; ++g) out.u8(six.mins[g] | ((six.mins[g + 4] >> 4) << 6));
  for (size_t g = 0; g < 4; ++g) out.u8((six.scales[g + 4] & 15) | ((six.mins[g + 4] & 15) << 4));
}

void encode_q4_q5(bool fifth, std::span<const float, kValues> x, BlockWriter out) {
  const int max_code = fifth ? 31 : 15;
  std::array<Range32, 8> ranges;
  for (size_t g = 0; g < 8; ++g) {
    ranges[g] = fifth ? search_range(x.subspan(32 * g, 32), max_code, 15, -0.5f, 0.1f)
                      : search_range(x.subspan(32 * g, 32), max_code, 20, -1.0f, 0.1f);
  }
  SixBits six = to_six_bits(ranges);
  for (size_t g = 0; g < 8; ++g) take_best_neighbours(x.subspan(32 * g, 32), max_code, g, six);
  Codes codes{};
  for (size_t i = 0; i < kValues; ++i) {
    const float d = six.d * static_cast<float>(six.scales[i / 32]), m = six.dmin * static_cast<float>(six.mins[i / 32]);
    if (d != 0) codes[i] = std::clamp(rounded((x[i] + m) / d), 0, max_code);
  }
  write_six_bits(six, out);
  for (size_t l = 0; fifth && l < 32; ++l) {
    int bits = 0;
    for (size_t g = 0; g < 8; ++g) bits |= (codes[32 * g + l] >> 4) << g;
    out.u8(bits);
  }
  for (size_t i = 0; i < 128; ++i) {
    const size_t low = 64 * (i / 32) + i % 32;
    out.u8((codes[low] & 15) | ((codes[low + 32] & 15) << 4));
  }
}

// As ggml's make_qx_quants, for 16 values and codes -32..31: returns the scale whose codes explain the largest part of
// the weighted sum of squares; weights are the squares of the values.
float search_scale(std::span<const float> x) {
  float extreme = 0;
  for (const float value : x) extreme = std::fabs(value) > std::fabs(extreme) ? value : extreme;
  if (std::fabs(extreme) < 1e-15f) return 0;
  float best_scale = 0, best = -1;
  const auto look_at = [&](int s) {
    const float inverse_scale = -(32 + 0.1f * static_cast<float>(s)) / extreme;
    float product = 0, square = 0;
    for (const float value : x) {
      const auto code = static_cast<float>(std::clamp(rounded(inverse_scale * value), -32, 31));
      product += value * value * value * code;
      square += value * value * code * code;
    }
    if (square > 0 && product * product > best * square) {
      best_scale = product / square;
      best = product * product / square;
    }
  };
  look_at(0);  // try step 0 first, because the other steps replace it only if they are better
  for (int s = -9; s <= 9; ++s) {
    if (s != 0) look_at(s);
  }
  return best_scale;
}

void encode_q6(std::span<const float, kValues> x, BlockWriter out) {
  std::array<float, 16> scales;
  float extreme = 0;
  for (size_t g = 0; g < 16; ++g) {
    scales[g] = search_scale(x.subspan(16 * g, 16));
    extreme = std::fabs(scales[g]) > std::fabs(extreme) ? scales[g] : extreme;
  }
  const float factor = -128 * inverse(extreme);
  const float d = fp16_to_float(float_to_fp16(extreme / -128));
  std::array<int, 16> stored;
  Codes codes;
  for (size_t g = 0; g < 16; ++g) {
    stored[g] = std::clamp(rounded(factor * scales[g]), -128, 127);
    const float scale = d * static_cast<float>(stored[g]);
    for (size_t i = 16 * g; i < 16 * (g + 1); ++i) {
      codes[i] = (scale == 0 ? 0 : std::clamp(rounded(x[i] / scale), -32, 31)) + 32;
    }
  }
  for (size_t i = 0; i < 128; ++i) {
    const size_t low = 128 * (i / 64) + i % 64;
    out.u8((codes[low] & 15) | ((codes[low + 64] & 15) << 4));
  }
  for (size_t i = 0; i < 64; ++i) {
    int bits = 0;
    for (size_t plane = 0; plane < 4; ++plane) {
      bits |= (codes[128 * (i / 32) + 32 * plane + i % 32] >> 4) << (2 * plane);
    }
    out.u8(bits);
  }
  for (const int value : stored) out.u8(value);
  out.f16(d);
}

// --- Blocks of 32.

using Block32 = std::span<const float, 32>;
using Codes32 = std::array<int, 32>;

// Returns the element of largest magnitude, with its sign.
float extreme(std::span<const float> x) {
  return *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

void put_nibbles(BlockWriter& out, const Codes32& codes) {
  for (size_t j = 0; j < 16; ++j) out.u8((codes[j] & 15) | ((codes[j + 16] & 15) << 4));
}

void put_fifth_bits(BlockWriter& out, const Codes32& codes) {
  uint32_t bits = 0;
  for (size_t i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(codes[i] >> 4) << i;
  out.raw(bits);
}

// Computes codes 0..2 * half - 1 with zero at `half`; the value of largest magnitude gets code 0.
Codes32 symmetric_codes(Block32 x, int half, float* d) {
  *d = extreme(x) / static_cast<float>(-half);
  const float id = inverse(*d);
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) {
    codes[i] = std::min(2 * half - 1, static_cast<int>(x[i] * id + static_cast<float>(half) + 0.5f));
  }
  return codes;
}

// Computes codes that divide the range of the values evenly: 0 is the smallest value, max_code the largest.
Codes32 ranged_codes(Block32 x, int max_code, float* d, float* min) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  *min = *low;
  *d = (*high - *low) / static_cast<float>(max_code);
  const float id = inverse(*d);
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) codes[i] = std::min(max_code, static_cast<int>((x[i] - *low) * id + 0.5f));
  return codes;
}

void encode_32(DType dtype, Block32 x, BlockWriter out) {
  float d = 0, min = 0;
  if (dtype == DType::kQ8_0) {
    d = std::fabs(extreme(x)) / 127.0f;
    const float id = inverse(d);
    out.f16(d);
    for (const float value : x) out.u8(static_cast<int>(std::round(value * id)));
    return;
  }
  const bool fifth = dtype == DType::kQ5_0 || dtype == DType::kQ5_1;
  const bool ranged = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  const int half = fifth ? 16 : 8;
  const Codes32 codes = ranged ? ranged_codes(x, 2 * half - 1, &d, &min) : symmetric_codes(x, half, &d);
  out.f16(d);
  if (ranged) out.f16(min);
  if (fifth) put_fifth_bits(out, codes);
  put_nibbles(out, codes);
}

void encode_block(DType dtype, std::span<const float> x, std::span<std::byte> block) {
  BlockWriter out(block.data());
  switch (dtype) {
    case DType::kF32: return out.raw(x[0]);
    case DType::kF16: return out.f16(x[0]);
    case DType::kBF16: return out.raw(to_bf16(x[0]));
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0: return encode_32(dtype, Block32(x), out);
    case DType::kQ4_K:
    case DType::kQ5_K: return encode_q4_q5(dtype == DType::kQ5_K, x.first<kValues>(), out);
    case DType::kQ6_K: return encode_q6(x.first<kValues>(), out);
    default: CHECK(false) << "no encoder for " << dtype_name(dtype);
  }
}

}  // namespace

void quantize_row(DType dtype, std::span<const float> values, std::span<std::byte> blocks) {
  const BlockSize size = dtype_block(dtype);
  CHECK_EQ(values.size() % size.values, size_t{0});
  CHECK_EQ(blocks.size(), values.size() / size.values * size.bytes);
  for (size_t b = 0; b * size.values < values.size(); ++b) {
    encode_block(dtype, values.subspan(b * size.values, size.values), blocks.subspan(b * size.bytes, size.bytes));
  }
}

}  // namespace ibid
