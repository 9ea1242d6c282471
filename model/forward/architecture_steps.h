// The steps of a forward pass that only some architectures have; model/config/architecture_steps.h has the formulas.
#pragma once

#include "model/forward/pass.h"

namespace ibid::forward {

// latent_attention.cc: computes queries, keys and values from the two latents of each position.
void project_latent(PassPart& p, size_t layer);
// Multiplies the output of attention over latent rows, which is a sum of latents, by W_v; the result is the input of
// wo.
void expand_values(const PassPart& p, size_t layer);

// common_block.cc: runs the shared block, and prepares h = norm(x + its output) for the layer's mixer.
void common_block(PassPart& p, size_t layer);

// AltUp, several streams instead of one x: steps before the first layer, before and after each layer, and after the
// last.
void spread_streams(PassPart& p);
void predict_streams(PassPart& p, size_t layer);
void correct_streams(PassPart& p, size_t layer);
void gather_streams(PassPart& p);

// LAuReL, a low-rank bypass of attention. The caller runs a barrier after project_laurel().
void project_laurel(PassPart& p, size_t layer);
void add_laurel(PassPart& p, size_t layer);

// LayerInputs: per-layer embeddings of the tokens.
void make_layer_inputs(PassPart& p);
void add_layer_input(PassPart& p, size_t layer);

// Adds the output of the experts of a layer that also has an MLP. REQUIRES: block_out is the output of the MLP.
void mix_experts_beside(PassPart& p, size_t layer);

// --- The steps of a recurrent layer (model/config/recurrent_mixer.h). Each worker calls them with its part.

// x += W_out norm_and_gate(mix(h)). REQUIRES: all workers have written h. Contains barriers.
void recurrent_block(PassPart& p, size_t layer);

// Computes low = w from, the first step of a low-rank product, as input of the second. Contains barriers.
void project_low(PassPart& p, const PackedMatrix& w, const LinearInput& from, LinearInput& low);

// recurrent_states.cc: convolve() and advance_heads(). The caller runs a barrier before each of them, so that its
// inputs are complete. convolve() convolves the channels, prepares rates and decays, and logs the rows
// (SequenceState::logged_row()). Its work is split by channel and by row.
void convolve(const PassPart& p, size_t layer);
// Computes the outputs o of all rows (model/config/recurrent_mixer.h), and the states after the rows. The work is split
// by sequence and head.
void advance_heads(const PassPart& p, size_t layer);

// recurrent_block.cc, for Mamba-1: computes dt, B and C from the convolved x, then the outputs o of all rows. Contains
// barriers.
void advance_channels(PassPart& p, size_t layer);

}  // namespace ibid::forward
