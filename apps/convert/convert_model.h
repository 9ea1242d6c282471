// Writes a model as one GGUF: all parts of a split one, or a Hugging Face directory, weights in another type
// where that is asked for. Tensors are read, decoded and encoded in pieces of a few million values, so memory
// does not grow with the model. A directory's file is read again before it takes its name: it is the same
// model with the same tokenizer.
#pragma once

#include <functional>
#include <map>
#include <stop_token>
#include <string>

#include "apps/convert/conversion_types.h"
#include "base/result.h"

namespace ibid {

struct ConversionProgress {
  uint64_t done = 0, total = 0;  // bytes of the new tensors
};

struct ConversionControl {
  std::function<void(const ConversionProgress&)> progress = {};  // called behind every piece
  std::stop_token stop = {};
};

struct Conversion {
  uint64_t bytes = 0;                          // of the new file
  std::map<std::string, uint64_t> tensors_of;  // by type
};

// file_type nullptr: the weights keep their type, and those of a GGUF their bytes. A GGUF's metadata, but
// for the file's type, stay as they are. Errors: those of open_model_file(), read_config(), gguf_tensors(),
// write_gguf_vocabulary(), check_same_model() and check_same_tokenizer();
// kNonFinite (a weight of any tensor that is not finite, or too large for F16, named); kCancelled; kChangedOnDisk; kIo.
// The file that was at `out` stays until the new one is whole, and no other file is left behind.
Result<Conversion> convert_model(const std::string& in, const std::string& out, const FileType* file_type,
                                 const ConversionControl& control = {});

}  // namespace ibid
