// Architectures: one row of data each, which leads from the keys of a file to a ModelConfig. To add an architecture
// that is built from parts we have is to add a row (docs/adding_an_architecture.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ibid/engine_options.h"
#include "model/config/config.h"

namespace ibid {

class ModelFile;
struct Architecture;  // model/architectures/architecture.h

// The configuration of `file`, every number checked against its range.
// Errors: kUnsupported (architecture or rope rule, named, with the supported ones), kMissingKey,
// kBadHyperparameter (name, value, range), kBadType.
Result<ModelConfig> read_config(const ModelFile& file);

// A row, and the place where the keys of its language model begin; a model that also sees keeps them in a section.
struct ArchitectureMatch {
  const Architecture* row;
  std::string prefix;
};
// Errors: kUnsupported, kMissingKey, kBadType.
Result<ArchitectureMatch> find_architecture(const ModelFile& file);

// The row that a converted model of `row` will have; nullptr: GGUF has no name for it. `config` is the model's.
const Architecture* written_architecture(const Architecture& row, const ModelConfig& config);

// Names as files of both containers have them, for messages and `ibid inspect`.
std::vector<std::string> supported_architectures();

// --- pooling.cc: whether a model makes embeddings, a vector for each text, and what of: the pooling of its positions'
// hidden states.
//
// GGUF has a key for it, with the numbers of llama.cpp. A directory has the modules of sentence-transformers:
// modules.json names them, and the pooling's own config.json says which it is. Vectors are brought to length 1 whatever
// modules there are, which is what servers of embeddings do.

// prefix: of the file's keys (ArchitectureMatch). Nothing: the file names no pooling, as files of models that answer
// do. Errors: kUnsupported for another pooling, another module, or attention to later positions, each named;
// kBadHyperparameter, kBadType, kMissingKey; those of parse_json().
Result<std::optional<Pooling>> read_pooling(const ModelFile& file, const std::string& prefix);

// "mean", "last".
std::string_view pooling_name(Pooling pooling);
// The number that GGUF has for it.
uint32_t gguf_number_of(Pooling pooling);

}  // namespace ibid
