// The metadata of a model that is converted from a Hugging Face checkpoint: its hyperparameters under the
// keys of model/keys.h that read_config() looks them up under, as llama.cpp's converters write them.
#pragma once

#include <string>

#include "base/result.h"
#include "model/architecture.h"
#include "model/config.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {

// Writes general.architecture and everything behind "<architecture>.". `config` is read_config(file)'s, `to`
// the row that the converted model will have. What GGUF has no key for is left out: check_same_model() finds
// it. Errors: those of reading the keys of `file`; kUnsupported for a part that is read from GGUF but not written.
Status write_gguf_keys(const ModelFile& file, const ModelConfig& config, const Architecture& to,
                       GgufWriter& out);

// Whether a model of `got`, read from `path`, computes what one of `wanted` does. Error: kUnsupported, naming
// what GGUF cannot say of it.
Status check_same_model(const ModelConfig& wanted, const ModelConfig& got, const std::string& path);

}  // namespace ibid
