// What a recurrent layer adds to x, before any norm behind it: one position after the other, each formula as its paper
// has it. Sources: Gu & Dao 2023 (Mamba); Dao & Gu 2024 (Mamba-2); Yang et al. 2025 (gated delta networks); Kimi Linear
// 2025; MiniMax-01 2025 (lightning attention); LFM2 2025 (short convolutions).
#pragma once

#include "tests/oracle/model.h"

namespace ibid::oracle {

Matrix recurrent(const Model& model, size_t layer, const Matrix& h);

// What a block in common adds to the input of a layer's norm.  embedded: the tokens' embeddings
Matrix common_block(const Model& model, size_t layer, const Matrix& x, const Matrix& embedded);

}  // namespace ibid::oracle
