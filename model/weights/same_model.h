// Compares two configurations part by part, to see whether they are of one model.
#pragma once

#include <string>

#include "base/result.h"
#include "model/config/config.h"

namespace ibid {

// Whether a model of `got`, read from `path`, computes what one of `wanted` does. Error: kUnsupported, naming
// what GGUF cannot say of it.
Status check_same_model(const ModelConfig& wanted, const ModelConfig& got, const std::string& path);

}  // namespace ibid
