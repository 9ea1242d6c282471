// Writes a GGUF model anew: all parts of a split one in one file, weights in another type. Tensors are read, decoded
// and encoded in pieces of a few million values, so memory does not grow with the model.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "apps/convert/conversion_types.h"
#include "base/result.h"

namespace ibid {

struct ConversionProgress {
  uint64_t done = 0, total = 0;  // values
};

struct Conversion {
  uint64_t bytes = 0;                          // of the new file
  std::map<std::string, uint64_t> tensors_of;  // by type
};

// file_type nullptr: every tensor keeps its type and its bytes. What the metadata say besides the file's type stays as
// it is. `progress` is called behind every piece.
// Errors: those of open_model_file(); kUnsupported (a directory, a type that cannot be decoded); kNonFinite (a weight
// that is not finite, or too large for F16, named); kChangedOnDisk; kIo. What was at `out` is there until the new file
// is whole.
Result<Conversion> convert_model(const std::string& in, const std::string& out, const FileType* file_type,
                                 const std::function<void(const ConversionProgress&)>& progress);

}  // namespace ibid
