// Writes a split GGUF or a Hugging Face directory as one GGUF file, optionally with another weight type. Tensors are
// read, decoded and encoded in pieces of a few million values, so memory does not grow with the model. A file made from
// a directory is loaded again and compared, model and tokenizer, before it gets its final name.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>

#include "apps/convert/conversion_types.h"
#include "base/result.h"

namespace ibid {

struct ConversionProgress {
  uint64_t done = 0, total = 0;  // bytes of tensors written so far, and of all tensors
};

struct ConversionControl {
  std::function<void(const ConversionProgress&)> progress = {};  // called after every piece
  std::stop_token stop = {};
};

struct Conversion {
  uint64_t bytes = 0;                          // bytes of the new file
  std::map<std::string, uint64_t> tensors_of;  // type name -> number of tensors
};

// Converts the model `in` to the file `out`. If file_type is nullptr, weights keep their type, and weights of a GGUF
// are copied unchanged. Metadata of a GGUF is copied, except the file type. Errors: those of open_model_file(),
// read_config(), gguf_tensors(), write_gguf_vocabulary(), check_same_model() and check_same_tokenizer(); kNonFinite,
// with the tensor (a value is not finite, or too large for F16); kCancelled; kChangedOnDisk; kIo. An existing `out` is
// replaced only by a complete file; on error no other file is left.
Result<Conversion> convert_model(const std::string& in, const std::string& out, const FileType* file_type,
                                 const ConversionControl& control = {});

}  // namespace ibid
