// The oracle: a decoder-only transformer by the formulas of the papers, in double, with Eigen. It has no cache, packing
// or threads; it computes all rows of a sequence at once.
//
// The oracle shares with the product the configuration (ModelConfig, read from the file's metadata), the names of
// tensors and the decoders of number formats. So it does not find metadata that is read wrongly, confused tensors, or
// wrongly decoded blocks; the logits of Hugging Face and tests/golden/blocks find these. It finds errors in everything
// after that: packing, kernels, the forward pass, the cache.
#pragma once

#include <cstddef>

#include "ibid/token.h"
#include "model/config/config.h"
#include "tests/oracle/numbers.h"
#include "weights/model_file.h"

namespace ibid::oracle {

struct Options {
  size_t context = 0;       // context of the engine, for rope rules that depend on it; 0: the trained context
  double weight_noise = 0;  // every weight is multiplied by 1 + weight_noise u, u in [-1, 1]
};

// Returns the input of the LM head after every token: x after the final norm. [T, D]
Matrix hidden_states(const ModelFile& file, const ModelConfig& config, TokenSpan tokens, const Options& options = {});
// Returns the logits after every token. [T, V]
Matrix logits(const ModelFile& file, const ModelConfig& config, TokenSpan tokens, const Options& options = {});

}  // namespace ibid::oracle
