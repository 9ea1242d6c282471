// Whether a model makes embeddings, a vector for each text, and what of: the pooling of its positions' hidden states.
//
// GGUF has a key for it, with the numbers of llama.cpp. A directory has the modules of sentence-transformers:
// modules.json names them, and the pooling's own config.json says which it is. Vectors are brought to length 1 whatever
// modules there are, which is what servers of embeddings do.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ibid/engine_options.h"

namespace ibid {

class ModelFile;

// prefix: of the file's keys (ArchitectureMatch). Nothing: it says of none, as models that answer do.
// Errors: kUnsupported for another pooling, another module, or attention to later positions, each named;
// kBadHyperparameter, kBadType, kMissingKey; those of parse_json().
Result<std::optional<Pooling>> read_pooling(const ModelFile& file, const std::string& prefix);

// "mean", "last".
std::string_view pooling_name(Pooling pooling);
// The number that GGUF has for it.
uint32_t gguf_number_of(Pooling pooling);

}  // namespace ibid
