// Attention of many rows over INT8 keys and values on AMX. Scores and weighted values are integer sums, which tiles
// compute exactly, so results equal those of attention-inl.h. Included by isa_amx.cc, after vec_avx512.h.
//
// One pass computes sixteen rows against the whole block. The softmax between the two products takes most of the time.

#include "kernels/simd/attend_softmax-inl.h"
#include "kernels/simd/tiles_amx.h"

namespace ibid::IBID_ISA {
namespace {

static_assert(kAttendPassRows == 16, "a pass is the rows of a tile");

// Use of the tile registers (code bytes: high or low bytes of the quantised weights):
//   tmm0        queries [16][chunk]          tmm1   keys [chunk / 4][16 positions][4]
//   tmm2        code bytes [16][64 positions]   tmm3   values [16][16 dimensions][4 positions]
//   tmm4..tmm7  sums [16][16]

// Number of query dimensions per tile product: a divisor of k_dim.
size_t chunk_of(size_t k_dim) {
  size_t chunk = 64;
  while (k_dim % chunk != 0) chunk /= 2;
  return chunk;
}

// Number of query dimensions per tile product, for keys of this format. For latent rows it divides both latent_dim and
// the number of the other dimensions, because these have separate scales.
size_t chunk_of(const KvHeadBlock& block) {
  return block.is_latent() ? chunk_of(block.latent_dim | block.head_dim) : chunk_of(block.k_dim);
}

// Quantised queries in the scratch: rows of `stride` bytes, read in chunks of `chunk` dimensions.
struct TileQueries {
  const int8_t* q;
  size_t stride;
  size_t chunk;
};

// Computes the integer dot products of 16 query rows with the 64 keys of a page, over the dimensions `dims`. Those of
// row r are written from `sums` plus r * row_bytes bytes on.
void score_sums(const KvHeadBlock& block, const std::byte* keys, const TileQueries& queries, Span dims, int32_t* sums,
                size_t row_bytes) {
  const size_t group = block.k_dim * kKeyGroup;
  tile_zero<4>();
  tile_zero<5>();
  tile_zero<6>();
  tile_zero<7>();
  for (size_t d = dims.begin; d < dims.end; d += queries.chunk) {
    const std::byte* at = keys + d * kKeyGroup;
    tile_load<0>(queries.q + d, queries.stride);
    tile_load<1>(at, 64);
    tile_multiply_right_unsigned<4, 0, 1>();
    tile_load<1>(at + group, 64);
    tile_multiply_right_unsigned<5, 0, 1>();
    tile_load<1>(at + 2 * group, 64);
    tile_multiply_right_unsigned<6, 0, 1>();
    tile_load<1>(at + 3 * group, 64);
    tile_multiply_right_unsigned<7, 0, 1>();
  }
  tile_store<4>(sums, row_bytes);
  tile_store<5>(sums + kKeyGroup, row_bytes);
  tile_store<6>(sums + 2 * kKeyGroup, row_bytes);
  tile_store<7>(sums + 3 * kKeyGroup, row_bytes);
}

// Adds the dot products of the dimensions from latent_dim on, which have their own scale, to the scores of a page.
void add_second_part(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, size_t chunk,
                     size_t page) {
  alignas(64) int32_t sums[kAttendPassRows * kPagePositions];
  const std::byte* head = tile.head_blocks[page];
  score_sums(block, head + block.k, {s.q, s.q_stride, chunk}, {block.latent_dim, block.k_dim}, sums,
             kPagePositions * sizeof(int32_t));
  const auto* k_scale = reinterpret_cast<const float*>(head + block.k_scale) + kPagePositions;
  for (size_t row = 0; row < tile.n_rows; ++row) {
    const I16 offset = set1(s.q_offset[1][row]);
    const V16 q_scale = set1(s.q_scale[1][row]);
    float* const to = s.scores + row * kScoreStride + page * kPagePositions;
    for (size_t p = 0; p < kPagePositions; p += 16) {
      const V16 both = mul(q_scale, load(k_scale + p));
      store(to + p, fma(to_float(add(load(sums + row * kPagePositions + p), offset)), both, load(to + p)));
    }
  }
}

// Computes the scores of 16 rows for pages [first, last].
void score_pages(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, size_t chunk, size_t first,
                 size_t last) {
  auto* sums = reinterpret_cast<int32_t*>(s.scores);  // the loop below converts the sums to floats in place
  const Span dims{0, block.is_latent() ? block.latent_dim : block.k_dim};
  for (size_t page = first; page <= last; ++page) {
    score_sums(block, tile.head_blocks[page] + block.k, {s.q, s.q_stride, chunk}, dims, sums + page * kPagePositions,
               kScoreStride * sizeof(int32_t));
  }
  for (size_t row = 0; row < tile.n_rows; ++row) {
    const I16 offset = set1(s.q_offset[0][row]);
    const V16 q_scale = set1(s.q_scale[0][row]);
    for (size_t page = first; page <= last; ++page) {
      const auto* k_scale = reinterpret_cast<const float*>(tile.head_blocks[page] + block.k_scale);
      const size_t at = row * kScoreStride + page * kPagePositions;
      for (size_t p = 0; p < kPagePositions; p += 16) {
        const V16 both = mul(q_scale, load(k_scale + p));
        store(s.scores + at + p, mul(to_float(add(load(sums + at + p), offset)), both));
      }
    }
  }
}

// Multiplies the high and the low bytes of the quantised weights by the values of pages [first, last], and writes the
// sums to s.totals.
void value_sums(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, size_t first, size_t last) {
  const size_t v_dim = block.v_dim, stride = v_dim * sizeof(int32_t);
  int32_t* const high = s.totals;
  int32_t* const low = s.totals + kAttendPassRows * v_dim;
  for (size_t d = 0; d < v_dim; d += 32) {
    const bool two = d + 32 <= v_dim;  // two groups of 16 dimensions times two weight bytes give four independent sums
    tile_zero<4>();
    tile_zero<5>();
    tile_zero<6>();
    tile_zero<7>();
    for (size_t page = first; page <= last; ++page) {
      const uint8_t* codes = s.codes + page * kPagePositions;
      const std::byte* values = values_of(block, tile, page) + d * kValueGroup;
      tile_load<2>(codes, 2 * kAttentionBlock);
      tile_load<3>(values, v_dim * kValueGroup);
      tile_multiply_left_unsigned<4, 2, 3>();
      if (two) {
        tile_load<3>(values + 64, v_dim * kValueGroup);
        tile_multiply_left_unsigned<5, 2, 3>();
      }
      tile_load<2>(codes + kAttentionBlock, 2 * kAttentionBlock);
      if (two) tile_multiply_left_unsigned<7, 2, 3>();
      tile_load<3>(values, v_dim * kValueGroup);
      tile_multiply_left_unsigned<6, 2, 3>();
    }
    tile_store<4>(high + d, stride);
    tile_store<6>(low + d, stride);
    if (two) tile_store<5>(high + d + 16, stride);
    if (two) tile_store<7>(low + d + 16, stride);
  }
}

void attend_int8_pass(const KvHeadBlock& block, const AttendTile& tile, const TileScratch& s, size_t chunk,
                      NextBlock& next) {
  Span seen;
  for (size_t row = 0; row < tile.n_rows; ++row) seen = hull(seen, s.spans[row]);
  if (is_empty(seen)) return;
  const size_t first = seen.begin / kPagePositions, last = (seen.end - 1) / kPagePositions;
  next.fetch_share();
  score_pages(block, tile, s, chunk, first, last);
  for (size_t page = first; block.is_latent() && page <= last; ++page) add_second_part(block, tile, s, chunk, page);
  softmax(block, tile, s, {page_span(first).begin, page_span(last).end});
  next.fetch_share();
  value_sums(block, tile, s, first, last);
  finish_codes(block, tile, s);
}

void attend_int8_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte* memory) {
  const TileScratch s(memory, tile.n_rows, block);
  if (!tile.same_rows) quantize_queries(block, tile, s);
  if (is_empty(begin_rows(block, tile, s))) return;
  const size_t chunk = chunk_of(block);
  const TileScope tiles({{16, chunk}, {chunk / 4, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}});
  NextBlock next(block, tile, 2 * ((tile.n_rows + kAttendPassRows - 1) / kAttendPassRows));
  for (size_t first = 0; first < tile.n_rows; first += kAttendPassRows) {
    attend_int8_pass(block, pass_of(tile, first), s.from(first, block.nibble_groups()), chunk, next);
  }
}

}  // namespace
}  // namespace ibid::IBID_ISA
