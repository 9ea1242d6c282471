// The output of a recurrent layer, before the norm that may follow it, computed position by position with the formulas
// of the papers. Sources: Gu & Dao 2023 (Mamba); Dao & Gu 2024 (Mamba-2); Yang et al. 2025 (gated delta networks); Kimi
// Linear 2025; MiniMax-01 2025 (lightning attention); LFM2 2025 (short convolutions).
#pragma once

#include "tests/oracle/model.h"

namespace ibid::oracle {

Matrix recurrent(const Model& model, size_t layer, const Matrix& h);

// The output of a shared block, which is added to the input of the layer's norm. embedded: the tokens' embeddings.
Matrix common_block(const Model& model, size_t layer, const Matrix& x, const Matrix& embedded);

}  // namespace ibid::oracle
