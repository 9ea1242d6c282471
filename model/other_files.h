// Files that lie where models lie, look like them and are none that can be talked to: adapters, projectors of images,
// importance matrices, vocabularies, embedding models. What they are is said, and what to do.
#pragma once

#include "base/result.h"

namespace ibid {

class ModelFile;

// kUnsupported for such a file, kMissingKey for safetensors without config.json. Of a file that is a model, or nothing
// that is known here, it says nothing.
Status refuse_other_files(const ModelFile& file);

}  // namespace ibid
