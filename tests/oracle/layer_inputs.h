// Per-layer embeddings (Gemma 3n model overview 2025): what a token gives to each layer besides x.
#pragma once

#include <vector>

#include "ibid/token.h"
#include "tests/oracle/model.h"

namespace ibid::oracle {

// (E_layers[token] sqrt(P) + norm(W_layers x / sqrt(D))) / sqrt(2): [L] of [T, P]. x: the scaled embeddings.
std::vector<Matrix> layer_inputs(const Model& model, TokenSpan tokens, const Matrix& x);

// norm(W_out (f(W_gate x) * input)): what a layer adds in the end.
Matrix from_layer_input(const Model& model, size_t layer, const Matrix& x, const Matrix& input);

}  // namespace ibid::oracle
