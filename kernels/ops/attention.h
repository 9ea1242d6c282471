// Causal attention of new rows over stored keys and values, for one layer: shares (KV head, query tile,
// 256-position block) units among threads and merges blocks in order. Blocks that several sequences have in common,
// as the same pages, are read once for the rows of all of them; no bit shows it.
//
// Queries are rotated here where keys are, and outputs are rotated back where values are (KvHeadBlock); nothing outside
// kernels/ depends on it.
//
// Keys and values are read only as stored (rounded) rows, those of the same chunk included. Cost is
// proportional to new rows x visible positions, without a step anywhere.
// Sources: Dao et al. 2022 (tiling, online softmax), Milakov & Gimelshein 2018.
#pragma once

#include <span>

#include "base/parallel.h"
#include "kernels/kernels.h"

namespace ibid {

struct AttentionShape {
  size_t n_heads = 0;
  size_t n_kv_heads = 0;
  size_t head_dim = 0;
  size_t latent_dim = 0;         // of latent rows (KvHeadBlock): how many of these are the value as well
  float scale = 0;
  size_t window = 0;             // position i sees (i - window, i]; 0: everything before it
  float softcap = 0;
  const float* sinks = nullptr;  // [n_heads] one more logit per head, with no value; nullptr: none
};

// The new rows of one sequence: rows [first_row, first_row + n_rows) of q and out are its positions
// [first_position, first_position + n_rows). pages: every page from position 0 to the last row, which must
// be stored already.
struct AttentionSequence {
  const std::byte* const* pages = nullptr;
  size_t first_row = 0;
  size_t n_rows = 0;
  size_t first_position = 0;
  // How many of the first blocks are the same pages as those of the sequence in front of this one in the batch, and
  // lie before the new rows of both. share_blocks() counts them; 0 is always right, and shares nothing.
  size_t shared_blocks = 0;
};

// Puts sequences that begin with the same pages side by side, and counts shared_blocks. Sequences that share nothing,
// or equally much, keep their order. Once per pass: O(sequences x (sequences + blocks)), no allocation. Whoever adds,
// drops or moves a sequence afterwards calls it again.
void share_blocks(std::span<AttentionSequence> sequences);

// Scratch for all threads together, for a pass of at most max_rows rows, of all its sequences, each of which has at
// most max_positions.
size_t attention_scratch_bytes(const AttentionShape& shape, size_t max_rows, size_t max_positions, int n_threads);

// Called by every worker with the same arguments; contains barriers; out is complete for all workers when
// it returns.
//   q, out: [rows, stride >= n_heads * head_dim], of latent rows the first latent_dim numbers of a head of out are
//   written; layer_offset: bytes from a page's start to this layer's first
//   head block; head h of the layer follows at + h * block.bytes.
void attention(const Worker& worker, const Kernels& kernels, const AttentionShape& shape, const KvHeadBlock& block,
               size_t layer_offset, std::span<const AttentionSequence> sequences, const float* q, float* out,
               size_t stride, std::byte* scratch);

}  // namespace ibid
