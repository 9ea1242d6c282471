// Architectures: one row of data each, which leads from the keys of a file to a ModelConfig. To add an architecture
// that is built from parts we have is to add a row (docs/adding_an_architecture.md).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
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

}  // namespace ibid
