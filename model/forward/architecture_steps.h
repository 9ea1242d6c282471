// The steps of a forward pass that only some architectures have; model/config/architecture_steps.h says what they
// compute.
#pragma once

#include "model/forward/pass.h"

namespace ibid::forward {

// latent_attention.cc: queries, keys and values of two short rows of each position.
void project_latent(PassPart& p, size_t layer);
// Attention gives a sum of latents: the input of wo is W_v of it.
void expand_values(const PassPart& p, size_t layer);

// common_block.cc: h = norm(x + what a block gives that layers have in common).
void common_block(PassPart& p, size_t layer);

// AltUp: several streams in place of one x. Before the first layer, before and after each one, after the last.
void spread_streams(PassPart& p);
void predict_streams(PassPart& p, size_t layer);
void correct_streams(PassPart& p, size_t layer);
void gather_streams(PassPart& p);

// LAuReL: a way around attention. The caller puts a barrier after project_laurel().
void project_laurel(PassPart& p, size_t layer);
void add_laurel(PassPart& p, size_t layer);

// LayerInputs: what a token gives to each layer.
void make_layer_inputs(PassPart& p);
void add_layer_input(PassPart& p, size_t layer);

// Experts beside an MLP. block_out is what the MLP gave.
void mix_experts_beside(PassPart& p, size_t layer);

// --- The steps of a recurrent layer (model/config/recurrent_mixer.h). Called by every worker with its part of the
// pass.

// x += W_out norm_and_gate(mix(h)); h is complete. Contains barriers.
void recurrent_block(PassPart& p, size_t layer);

// The input of the second of two matrices: low = w from. Contains a barrier before low is written and one after.
void project_low(PassPart& p, const PackedMatrix& w, const LinearInput& from, LinearInput& low);

// recurrent_states.cc. Before each stands a barrier behind whatever wrote what it reads.
// The rows that convolution and states read from, and what they keep of them: channels are shared, rows of numbers too.
void convolve(const PassPart& p, size_t layer);
// o of all rows, and the states behind them: sequences and heads are shared.
void advance_heads(const PassPart& p, size_t layer);

// recurrent_block.cc: what Mamba-1 makes of the convolved x, and o of all rows. Contains barriers.
void advance_channels(PassPart& p, size_t layer);

}  // namespace ibid::forward
