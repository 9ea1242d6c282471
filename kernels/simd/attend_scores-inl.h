// Scores of a tile. Lanes are the 16 positions of a key group; a register tile has up to kTileRows rows x kTilePanels
// groups, with one accumulator per row and position. Included once per instruction set.
#pragma once

#include "kernels/simd/attend_nibbles-inl.h"

namespace ibid::IBID_ISA {
namespace {

// scores[r][16 g + lane] = dot product of row r with the keys of group first_group + g.
template <size_t kRows, typename Key>
IBID_INLINE void score_floats(const Stream& stream, size_t first_group, const float* q, size_t q_stride,
                              size_t head_dim, float* scores) {
  const Key* keys = reinterpret_cast<const Key*>(stream.at) + first_group * kKeyGroup * head_dim;
  V16 acc[kRows][kTilePanels];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = zero();
  }
#pragma GCC unroll 4
  for (size_t d = 0; d < head_dim; ++d) {
    constexpr size_t kStep = kTilePanels * kKeyGroup * sizeof(Key);
    fetch_ahead(stream, first_group * kKeyGroup * head_dim * sizeof(Key) + d * kStep, kStep);
    V16 key[kTilePanels];
    for (size_t g = 0; g < kTilePanels; ++g) key[g] = load_values(keys + (g * head_dim + d) * kKeyGroup);
    for (size_t r = 0; r < kRows; ++r) {
      const V16 x = set1(q[r * q_stride + d]);
      for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = fma(x, key[g], acc[r][g]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t g = 0; g < kTilePanels; ++g) store(scores + r * kScoreStride + g * kKeyGroup, acc[r][g]);
  }
}

// As score_floats(), for INT8 keys: the exact integer dot product times (q_scale * k_scale). A latent row has two parts
// (the first latent_dim dimensions, and the rest) with separate scales: kPart 0 stores the first part's scores, kPart 1
// adds the second part's. dims: the dimensions of the part.
template <size_t kRows, size_t kPart>
IBID_INLINE void score_int8(const Stream& stream, size_t first_group, const float* k_scale, size_t k_dim, Span dims,
                            const TileScratch& s, size_t row, float* scores) {
  const std::byte* keys = stream.at + first_group * kKeyGroup * k_dim;
  I16 acc[kRows][kTilePanels];
  for (size_t r = 0; r < kRows; ++r) {
    const int32_t start = kDotNeedsOffset ? s.q_offset[kPart][row + r] : 0;
    for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = set1(start);
  }
#pragma GCC unroll 4
  for (size_t d = dims.begin; d < dims.end; d += 4) {
    constexpr size_t kStep = kTilePanels * kKeyGroup * 4;
    fetch_ahead(stream, first_group * kKeyGroup * k_dim + d / 4 * kStep, kStep);
    B64 key[kTilePanels];
    for (size_t g = 0; g < kTilePanels; ++g) key[g] = load_bytes(keys + (g * k_dim + d) * kKeyGroup);
    for (size_t r = 0; r < kRows; ++r) {
      const B64 x = spread4(s.q + (row + r) * s.q_stride + d);
      for (size_t g = 0; g < kTilePanels; ++g) acc[r][g] = dot4_offset128(acc[r][g], key[g], x);
    }
  }
  for (size_t g = 0; g < kTilePanels; ++g) {
    const V16 scale = load(k_scale + (first_group + g) * kKeyGroup);
    for (size_t r = 0; r < kRows; ++r) {
      const V16 both = mul(set1(s.q_scale[kPart][row + r]), scale);
      float* const to = scores + r * kScoreStride + g * kKeyGroup;
      store(to, kPart == 0 ? mul(to_float(acc[r][g]), both) : fma(to_float(acc[r][g]), both, load(to)));
    }
  }
}

// Computes the scores of a register tile's rows for their visible positions in a page. type: format of the keys.
template <size_t kRows>
void score_tile(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, const Stream& stream,
                KvNumberFormat type, RowTile rows, size_t page) {
  constexpr size_t kWidth = kTilePanels * kKeyGroup;
  const Span here = intersect(rows.seen, page_span(page));
  const float* q = tile.q + rows.first * tile.q_stride;
  const std::byte* scales = tile.head_blocks[page] + block.k_scale;
  for (size_t p = here.begin / kWidth * kWidth; p < here.end; p += kWidth) {
    float* scores = s.scores + rows.first * kScoreStride + p;
    const size_t group = p % kPagePositions / kKeyGroup;
    switch (type) {
      case KvNumberFormat::kInt4:
        score_nibbles<kRows>(stream, group, reinterpret_cast<const uint16_t*>(scales), block, s, rows.first, scores);
        break;
      case KvNumberFormat::kInt8: {
        const auto* k_scale = reinterpret_cast<const float*>(scales);
        const Span first{0, block.is_latent() ? block.latent_dim : block.k_dim};
        score_int8<kRows, 0>(stream, group, k_scale, block.k_dim, first, s, rows.first, scores);
        if (!block.is_latent()) break;
        score_int8<kRows, 1>(stream, group, k_scale + kPagePositions, block.k_dim, {first.end, block.k_dim}, s,
                             rows.first, scores);
        break;
      }
      case KvNumberFormat::kF16:
        score_floats<kRows, uint16_t>(stream, group, q, tile.q_stride, block.head_dim, scores);
        break;
      case KvNumberFormat::kF32:
        score_floats<kRows, float>(stream, group, q, tile.q_stride, block.head_dim, scores);
        break;
    }
  }
}

// Computes the scores of all rows for one page. type: format of the keys in the stream.
void score_page(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, Stream stream,
                KvNumberFormat type, size_t page) {
  for (size_t first = 0; first < tile.n_rows;) {
    const RowTile rows = next_tile(s, first, tile.n_rows);
    switch (rows.count) {
      case 1: score_tile<1>(block, tile, s, stream, type, rows, page); break;
      case 2: score_tile<2>(block, tile, s, stream, type, rows, page); break;
      case 3: score_tile<3>(block, tile, s, stream, type, rows, page); break;
      default: score_tile<4>(block, tile, s, stream, type, rows, page); break;
    }
    first += rows.count;
    stream.ahead = nullptr;
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
