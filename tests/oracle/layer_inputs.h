// Per-layer embeddings of tokens (Gemma 3n model overview 2025).
#pragma once

#include <vector>

#include "ibid/token.h"
#include "tests/oracle/model.h"

namespace ibid::oracle {

// (E_layers[token] sqrt(P) + norm(W_layers x / sqrt(D))) / sqrt(2): [L] of [T, P]. x: the scaled embeddings.
std::vector<Matrix> layer_inputs(const Model& model, TokenSpan tokens, const Matrix& x);

// norm(W_out (f(W_gate x) * input)): added to x at the end of a layer.
Matrix from_layer_input(const Model& model, size_t layer, const Matrix& x, const Matrix& input);

}  // namespace ibid::oracle
