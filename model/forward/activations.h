// Activations: every scratch buffer of a forward pass with its shape, allocated once for the largest chunk.
//
// T is the number of rows of the pass (tokens of all its sequences), at most max_chunk. Strides are padded
// to whole vectors and chunks, so that kernels never see a tail.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "kernels/ops/linear.h"
#include "model/config/config.h"
#include "model/forward/moe_block.h"
#include "model/weights/load_weights.h"

namespace ibid {

// Returns the first n columns of an input, for a layer that is narrower than the widest one.
inline LinearInput of_width(LinearInput input, size_t n) {
  input.n_cols = input.quantized.n_cols = n;
  return input;
}

// The buffers that steps on rows read and write.
struct RowBuffers {
  Rows x;                 // [T, D]             the residual stream
  std::array<Rows, kMaxRopes> cos_sin;  // [T, rotary_dim] of each rope
  LinearInput h;          // [T, D]             norm(x), the input of QKV, gate and up, and of the head
  LinearInput attended;   // [T, H d]           the input of wo: Activations::attended, and in int8
  LinearInput q_latent;   // [T, rank]          the input of wq_b
  Rows kv_latent;         // [T, rank]          norm(c) of latent attention
  Rows added;             // [T, D]             block_out, normed or scaled; only of models that do either
  Rows streams;           // [T, n D]           of models with AltUp: x is the active one while a layer computes
  LinearInput laurel;     // [T, R]             the input of laurel_right
  LinearInput layer_gated;  // [T, P]           the input of LayerInputWeights::out
  LinearInput router_h;   // [T, D]             what the router reads, of models with experts beside an MLP,
  Rows mlp_out;           // [T, D]             and what the MLP gave
  LinearInput mixed;      // [T, v_width]       the input of RecurrentWeights::w_out; of Mamba-1 of w_scan before
  LinearInput recurrent_low;  // [T, rank]      of the second of two matrices
  Rows scan_numbers;      // [T, 2 N]           B and C of Mamba-1
  LinearInput wide;       // [T, 2 D]           norm(x | e) of models whose layers have blocks in common,
  Rows embedded;          // [T, D]             and e
};

// What a layer computes for all rows of a pass.
struct RecurrentBuffers {
  Rows in;                // [T, row_width]  q | k | v before the convolution,
  Rows conv;              // [T, row_width]  and behind it
  Rows z;                 // [T, v_width]
  Rows rates, decays;     // [T, widest of both] numbers of each head, or key; of Mamba-1's channels dt
  Rows low;               // [T, widest of the short rows] what a first matrix of two gave
  Rows out;               // [T, v_width]    o
  Rows scratch;           // [n_threads, RecurrentBuffers::scratch_floats()]
  float* unit = nullptr;  // [N] ones: the weight of norms without one

  // Rows whose keys and queries one worker prepares at a time: with a tile of S they stay in the first-level cache.
  static constexpr size_t kBlockRows = 16;
  static size_t block_floats(const RecurrentMixer& mixer) {  // k, q, decayed k, decays
    return 4 * kBlockRows * RecurrentMixer::padded(mixer.key_dim);
  }
  // The keys and values of one head in a row that is put through again.
  struct Window {
    explicit Window(const RecurrentMixer& mixer)
        : values_at(RecurrentMixer::padded(mixer.key_dim)),
          width(values_at + RecurrentMixer::padded(mixer.value_dim)) {}
    size_t values_at, width;
  };
  static size_t scratch_floats(const RecurrentMixer& mixer) {
    const size_t of_heads = block_floats(mixer) + (mixer.n_taps + 1) * Window(mixer).width;
    return std::max(mixer.has_heads() ? of_heads : 0, RecurrentMixer::padded(mixer.v_width()) + 64 * mixer.n_taps);
  }
};

// What latent attention computes in front of attention and behind it.
struct LatentBuffers {
  Rows q_a, kv_a;         // [T, q_rank], [T, kv_rank + rope_dim]
  Rows q;                 // [T, H key_dim]
  Rows values;            // [T, H value_dim]   what attention gives, times W_v: the input of wo
  std::vector<LinearInput> head;    // [n_threads] of [T, kv_rank]: what attention gave one head, and in int8
  std::vector<Rows> head_values;    // [n_threads] of [T, value_dim and two panels]: W_v of it
};

class Activations {
 public:
  // With up to this many rows, each worker computes the steps on rows for itself, because they cost less than a
  // barrier.
  static constexpr size_t kOwnRows = 4;

  // context: positions a sequence may have. Error: kOutOfMemory.
  static Result<Activations> create(const ModelConfig& config, size_t max_chunk, size_t context,
                                    QuantizedInputs quantized, int n_threads);
  static size_t plan_bytes(const ModelConfig& config, size_t max_chunk, size_t context, QuantizedInputs quantized,
                           int n_threads);

  RowBuffers shared;
  std::vector<RowBuffers> own;   // [n_threads] for kOwnRows rows each

  Rows q;                 // [T, H d]
  Rows k, v;              // [T, G d]
  Rows attended;          // [T, H d]
  LatentBuffers latent;   // of models with latent attention
  Rows attn_gate;         // [T, H d]    of models that have one
  RecurrentBuffers recurrent;  // of models with recurrent layers
  Rows gate, up;          // [T, F]
  Rows adapted_gate, adapted_up;  // [T, F] what adapters add to them; the first also what they add to q, k and v
  LinearInput gated;      // [T, F]      silu(gate) * up, the input of w_down
  MoeBuffers moe;         // of models with experts
  Rows block_out;         // [T, D]      what wo and w_down add to x
  Rows laurel_low, laurel;  // [T, R], [T, D]
  Rows layer_inputs;      // [T, L P]
  Rows layer_gate;        // [T, P]
  Rows scratch;           // [n_threads, ...] of a worker: L P, or n + 1 rows of D
  float* ones = nullptr;  // [d] the weight of a norm without one

  std::byte* attention_scratch = nullptr;
  std::byte* linear_scratch = nullptr;    // per thread
  size_t linear_scratch_stride = 0;

 private:
  template <typename MakeRows>
  static void lay_out_beside(Activations& a, MakeRows&& rows, const ModelConfig& config, size_t max_chunk,
                             int n_threads);
  template <typename MakeRows, typename MakeInput>
  static void lay_out_latent(LatentBuffers& b, MakeRows&& rows, MakeInput&& head_input, const ModelConfig& config,
                             size_t max_chunk, int n_threads);
  template <typename MakeRows>
  static void lay_out_recurrent(RecurrentBuffers& b, MakeRows&& rows, const RecurrentMixer& mixer, size_t max_chunk,
                                int n_threads);
  template <typename MakeRows, typename MakeInput>
  static RowBuffers lay_out_rows(Rows attended, MakeRows&& rows, MakeInput&& linear_input, const ModelConfig& config,
                                 QuantizedInputs quantized, size_t n);
  template <typename Allocator>
  static void lay_out(Activations& a, Allocator&& allocate, const ModelConfig& config, size_t max_chunk,
                      size_t context, QuantizedInputs quantized, int n_threads);
  Arena arena_;
};

}  // namespace ibid
