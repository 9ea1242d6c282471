// Recognises files that lie where models lie and look like them, but cannot be talked to: adapters, projectors of
// images, importance matrices, vocabularies, embedding models. The error says what they are, and what to do.
#pragma once

#include "base/result.h"

namespace ibid {

class ModelFile;

// Returns kUnsupported for such a file, kMissingKey for safetensors without config.json. Ok for a file that is a
// model, and for any file that it does not recognise.
Status refuse_other_files(const ModelFile& file);

}  // namespace ibid
