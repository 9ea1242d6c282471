// The oracle: a decoder-only transformer as the papers write it, in double, with Eigen. It has no cache, no packing, no
// threads; every row of a sequence is computed at once, every number by the oracle itself.
//
// With the product it shares the configuration (ModelConfig, read from the file's metadata), the names of tensors and
// the decoders of number formats. So it cannot catch a number of the metadata that is read wrongly, a tensor that is
// taken for another, or a block that is decoded wrongly: the logits of Hugging Face and tests/golden/blocks do that.
// It catches everything behind: packing, kernels, the forward pass, the cache.
#pragma once

#include <cstddef>

#include "ibid/token.h"
#include "model/config/config.h"
#include "tests/oracle/numbers.h"
#include "weights/model_file.h"

namespace ibid::oracle {

struct Options {
  size_t context = 0;        // of the engine, for rope rules that ask for it; 0: what the model was trained for
  double weight_noise = 0;   // every weight is multiplied by 1 + weight_noise u, u between -1 and 1
};

// What the head reads after every token: x behind the final norm. [T, D]
Matrix hidden_states(const ModelFile& file, const ModelConfig& config, TokenSpan tokens, const Options& options = {});
// Logits after every token. [T, V]
Matrix logits(const ModelFile& file, const ModelConfig& config, TokenSpan tokens, const Options& options = {});

}  // namespace ibid::oracle
