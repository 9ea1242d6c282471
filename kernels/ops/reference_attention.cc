// Attention of the oracle: attend_tile() and attend_merge() with double accumulators, over stored rows converted to
// floats.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/ref.h"

namespace ibid {
namespace {

// Scratch memory of one row; it fits into attend_scratch_bytes().
struct Scratch {
  double* scores;  // [256]
  double* out;     // [v_dim]
  float* k;        // [head_dim]
  float* v;        // [v_dim]

  Scratch(std::byte* memory, const KvHeadBlock& block)
      : scores(reinterpret_cast<double*>(memory)),
        out(scores + kAttentionBlock),
        k(reinterpret_cast<float*>(out + block.v_dim)),
        v(k + block.head_dim) {}
};

void load(const KvHeadBlock& block, const AttendTile& tile, size_t at, const Scratch& s) {
  ref_stored_row(block, tile.head_blocks[at / kPagePositions], at % kPagePositions, s.k, s.v);
}

double score(const KvHeadBlock& block, const AttendTile& tile, const float* q, const float* k) {
  double sum = 0;
  for (size_t d = 0; d < block.head_dim; ++d) sum += double{q[d]} * double{k[d]};
  sum *= double{tile.scale};
  return tile.softcap == 0 ? sum : double{tile.softcap} * std::tanh(sum / double{tile.softcap});
}

void attend_row(const KvHeadBlock& block, const AttendTile& tile, size_t row, const Scratch& s) {
  const size_t begin = std::max(tile.row_begin[row], tile.begin);
  const size_t end = std::min(tile.row_end[row], tile.begin + kAttentionBlock);
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t p = begin; p < end; ++p) {
    load(block, tile, p - tile.begin, s);
    s.scores[p - tile.begin] = score(block, tile, tile.q + row * tile.q_stride, s.k);
    largest = std::max(largest, s.scores[p - tile.begin]);
  }
  largest = double{static_cast<float>(largest)};  // rounded, because merging subtracts result.max, which is a float
  double sum = 0;
  std::fill_n(s.out, block.v_dim, 0.0);
  for (size_t p = begin; p < end; ++p) {
    load(block, tile, p - tile.begin, s);
    const double weight = std::exp(s.scores[p - tile.begin] - largest);
    sum += weight;
    for (size_t d = 0; d < block.value_dim(); ++d) s.out[d] += weight * double{s.v[d]};
  }
  tile.result.max[row] = static_cast<float>(largest);
  tile.result.sum[row] = static_cast<float>(sum);
  float* out = tile.result.out + row * tile.result.out_stride;
  for (size_t d = 0; d < block.v_dim; ++d) out[d] = static_cast<float>(s.out[d]);
}

void attend_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte* scratch) {
  const Scratch s(scratch, block);
  for (size_t row = 0; row < tile.n_rows; ++row) attend_row(block, tile, row, s);
}

void attend_merge(const AttendSums& total, const AttendSums& part, size_t n_rows, size_t head_dim) {
  for (size_t row = 0; row < n_rows; ++row) {
    if (part.max[row] == -std::numeric_limits<float>::infinity()) continue;
    const float largest = std::max(total.max[row], part.max[row]);
    const double a = std::exp(double{total.max[row]} - double{largest});
    const double b = std::exp(double{part.max[row]} - double{largest});
    total.sum[row] = static_cast<float>(double{total.sum[row]} * a + double{part.sum[row]} * b);
    float* to = total.out + row * total.out_stride;
    const float* from = part.out + row * part.out_stride;
    for (size_t d = 0; d < head_dim; ++d) {
      to[d] = static_cast<float>(double{to[d]} * a + double{from[d]} * b);
    }
    total.max[row] = largest;
  }
}

}  // namespace

void fill_reference_attention(Kernels& table) {
  table.hadamard = ref_hadamard_in_double;
  table.attend_tile = attend_tile;
  table.attend_merge = attend_merge;
}

}  // namespace ibid
