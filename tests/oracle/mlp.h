// What an MLP, or a mixture of them, adds to x, before any norm behind it.
// Sources: Shazeer 2020 (gated MLPs); Gemma 3n 2025 (gates that are cut).
#pragma once

#include "tests/oracle/model.h"

namespace ibid::oracle {

// W_down (f(W_gate h) * W_up h), or W_down f(W_up h) of a model without gates.
Matrix mlp(const Model& model, size_t layer, const Matrix& h);

// The weighted sum of what the chosen experts give for h, and the shared one. router_h: what the router reads.
Matrix experts(const Model& model, size_t layer, const Matrix& h, const Matrix& router_h);

// Gemma 4: an MLP and experts side by side, from x itself.
//   norm_1(mlp(h)) + norm_2(experts(norm_3(x)))
Matrix mlp_beside_experts(const Model& model, size_t layer, const Matrix& x, const Matrix& h);

}  // namespace ibid::oracle
