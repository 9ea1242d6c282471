// The output of attention, before the norm that may follow it: projections, norms of heads, rope, masks, gates.
// Sources: Vaswani et al. 2017; Ainslie et al. 2023 (GQA); Beltagy et al. 2020 (windows); Henry et al. 2020 (norms of
// queries and keys); Meta 2025 (Llama 4: chunks, scaled queries); DeepSeek-V2 2024 (latent attention).
#pragma once

#include <vector>

#include "tests/oracle/model.h"

namespace ibid::oracle {

// W_o attend(q, k, v) of rows h at positions 0, 1, 2 ... cache: [KV layers]; the layer writes its own element. adapter:
// index of the layer's adapter, in models with adapters of attention.
Matrix self_attention(const Model& model, size_t layer, const Matrix& h, std::vector<KeysAndValues>& cache,
                      size_t adapter = 0);

// Latent attention's queries and keys [T, H (nope + rope)], and values [T, H value_dim].
struct Expanded {
  Matrix queries;
  KeysAndValues kv;
};
Expanded expand_latents(const Model& model, size_t layer, const Matrix& h);

}  // namespace ibid::oracle
