// The architectures: one row of data each, which maps the keys of a file to a ModelConfig. An architecture built from
// existing parts needs only a new row (docs/adding_an_architecture.md).
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
struct Architecture;  // see model/architectures/architecture.h

// Reads the configuration of `file`, and checks every number against its range. Errors: kUnsupported (naming the
// architecture or rope rule, and the supported ones), kMissingKey, kBadHyperparameter (name, value, range), kBadType.
Result<ModelConfig> read_config(const ModelFile& file);

// An architecture's row, and the prefix of the language model's keys (vision models have these keys in a separate
// section).
struct ArchitectureMatch {
  const Architecture* row;
  std::string prefix;
};
// Finds the row of the file's architecture. Errors: kUnsupported, kMissingKey, kBadType.
Result<ArchitectureMatch> find_architecture(const ModelFile& file);

// Returns the row that describes the converted (GGUF) form of a model of `row`; nullptr if GGUF has no name for it.
// `config` is the model's configuration.
const Architecture* written_architecture(const Architecture& row, const ModelConfig& config);

// Architecture names of both containers, for messages and `ibid inspect`.
std::vector<std::string> supported_architectures();

// --- pooling.cc: whether a model is an embedding model (one vector per text), and how it combines (pools) the hidden
// states of a text's positions into that vector.
// GGUF has a key for the pooling, with the numbers of llama.cpp. A directory has the modules of sentence-transformers,
// listed in modules.json, and the pooling module's config.json. Vectors are always normalised to length 1, as embedding
// servers do, even if there is no module for that.

// Returns how the model combines hidden states into an embedding; nullopt if the file names no pooling, as files of
// generative models do. prefix: prefix of the file's keys (ArchitectureMatch). Errors: kUnsupported for another pooling
// or module, or non-causal attention, each named; kBadHyperparameter, kBadType, kMissingKey; those of parse_json().
Result<std::optional<Pooling>> read_pooling(const ModelFile& file, const std::string& prefix);

// Returns "mean" or "last".
std::string_view pooling_name(Pooling pooling);
// Returns the number that GGUF uses for this pooling.
uint32_t gguf_number_of(Pooling pooling);

}  // namespace ibid
