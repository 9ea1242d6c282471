// Scalar twins of attention-inl.h. Each row is computed as if it were alone.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "base/portable_math.h"
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

void store_float(KvDType dtype, std::byte* at, float x) {
  if (dtype == KvDType::kF32) {
    write(at, 0, x);
  } else {
    const float saturated = x < -kLargestHalf ? -kLargestHalf : x > kLargestHalf ? kLargestHalf : x;
    write(at, 0, float_to_fp16(saturated));
  }
}

float load_float(KvDType dtype, const std::byte* at) {
  return dtype == KvDType::kF32 ? read<float>(at, 0) : fp16_to_float(read<uint16_t>(at, 0));
}

void store_int8(const KvHeadBlock& block, std::byte* head, size_t p, const float* k, const float* v) {
  const KvPartOrder keys = key_order(block), values = value_order(block);
  const Quantizer key(k, block.head_dim);
  const Quantizer value(v, block.head_dim);
  write(head + block.k_scale, p, key.scale);
  write(head + block.v_scale, p, value.scale);
  for (size_t d = 0; d < block.k_dim; ++d) {
    const int q = d < block.head_dim ? key(k[d]) : 0;
    write(head + keys.at(p, d), 0, static_cast<uint8_t>(q + 128));
  }
  for (size_t d = 0; d < block.v_dim; ++d) {
    write(head + values.at(p, d), 0, d < block.head_dim ? value(v[d]) : int8_t{0});
  }
}

void kv_store(const KvHeadBlock& block, std::byte* head, size_t p, const float* k, const float* v) {
  if (block.dtype == KvDType::kInt8) return store_int8(block, head, p, k, v);
  const KvPartOrder keys = key_order(block), values = value_order(block);
  for (size_t d = 0; d < block.head_dim; ++d) {
    store_float(block.dtype, head + keys.at(p, d), k[d]);
  }
  for (size_t d = 0; d < block.v_dim; ++d) {
    store_float(block.dtype, head + values.at(p, d), d < block.head_dim ? v[d] : 0.0f);
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
    sum = std::fma(q[d], load_float(block.dtype, head + key_order(block).at(p, d)), sum);
  }
  return sum;
}

float int8_score(const KvHeadBlock& block, const std::byte* head, size_t p, const float* q,
                 const Quantizer& quantizer) {
  int32_t sum = 0;
  for (size_t d = 0; d < block.head_dim; ++d) sum += quantizer(q[d]) * key_code(block, head, p, d);
  return static_cast<float>(sum) * (quantizer.scale * read<float>(head + block.k_scale, p));
}

// out += weight * values of one position.
void add_values(const KvHeadBlock& block, const std::byte* head, size_t p, float weight, float* out) {
  for (size_t d = 0; d < block.v_dim; ++d) {
    out[d] = std::fma(weight, load_float(block.dtype, head + value_order(block).at(p, d)), out[d]);
  }
}

// out = the sum of weights[p] * values over positions [begin, end) of the tile.
void add_int8_values(const KvHeadBlock& block, const AttendTile& tile, size_t begin, size_t end, float* weights,
                     float* out) {
  float top = 0;
  for (size_t p = begin; p < end; ++p) {
    weights[p] = weights[p] * read<float>(tile.heads[p / kPagePositions] + block.v_scale, p % kPagePositions);
    top = std::max(top, weights[p]);
  }
  if (top < kTinyWeight) return;
  const float inverse = kLargestWeightCode / top, step = top / kLargestWeightCode;
  for (size_t d = 0; d < block.v_dim; ++d) {
    int32_t sum = 0;
    for (size_t p = begin; p < end; ++p) {
      const auto code = static_cast<int32_t>(std::nearbyint(weights[p] * inverse));
      sum += code * value_code(block, tile.heads[p / kPagePositions], p % kPagePositions, d);
    }
    out[d] = static_cast<float>(sum) * step;
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
    float s = block.dtype == KvDType::kInt8 ? int8_score(block, head, at, q, quantizer)
                                            : float_score(block, head, at, q);
    s = s * tile.scale;
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
    if (block.dtype != KvDType::kInt8) {
      add_values(block, tile.heads[p / kPagePositions], p % kPagePositions, weight, out);
    }
  }
  if (block.dtype == KvDType::kInt8) add_int8_values(block, tile, begin, end, scores, out);
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

void ref_kv_load(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v) {
  const bool scaled = block.dtype == KvDType::kInt8;
  for (size_t d = 0; d < block.head_dim; ++d) {
    if (scaled) {
      k[d] = read<float>(head + block.k_scale, position) * static_cast<float>(key_code(block, head, position, d));
      v[d] = read<float>(head + block.v_scale, position) * static_cast<float>(value_code(block, head, position, d));
    } else {
      k[d] = load_float(block.dtype, head + key_order(block).at(position, d));
      v[d] = load_float(block.dtype, head + value_order(block).at(position, d));
    }
  }
}

void fill_ref_attention(Kernels& table) {
  table.kv_store = kv_store;
  table.kv_load = ref_kv_load;
  table.attend_tile = attend_tile;
  table.attend_merge = attend_merge;
}

}  // namespace ibid
