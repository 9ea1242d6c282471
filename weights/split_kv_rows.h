// Latent attention expands keys and values by one matrix. GGUF files have it as two tensors, because llama.cpp
// computes attention with the latents themselves:
//
//   blk.L.attn_k_b.weight  [heads, kv_rank, nope_dim]    the rows of keys, turned
//   blk.L.attn_v_b.weight  [heads, value_dim, kv_rank]   the rows of values
//
// The two are presented as one tensor, blk.L.attn_kv_b.weight, [heads (nope_dim + value_dim), kv_rank], with the
// rows of keys and then those of values of each head. Its type is that of both if it is F32, F16 or BF16, else F32,
// because blocks of a transposed matrix are no blocks of its rows.
#pragma once

#include <vector>

#include "base/result.h"
#include "weights/made_tensors.h"

namespace ibid {

// Makes the tensor of every layer that has both. Errors, naming the tensor: kBadShape (they do not fit together),
// kUnsupported (a type that is not decoded).
Result<std::vector<MadeTensor>> make_expanding_tensors(const StoredTensors& stored);

}  // namespace ibid
