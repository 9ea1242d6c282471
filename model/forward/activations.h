// Activations: the scratch buffers of a forward pass with their shapes, allocated once for the largest pass.
//
// T is the number of rows of a pass (tokens of all its sequences), at most max_chunk. Strides are padded to whole
// vectors and chunks, so kernels need no tail code.
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

// The buffers that row steps (model/forward/row_steps.h) read and write.
struct RowBuffers {
  Rows x;                               // [T, D]            the residual stream
  std::array<Rows, kMaxRopes> cos_sin;  // [T, rotary_dim]   cosines and sines for each rope
  LinearInput h;                        // [T, D]            norm(x), the input of QKV, gate and up, and the LM head
  LinearInput attended;                 // [T, attended_dim] the input of wo, if needed also in int8
  LinearInput q_latent;                 // [T, q_rank]       the input of wq_b (latent attention)
  Rows kv_latent;                       // [T, kv_rank]      norm(c) of latent attention
  Rows added;                           // [T, D] block_out after the block's norm or factor, if there is one
  Rows streams;                         // [T, n_streams D] streams of AltUp; during a layer, x is the active stream
  LinearInput laurel;                   // [T, R]            the input of laurel_right
  LinearInput layer_gated;              // [T, P]            the input of LayerInputWeights::out
  LinearInput router_h;                 // [T, D]            the input of the router, if experts are beside an MLP
  Rows mlp_out;                         // [T, D]            the output of the MLP that is beside experts
  LinearInput mixed;                    // [T, v_width]      the input of RecurrentWeights::w_out, and of w_scan
  LinearInput recurrent_low;            // [T, widest rank]  the input of matrix A of a low-rank product A B
  Rows scan_numbers;                    // [T, 2 N]          B and C of Mamba-1
  LinearInput wide;                     // [T, 2 D]          norm(x | e) in models with CommonBlocks
  Rows embedded;                        // [T, D]            e in models with CommonBlocks
};

// Outputs of the steps of a recurrent layer, for all rows of a pass, named as in model/config/recurrent_mixer.h.
struct RecurrentBuffers {
  Rows in;                // [T, row_width]  q | k | v before the convolution
  Rows conv;              // [T, row_width]  q | k | v after the convolution
  Rows z;                 // [T, v_width]
  Rows rates, decays;     // [T, same width for both] per head or per key dimension; Mamba-1: dt per channel
  Rows low;               // [T, widest rank] output of matrix B of a low-rank product A B
  Rows out;               // [T, v_width]    o
  Rows scratch;           // [n_threads, RecurrentBuffers::scratch_floats()]
  float* unit = nullptr;  // [N] ones, used as the weight by norms without a weight

  // Rows whose keys and queries a worker prepares at a time; these and a tile of S fit into the L1 cache.
  static constexpr size_t kBlockRows = 16;
  static size_t block_floats(const RecurrentMixer& mixer) {  // for q, k, decayed k, and decays of the rows
    return 4 * kBlockRows * RecurrentMixer::padded(mixer.key_dim);
  }
  // Layout of convolved keys and values of one head, for one replayed row (SequenceState::replayed_row()).
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

// Intermediate results of latent attention, before and after the attention kernel (model/config/latent_attention.h).
struct LatentBuffers {
  Rows q_a, kv_a;                 // [T, q_rank], [T, kv_rank + rope_dim]
  Rows q;                         // [T, H key_dim]
  Rows values;                    // W_v times the output of attention: the input of wo
  std::vector<LinearInput> head;  // [n_threads] of [T, kv_rank]: the attention output of one head, in int8
  std::vector<Rows> head_values;  // [n_threads] of [T, value_dim and two panels]: W_v times `head`
};

class Activations {
 public:
  // In a pass of at most this many rows each worker computes all row steps, because that costs less than a barrier.
  static constexpr size_t kOwnRows = 4;
  // Number of floats of gate_part, and of up_part. Both parts, and the rows of h that they read, fit into the L2 cache.
  static constexpr size_t kGatePartFloats = 32768;
  // Maximum number of rows of gate_part and up_part. dim: number of columns of h.
  static size_t gate_part_rows(size_t dim) {
    return std::clamp((size_t{1} << 20) / dim, kRowGroup, kGatePartFloats / kQuantBlock);
  }

  // context: maximum positions of a sequence. Error: kOutOfMemory.
  static Result<Activations> create(const ModelConfig& config, size_t max_chunk, size_t context,
                                    QuantizedInputs quantized, int n_threads);
  static size_t plan_bytes(const ModelConfig& config, size_t max_chunk, size_t context, QuantizedInputs quantized,
                           int n_threads);

  RowBuffers shared;
  std::vector<RowBuffers> own;  // the workers' own row buffers for small passes: [n_threads] of kOwnRows rows

  Rows q;                         // [T, H d]
  Rows k, v;                      // [T, G d]
  Rows attended;                  // [T, H d]
  LatentBuffers latent;           // only in models with latent attention
  Rows attn_gate;                 // [T, H d]    only in models with a gate on attention's output
  RecurrentBuffers recurrent;     // only in models with recurrent layers
  Rows gate_part, up_part;        // [n_threads, kGatePartFloats]
  Rows gate, up;                  // [T, F]      only in models with ModelConfig::reads_whole_gates()
  Rows adapted_gate, adapted_up;  // [T, F] outputs of the adapters of gate and up; adapted_gate also of q, k, v
  LinearInput gated;              // [T, F]      silu(gate) * up, the input of w_down
  MoeBuffers moe;                 // only in models with experts
  Rows block_out;                 // [T, D]      output of wo and w_down, added to x
  Rows laurel_low, laurel;        // [T, R], [T, D]
  Rows layer_inputs;              // [T, L P]
  Rows layer_gate;                // [T, P]
  Rows scratch;                   // [n_threads, ...] per worker: L P floats (LayerInputs), or n + 1 rows of D (AltUp)
  float* ones = nullptr;          // [d] ones, used as the weight by norms without a weight

  std::byte* attention_scratch = nullptr;
  std::byte* linear_scratch = nullptr;  // one area per thread
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
  static void lay_out(Activations& a, Allocator&& allocate, const ModelConfig& config, size_t max_chunk, size_t context,
                      QuantizedInputs quantized, int n_threads);
  Arena arena_;
};

}  // namespace ibid
