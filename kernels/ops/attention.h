// Causal attention of new rows over stored keys and values, for one layer. Divides the work among threads by (KV head,
// query tile, block of 256 positions), and merges blocks in order. A block whose pages several sequences share is read
// once for the rows of all of them; results are bit-identical to those without sharing.
//
// If keys are stored Hadamard-transformed (KvHeadBlock), attention() transforms queries; if values are stored
// transformed, it transforms outputs back. So no code outside kernels/ needs to handle the transform.
//
// Keys and values are read only as stored (rounded) rows, even those of the rows being computed. The cost is
// proportional to new rows x visible positions, without jumps. Sources: Dao et al. 2022 (tiling, online softmax),
// Milakov & Gimelshein 2018.
#pragma once

#include <span>

#include "base/parallel.h"
#include "kernels/kernels.h"

namespace ibid {

struct AttentionShape {
  size_t n_heads = 0;
  size_t n_kv_heads = 0;
  size_t head_dim = 0;
  size_t latent_dim = 0;  // latent rows (KvHeadBlock): number of leading dimensions that are also the value
  float scale = 0;
  size_t window = 0;  // position i attends to (i - window, i]; 0: to all positions up to i
  float softcap = 0;
  const float* sinks = nullptr;  // [n_heads] one additional logit per head, without a value; nullptr: no sinks
};

// The new rows of one sequence: rows [first_row, first_row + n_rows) of q and out are its positions [first_position,
// first_position + n_rows). pages: every page from position 0 to the last row. REQUIRES: keys and values of all these
// positions are stored.
struct AttentionSequence {
  const std::byte* const* pages = nullptr;
  size_t first_row = 0;
  size_t n_rows = 0;
  size_t first_position = 0;
  // Number of leading blocks that have the same pages as those of the previous sequence in the batch; all are before
  // the new rows of both. Set by share_blocks(); 0 is always valid: nothing is shared.
  size_t shared_blocks = 0;
};

// Moves sequences that begin with the same pages next to each other, otherwise keeping their order, and sets
// shared_blocks. Call once per pass, and again after adding, removing or moving a sequence. O(sequences x (sequences +
// blocks)), no allocation.
void share_blocks(std::span<AttentionSequence> sequences);

// Bytes of scratch for all threads together, for a pass of at most max_rows rows (sum over its sequences), whose
// sequences have at most max_positions each.
size_t attention_scratch_bytes(const AttentionShape& shape, size_t max_rows, size_t max_positions, int n_threads);

// Every worker calls this function with the same arguments. Contains barriers. When it returns, all workers have
// written `out`.
//   q, out: [rows, stride >= n_heads * head_dim]; for latent rows only the first latent_dim numbers of a head of `out`
//   are written.
//   layer_offset: bytes from the start of a page to the first head block of this layer; head h is at layer_offset + h *
//   block.bytes.
void attention(const Worker& worker, const Kernels& kernels, const AttentionShape& shape, const KvHeadBlock& block,
               size_t layer_offset, std::span<const AttentionSequence> sequences, const float* q, float* out,
               size_t stride, std::byte* scratch);

}  // namespace ibid
