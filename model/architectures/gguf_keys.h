// Writes the metadata of a model that is converted from a Hugging Face checkpoint, as llama.cpp's converters do:
// its hyperparameters, under the keys of model/architectures/keys.h under which read_config() looks them up.
#pragma once

#include <string>

#include "base/result.h"
#include "model/architectures/architecture.h"
#include "model/config/config.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {

// Writes general.architecture and everything behind "<architecture>.". `config` is read_config(file)'s, `to`
// the row that the converted model will have. What GGUF has no key for is left out: check_same_model() finds
// it (model/weights/same_model.h). Errors: those of reading the keys of `file`.
Status write_gguf_keys(const ModelFile& file, const ModelConfig& config, const Architecture& to,
                       GgufWriter& out);

}  // namespace ibid
