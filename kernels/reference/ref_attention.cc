// Scalar reference kernels of attention-inl.h. Each row is computed independently.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/portable_math.h"
#include "kernels/reference/ref.h"
#include "kernels/reference/ref_kv_numbers.h"

namespace ibid {
namespace {

using namespace reference_kernels;

constexpr float kNone = -std::numeric_limits<float>::infinity();

int key_code(const KvHeadBlock& block, const std::byte* head, size_t p, size_t d) {
  return read<uint8_t>(head + key_order(block).at(p, d), 0) - 128;
}

int value_code(const KvHeadBlock& block, const std::byte* head, size_t p, size_t d) {
  if (block.is_latent()) return key_code(block, head, p, d);
  return read<int8_t>(head + value_order(block).at(p, d), 0);
}

float float_score(const KvHeadBlock& block, const std::byte* head, size_t p, const float* q) {
  float sum = 0;
  for (size_t d = 0; d < block.head_dim; ++d) {
    sum = std::fma(q[d], load_float(block.keys(), head + key_order(block).at(p, d)), sum);
  }
  return sum;
}

// Quantisers of a query. For latent rows the dimensions of the value and the remaining ones have separate scales; for
// other rows the second quantiser is unused.
struct Query {
  const float* q;
  Quantizer first, second;

  Query(const KvHeadBlock& block, const float* of)
      : q(of), first(of, block.value_dim()), second(of + block.value_dim(), block.head_dim - block.value_dim()) {}
};

float int8_score(const KvHeadBlock& block, const std::byte* head, size_t p, const Query& query) {
  int32_t first = 0, second = 0;
  for (size_t d = 0; d < block.value_dim(); ++d) first += query.first(query.q[d]) * key_code(block, head, p, d);
  const float score = static_cast<float>(first) * (query.first.scale * read<float>(head + block.k_scale, p));
  if (!block.is_latent()) return score;
  for (size_t d = block.latent_dim; d < block.head_dim; ++d) {
    second += query.second(query.q[d]) * key_code(block, head, p, d);
  }
  const float scale = query.second.scale * read<float>(head + block.k_scale, kPagePositions + p);
  return std::fma(static_cast<float>(second), scale, score);
}

float int4_score(const KvHeadBlock& block, const std::byte* head, size_t p, const Query& query) {
  float total = 0;
  for (size_t g = 0; g < block.nibble_groups(); ++g) {
    const Quantizer& quantizer = g < block.value_groups() ? query.first : query.second;
    const float factor = block.is_latent() ? quantizer.scale : 1.0f;
    const float* q = query.q;
    int32_t sum = 0, sum_of_q = 0;
    for (size_t d = g * kNibbleGroup; d < std::min((g + 1) * kNibbleGroup, block.head_dim); ++d) {
      sum += quantizer(q[d]) * nibble(key_order(block), head, p, d);
      sum_of_q += quantizer(q[d]);
    }
    const size_t at = nibble_scale(g, p);
    total = std::fma(static_cast<float>(sum), half(head + block.k_scale, at) * factor, total);
    total = std::fma(static_cast<float>(sum_of_q) * factor, half(head + block.k_scale, at + kPagePositions), total);
  }
  return block.is_latent() ? total : total * query.first.scale;
}

float score(const KvHeadBlock& block, const std::byte* head, size_t p, const Query& query) {
  if (block.keys() == KvNumberFormat::kInt8) return int8_score(block, head, p, query);
  if (block.keys() == KvNumberFormat::kInt4) return int4_score(block, head, p, query);
  return float_score(block, head, p, query.q);
}

// Returns the layout of the values in a head's block; for latent rows they are part of the keys.
KvPartOrder stored_values(const KvHeadBlock& block) {
  return block.is_latent() ? key_order(block) : value_order(block);
}

// out += weight * values of one position.
void add_values(const KvHeadBlock& block, const std::byte* head, size_t p, float weight, float* out) {
  for (size_t d = 0; d < block.v_dim; ++d) {
    out[d] = std::fma(weight, load_float(block.values(), head + stored_values(block).at(p, d)), out[d]);
  }
}

// Quantised weights: weight ~ code * step.
struct WeightCodes {
  float inverse = 0, step = 0;  // both 0 if all weights are tiny, so that all codes are 0

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
    weights[p] = weights[p] * read<float>(tile.head_blocks[p / kPagePositions] + block.v_scale, p % kPagePositions);
    top = std::max(top, weights[p]);
  }
  const WeightCodes code(top);
  for (size_t d = 0; d < block.v_dim; ++d) {
    int32_t sum = 0;
    for (size_t p = begin; p < end; ++p) {
      sum += code(weights[p]) * value_code(block, tile.head_blocks[p / kPagePositions], p % kPagePositions, d);
    }
    out[d] = static_cast<float>(sum) * code.step;
  }
}

// out = the sum of weights[p] * values over the visible positions of the tile, for INT4 values: separately for each
// group of dimensions that shares scales and minima.
void add_int4_values(const KvHeadBlock& block, const AttendTile& tile, size_t begin, size_t end, const float* weights,
                     float* out) {
  for (size_t g = 0; g < block.value_groups(); ++g) {
    float scaled[kAttentionBlock], lanes[16] = {}, top = 0;
    for (size_t p = begin; p < end; ++p) {
      const std::byte* scales = tile.head_blocks[p / kPagePositions] + block.v_scale;
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
        sum +=
            code(scaled[p]) * nibble(stored_values(block), tile.head_blocks[p / kPagePositions], p % kPagePositions, d);
      }
      out[d] = std::fma(static_cast<float>(sum), code.step, floor);
    }
  }
}

void attend_row(const KvHeadBlock& block, const AttendTile& tile, size_t row) {
  const size_t begin = std::max(tile.row_begin[row], tile.begin) - tile.begin;
  const size_t last = std::min(tile.row_end[row], tile.begin + kAttentionBlock);
  const size_t end = last < tile.begin ? 0 : last - tile.begin;
  const Query query(block, tile.q + row * tile.q_stride);
  float* out = tile.result.out + row * tile.result.out_stride;
  std::fill_n(out, block.v_dim, 0.0f);

  float scores[kAttentionBlock];
  float largest = kNone;
  for (size_t p = begin; p < end; ++p) {
    const std::byte* head = tile.head_blocks[p / kPagePositions];
    const size_t at = p % kPagePositions;
    float s = score(block, head, at, query) * tile.scale;
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
    if (!is_coded(block.values())) {
      add_values(block, tile.head_blocks[p / kPagePositions], p % kPagePositions, weight, out);
    }
  }
  if (block.values() == KvNumberFormat::kInt8) add_int8_values(block, tile, begin, end, scores, out);
  if (block.values() == KvNumberFormat::kInt4) add_int4_values(block, tile, begin, end, scores, out);
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

void fill_ref_attention(Kernels& table) {
  fill_ref_kv_rows(table);
  table.attend_tile = attend_tile;
  table.attend_merge = attend_merge;
}

}  // namespace ibid
