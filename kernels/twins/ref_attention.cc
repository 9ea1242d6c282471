// Scalar twins of attention-inl.h. Each row is computed as if it were alone.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "base/portable_math.h"
#include "kernels/attention/hadamard.h"
#include "kernels/attention/kv_part_order.h"
#include "kernels/twins/ref.h"

namespace ibid {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kLargestHalf = 65504.0f;

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
    if (!(largest >= kTinyBlock)) return;
    scale = largest / 127.0f;
    inverse = 127.0f / largest;
  }
  int8_t operator()(float x) const { return static_cast<int8_t>(std::nearbyint(x * inverse)); }
};

float clamp_to_half(float x) { return x < -kLargestHalf ? -kLargestHalf : x > kLargestHalf ? kLargestHalf : x; }

void store_float(KvPart part, std::byte* at, float x) {
  if (part == KvPart::kF32) {
    write(at, 0, x);
  } else {
    write(at, 0, float_to_fp16(clamp_to_half(x)));
  }
}

float load_float(KvPart part, const std::byte* at) {
  return part == KvPart::kF32 ? read<float>(at, 0) : fp16_to_float(read<uint16_t>(at, 0));
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

// One part of a head, keys or values: its numbers, in their order, and where its scales are.
struct Part {
  KvPart kind;
  KvPartOrder order;
  size_t scales;     // offset in the head's block
  size_t head_dim;
  size_t n_dims;     // with padding

  static Part keys(const KvHeadBlock& block) {
    const bool coded = block.keys() == KvPart::kInt8 || block.keys() == KvPart::kInt4;
    return {block.keys(), key_order(block), block.k_scale, block.head_dim, coded ? block.k_dim : block.head_dim};
  }
  static Part values(const KvHeadBlock& block) {
    const size_t n = block.values() == KvPart::kInt4 ? block.nibble_groups() * kNibbleGroup : block.v_dim;
    return {block.values(), value_order(block), block.v_scale, block.head_dim, n};
  }
};

void store_floats(const Part& part, std::byte* head, size_t p, const float* x) {
  for (size_t d = 0; d < part.n_dims; ++d) {
    store_float(part.kind, head + part.order.at(p, d), d < part.head_dim ? x[d] : 0.0f);
  }
}

// zero: what stands for 0.
void store_int8(const Part& part, std::byte* head, size_t p, const float* x, int zero) {
  const Quantizer quantizer(x, part.head_dim);
  write(head + part.scales, p, quantizer.scale);
  for (size_t d = 0; d < part.n_dims; ++d) {
    const int q = d < part.head_dim ? quantizer(x[d]) : 0;
    write(head + part.order.at(p, d), 0, static_cast<uint8_t>(q + zero));
  }
}

// x ~ minimum + scale * q of up to 32 numbers; both as they are stored.
struct NibbleQuantizer {
  uint16_t scale_bits, minimum_bits;
  float minimum, inverse;

  NibbleQuantizer(const float* x, size_t n) {
    const float lowest = clamp_to_half(*std::min_element(x, x + n)) + 0.0f;    // no -0, which equals 0
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

void store_part(const Part& part, std::byte* head, size_t p, const float* x, int zero) {
  switch (part.kind) {
    case KvPart::kF32:
    case KvPart::kF16: return store_floats(part, head, p, x);
    case KvPart::kInt8: return store_int8(part, head, p, x, zero);
    case KvPart::kInt4: return store_int4(part, head, p, x);
  }
}

void kv_store(const KvHeadBlock& block, std::byte* head, size_t p, const float* k, const float* v) {
  float keys[kMaxHeadDim], values[kMaxHeadDim];
  std::copy_n(k, block.head_dim, keys);
  std::copy_n(v, block.head_dim, values);
  if (block.rotated()) {
    hadamard(keys, block.head_dim);
    hadamard(values, block.head_dim);
  }
  store_part(Part::keys(block), head, p, keys, 128);
  store_part(Part::values(block), head, p, values, 0);
}

int nibble(const KvPartOrder& order, const std::byte* head, size_t p, size_t d) {
  return read<uint8_t>(head + order.at(p, d), 0) >> (order.is_high(d) ? 4 : 0) & 15;
}

float half(const std::byte* scales, size_t index) { return fp16_to_float(read<uint16_t>(scales, index)); }

// What store_part() stored, as floats.
void load_part(const Part& part, const std::byte* head, size_t p, float* x, int zero) {
  for (size_t d = 0; d < part.head_dim; ++d) {
    const std::byte* at = head + part.order.at(p, d);
    const size_t scale = nibble_scale(d / kNibbleGroup, p);
    switch (part.kind) {
      case KvPart::kF32:
      case KvPart::kF16: x[d] = load_float(part.kind, at); break;
      case KvPart::kInt8:
        x[d] = read<float>(head + part.scales, p) *
               static_cast<float>(static_cast<int8_t>(read<uint8_t>(at, 0) - zero));
        break;
      case KvPart::kInt4:
        x[d] = std::fma(half(head + part.scales, scale), static_cast<float>(nibble(part.order, head, p, d)),
                        half(head + part.scales, scale + kPagePositions));
        break;
    }
  }
}

int key_code(const KvHeadBlock& block, const std::byte* head, size_t p, size_t d) {
  return read<uint8_t>(head + key_order(block).at(p, d), 0) - 128;
}

int value_code(const KvHeadBlock& block, const std::byte* head, size_t p, size_t d) {
  return read<int8_t>(head + value_order(block).at(p, d), 0);
}

float float_score(const KvHeadBlock& block, const std::byte* head, size_t p, const float* q) {
  float sum = 0;
  for (size_t d = 0; d < block.head_dim; ++d) {
    sum = std::fma(q[d], load_float(block.keys(), head + key_order(block).at(p, d)), sum);
  }
  return sum;
}

float int8_score(const KvHeadBlock& block, const std::byte* head, size_t p, const float* q,
                 const Quantizer& quantizer) {
  int32_t sum = 0;
  for (size_t d = 0; d < block.head_dim; ++d) sum += quantizer(q[d]) * key_code(block, head, p, d);
  return static_cast<float>(sum) * (quantizer.scale * read<float>(head + block.k_scale, p));
}

float int4_score(const KvHeadBlock& block, const std::byte* head, size_t p, const float* q,
                 const Quantizer& quantizer) {
  float total = 0;
  for (size_t g = 0; g < block.nibble_groups(); ++g) {
    int32_t sum = 0, sum_of_q = 0;
    for (size_t d = g * kNibbleGroup; d < std::min((g + 1) * kNibbleGroup, block.head_dim); ++d) {
      sum += quantizer(q[d]) * nibble(key_order(block), head, p, d);
      sum_of_q += quantizer(q[d]);
    }
    const size_t at = nibble_scale(g, p);
    total = std::fma(static_cast<float>(sum), half(head + block.k_scale, at), total);
    total = std::fma(static_cast<float>(sum_of_q), half(head + block.k_scale, at + kPagePositions), total);
  }
  return total * quantizer.scale;
}

float score(const KvHeadBlock& block, const std::byte* head, size_t p, const float* q, const Quantizer& quantizer) {
  if (block.keys() == KvPart::kInt8) return int8_score(block, head, p, q, quantizer);
  if (block.keys() == KvPart::kInt4) return int4_score(block, head, p, q, quantizer);
  return float_score(block, head, p, q);
}

// out += weight * values of one position.
void add_values(const KvHeadBlock& block, const std::byte* head, size_t p, float weight, float* out) {
  for (size_t d = 0; d < block.v_dim; ++d) {
    out[d] = std::fma(weight, load_float(block.values(), head + value_order(block).at(p, d)), out[d]);
  }
}

// Weights as integers: weight ~ code * step.
struct WeightCodes {
  float inverse = 0, step = 0;   // of nothing but tiny weights: all codes are 0

  explicit WeightCodes(float top) {
    if (top < kTinyWeight) return;
    inverse = kLargestWeightCode / top;
    step = top / kLargestWeightCode;
  }
  int32_t operator()(float weight) const { return static_cast<int32_t>(std::nearbyint(weight * inverse)); }
};

// out = the sum of weights[p] * values over positions [begin, end) of the tile.
void add_int8_values(const KvHeadBlock& block, const AttendTile& tile, size_t begin, size_t end, float* weights,
                     float* out) {
  float top = 0;
  for (size_t p = begin; p < end; ++p) {
    weights[p] = weights[p] * read<float>(tile.heads[p / kPagePositions] + block.v_scale, p % kPagePositions);
    top = std::max(top, weights[p]);
  }
  const WeightCodes code(top);
  for (size_t d = 0; d < block.v_dim; ++d) {
    int32_t sum = 0;
    for (size_t p = begin; p < end; ++p) {
      sum += code(weights[p]) * value_code(block, tile.heads[p / kPagePositions], p % kPagePositions, d);
    }
    out[d] = static_cast<float>(sum) * code.step;
  }
}

// The same of the dimensions that share their scales and minima, for each group of them.
void add_int4_values(const KvHeadBlock& block, const AttendTile& tile, size_t begin, size_t end, const float* weights,
                     float* out) {
  for (size_t g = 0; g < block.nibble_groups(); ++g) {
    float scaled[kAttentionBlock], lanes[16] = {}, top = 0;
    for (size_t p = begin; p < end; ++p) {
      const std::byte* scales = tile.heads[p / kPagePositions] + block.v_scale;
      const size_t at = nibble_scale(g, p % kPagePositions);
      scaled[p] = weights[p] * half(scales, at);
      top = std::max(top, scaled[p]);
      lanes[p % 16] = std::fma(weights[p], half(scales, at + kPagePositions), lanes[p % 16]);
    }
    const WeightCodes code(top);
    const float floor = reduce_add16(lanes);
    for (size_t d = g * kNibbleGroup; d < std::min((g + 1) * kNibbleGroup, block.v_dim); ++d) {
      int32_t sum = 0;
      for (size_t p = begin; p < end; ++p) {
        sum += code(scaled[p]) * nibble(value_order(block), tile.heads[p / kPagePositions], p % kPagePositions, d);
      }
      out[d] = std::fma(static_cast<float>(sum), code.step, floor);
    }
  }
}

void attend_row(const KvHeadBlock& block, const AttendTile& tile, size_t row) {
  const size_t begin = std::max(tile.row_begin[row], tile.begin) - tile.begin;
  const size_t last = std::min(tile.row_end[row], tile.begin + kAttentionBlock);
  const size_t end = last < tile.begin ? 0 : last - tile.begin;
  const float* q = tile.q + row * tile.q_stride;
  const Quantizer quantizer(q, block.head_dim);
  float* out = tile.result.out + row * tile.result.out_stride;
  std::fill_n(out, block.v_dim, 0.0f);

  float scores[kAttentionBlock];
  float largest = kNone;
  for (size_t p = begin; p < end; ++p) {
    const std::byte* head = tile.heads[p / kPagePositions];
    const size_t at = p % kPagePositions;
    float s = score(block, head, at, q, quantizer) * tile.scale;
    if (tile.softcap != 0) s = tile.softcap * portable_tanh(s / tile.softcap);
    scores[p] = s;
    largest = std::max(largest, s);
  }
  largest = largest + 0.0f;

  float lanes[16] = {};
  for (size_t p = begin; p < end; ++p) {
    const float weight = portable_exp(scores[p] - largest);
    lanes[p % 16] = lanes[p % 16] + weight;
    scores[p] = weight;
    if (!block.rotated()) {
      add_values(block, tile.heads[p / kPagePositions], p % kPagePositions, weight, out);
    }
  }
  if (block.values() == KvPart::kInt8) add_int8_values(block, tile, begin, end, scores, out);
  if (block.values() == KvPart::kInt4) add_int4_values(block, tile, begin, end, scores, out);
  tile.result.max[row] = largest;
  tile.result.sum[row] = reduce_add16(lanes);
}

void attend_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte*) {
  for (size_t row = 0; row < tile.n_rows; ++row) attend_row(block, tile, row);
}

void attend_merge(const AttendSums& total, const AttendSums& part, size_t n_rows, size_t head_dim) {
  for (size_t row = 0; row < n_rows; ++row) {
    if (part.max[row] == kNone) continue;
    const float largest = std::max(total.max[row], part.max[row]);
    const float a = portable_exp(total.max[row] - largest);
    const float b = portable_exp(part.max[row] - largest);
    total.sum[row] = std::fma(total.sum[row], a, part.sum[row] * b);
    float* to = total.out + row * total.out_stride;
    const float* from = part.out + row * part.out_stride;
    for (size_t d = 0; d < head_dim; ++d) to[d] = std::fma(to[d], a, from[d] * b);
    total.max[row] = largest;
  }
}

}  // namespace

void ref_stored_row(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v) {
  load_part(Part::keys(block), head, position, k, 128);
  load_part(Part::values(block), head, position, v, 0);
}

void ref_kv_load(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v) {
  ref_stored_row(block, head, position, k, v);
  if (!block.rotated()) return;
  ref_hadamard_in_double(k, block.head_dim);
  ref_hadamard_in_double(v, block.head_dim);
}

void ref_hadamard_in_double(float* x, size_t n) {
  double wide[kMaxHeadDim];
  std::copy_n(x, n, wide);
  transform(wide, n);
  for (size_t d = 0; d < n; ++d) x[d] = static_cast<float>(wide[d]);
}

void fill_ref_attention(Kernels& table) {
  table.hadamard = hadamard;
  table.kv_store = kv_store;
  table.kv_load = ref_kv_load;
  table.attend_tile = attend_tile;
  table.attend_merge = attend_merge;
}

}  // namespace ibid
