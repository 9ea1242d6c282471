// The steps of a forward pass that only some architectures have. Each is in a file of its own, with its source.
#pragma once

#include "model/forward/pass.h"

namespace ibid::forward {

// latent_attention.cc: queries, keys and values of two short rows of each position.
void project_latent(PassPart& p, size_t layer);
// What attention gives is a sum of latents: the input of wo is W_v of it.
void expand_values(const PassPart& p, size_t layer);

// common_block.cc: h = norm(x + what a block gives that layers have in common).
void common_block(PassPart& p, size_t layer);

// altup.cc: several streams in place of one x. Before the first layer, before and after each one, behind the last.
void spread_streams(PassPart& p);
void predict_streams(PassPart& p, size_t layer);
void correct_streams(PassPart& p, size_t layer);
void gather_streams(PassPart& p);

// laurel.cc: a way around attention. The caller puts a barrier behind project_laurel().
void project_laurel(PassPart& p, size_t layer);
void add_laurel(PassPart& p, size_t layer);

// layer_inputs.cc: what a token gives to each layer.
void make_layer_inputs(PassPart& p);
void add_layer_input(PassPart& p, size_t layer);

// experts_beside.cc: experts beside an MLP. block_out is what the MLP gave.
void mix_experts_beside(PassPart& p, size_t layer);

}  // namespace ibid::forward
