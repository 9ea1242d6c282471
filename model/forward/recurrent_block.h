// The steps of a recurrent layer (model/config/recurrent_mixer.h). Called by every worker with its part of the pass.
#pragma once

#include "model/forward/pass.h"

namespace ibid::forward {

// x += W_out norm_and_gate(mix(h)); h is complete. Contains barriers.
void recurrent_block(PassPart& p, size_t layer);

// The input of the second of two matrices: low = w from. Contains a barrier before low is written and one after.
void project_low(PassPart& p, const PackedMatrix& w, const LinearInput& from, LinearInput& low);

// recurrent_states.cc. Before each stands a barrier behind whatever wrote what it reads.
// The rows that convolution and states read from, and what they keep of them: channels are shared, rows of numbers too.
void convolve(const PassPart& p, size_t layer);
// o of all rows, and the states behind them: sequences and heads are shared.
void advance_heads(const PassPart& p, size_t layer);

// selective_scan.cc: what Mamba-1 makes of the convolved x, and o of all rows. Contains barriers.
void advance_channels(PassPart& p, size_t layer);

}  // namespace ibid::forward
