// The output of an MLP, or of a mixture of experts, before the norm that may follow it. Sources: Shazeer 2020 (gated
// MLPs); Gemma 3n 2025 (cutoffs of gates).
#pragma once

#include "tests/oracle/model.h"

namespace ibid::oracle {

// W_down (f(W_gate h) * W_up h), or W_down f(W_up h) in a model without gates.
Matrix mlp(const Model& model, size_t layer, const Matrix& h);

// The weighted sum of the chosen experts' outputs for h, plus that of the shared expert. router_h: input of the router.
Matrix experts(const Model& model, size_t layer, const Matrix& h, const Matrix& router_h);

// Gemma 4: an MLP and experts side by side, both from x.
//   norm_1(mlp(h)) + norm_2(experts(norm_3(x)))
Matrix mlp_beside_experts(const Model& model, size_t layer, const Matrix& x, const Matrix& h);

}  // namespace ibid::oracle
