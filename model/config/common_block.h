// CommonBlocks: attention and an MLP that several layers of a model have in common, as data. Such a layer has a block
// in front of its recurrent mixer, which reads x beside the token's embedding and adds to what the mixer reads alone:
//
//   a = W_o attend(norm(x | e))       m = W_down (f((W_gate + A_gate B) norm(a)) * (W_up + A_up B) norm(a))
//   h = norm(x + W_out m)             x += mixer(h)
//
// W_q, W_k and W_v may have adapters as W_gate and W_up do; their B reads x | e.
// The matrices of a block are stored once, with the first layer that uses it; A and B (an adapter) are of each use,
// W_out is of the layer. Layer number j of those that have a block uses block j mod n_blocks, unless the file has one
// for it alone.
// Source: Zamba2 2024.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/layout/panel.h"

namespace ibid {

struct CommonBlocks {
  size_t n_blocks = 0;      // 0: layers have nothing in common
  size_t ffn_dim = 0;       // F
  size_t adapter_rank = 0;  // R
  size_t n_uses = 0;
  bool adapts_attention = false;  // W_q, W_k and W_v have adapters as well
  bool used() const { return n_blocks != 0; }
};

struct AdapterWeights {
  PackedMatrix low;       // B [R, D]
  PackedMatrix gate, up;  // A [F, R]
  PackedMatrix q_low, k_low, v_low;  // B [R, 2 D] and
  PackedMatrix q, k, v;              // A [width, R] of attention, where it is adapted
};

struct CommonBlockWeights {  // beside wq, wk, wv and wo, of which the first three read 2 D columns
  std::span<const float> norm;      // [2 D]
  std::span<const float> ffn_norm;  // [D]
  PackedMatrix w_gate, w_up;        // [F, D]
  PackedMatrix w_down;              // [D, F]
  std::span<const float> b_gate, b_up, b_down;  // [F], [F], [D], or none
  std::vector<AdapterWeights> adapters;  // [n_uses] those of other blocks are empty
  PackedMatrix out;                 // [D, D] of every layer that uses a block
};

}  // namespace ibid
