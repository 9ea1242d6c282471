// The sizes and weights of the parts of a model that only some architectures have: AltUp, LayerInputs, CommonBlocks.
// model/forward/architecture_steps.h computes these parts.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/layout/panel.h"

namespace ibid {

// AltUp (alternating updates): the model has n streams x_0 .. x_{n-1} instead of one x. A layer computes only the
// active stream a. The new values of the other streams are predicted before the layer and corrected after it:
//   c = tanh(W_router (norm(x_a) / D))
//   p_i = x_i + sum over j of (W_predict c)[i n + j] x_j
//   y = layer(p_a)
//   c' = tanh(W_router (norm(y) / D))
//   x_i = p_i + (y - p_a) (1 + (W_correct c')[i])
// Before the first layer x_i is W_spread,i x. After the last layer x is the mean of x_0 and all W_gather,i x_i. Each
// product is scaled to the magnitude of stream 0. Source: Baykal et al. 2023.
inline constexpr size_t kMaxStreams = 8;
inline constexpr size_t kRoundedStreams = 16;  // kMaxStreams, rounded up to whole vectors of 16 floats

struct AltUp {
  size_t n_streams = 0;        // n; 0: the model has only one x
  size_t active = 0;           // a, the index of the active stream
  bool scales_active = false;  // layer inputs read x_a times a learned vector

  bool used() const { return n_streams != 0; }
};

// The weights of each stream except stream 0.
struct StreamWeights {
  PackedMatrix spread;  // [D, D]
  PackedMatrix gather;  // [D, D]
};

// The weights of one layer, which are small and stored as floats.
struct AltUpWeights {
  std::span<const float> router;        // [n, D]
  std::span<const float> router_norm;   // [D]
  std::span<const float> predict;       // [n n, n]
  std::span<const float> correct;       // [n, n]
  std::span<const float> active_scale;  // [D]
};

// LayerInputs (per-layer embeddings): each token has a short row i_l for each layer l. The rows of all layers are
// computed at once from the scaled embedding x, with norms over P numbers:
//   i = (E_layers[token] sqrt(P) + norm(W_layers x / sqrt(D))) / sqrt(2)
// After its MLP, a layer adds the part of i_l that its gate passes:
//   x += norm(W_layer_out (f(W_layer_gate x) * i_l))
// Source: Gemma 3n model overview 2025.
struct LayerInputs {
  size_t dim = 0;         // P; 0: the model has no layer inputs
  size_t vocab_size = 0;  // rows of E_layers; larger token ids use row 0

  bool used() const { return dim != 0; }
};

// The weights of one layer.
struct LayerInputWeights {
  PackedMatrix gate;                 // [P, D]
  PackedMatrix out;                  // [D, P]
  std::span<const float> post_norm;  // [D]
};

// CommonBlocks: blocks (attention and an MLP) that several recurrent layers share. A layer that uses a block runs it
// before its mixer. The block's input is x and the token's embedding e, concatenated (x | e); its output is added only
// to the mixer's input h:
//   a = W_o attend(norm(x | e))
//   m = W_down (f((W_gate + A_gate B) norm(a)) * (W_up + A_up B) norm(a))
//   h = norm(x + W_out m)
//   x += mixer(h)
// The products A B are low-rank adapters. W_q, W_k and W_v may have adapters, too.
//
// The j-th layer that uses a block uses block j mod n_blocks. The block's matrices are stored in the first layer that
// uses the block; a layer for which the file has a copy of these matrices uses the copy. Each use of a block has its
// own adapters, and each layer its own W_out. Source: Zamba2 2024.
struct CommonBlocks {
  size_t n_blocks = 0;      // 0: no shared blocks
  size_t ffn_dim = 0;       // F, the width of the MLP
  size_t adapter_rank = 0;  // R, the rank of the adapters
  size_t n_uses = 0;
  bool adapts_attention = false;  // W_q, W_k and W_v have adapters, as W_gate and W_up
  bool used() const { return n_blocks != 0; }
};

struct AdapterWeights {
  PackedMatrix low;                  // B [R, D]
  PackedMatrix gate, up;             // A [F, R]
  PackedMatrix q_low, k_low, v_low;  // B [R, 2 D]
  PackedMatrix q, k, v;              // A [width, R], if adapts_attention
};

struct CommonBlockWeights {                     // one shared block; its wq, wk, wv [., 2 D] and wo are in LayerWeights
  std::span<const float> norm;                  // [2 D]
  std::span<const float> ffn_norm;              // [D]
  PackedMatrix w_gate, w_up;                    // [F, D]
  PackedMatrix w_down;                          // [D, F]
  std::span<const float> b_gate, b_up, b_down;  // [F], [F], [D]; empty: no bias
  std::vector<AdapterWeights> adapters;         // [n_uses], empty where another block is used
  PackedMatrix out;                             // [D, D] W_out, which every layer that uses a block has for itself
};

}  // namespace ibid
