// The source of a conversion: the tensors and the metadata of a model, of either container, as a GGUF has them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/convert/conversion_types.h"
#include "base/result.h"
#include "model/architectures/gguf_conversion.h"
#include "model/config/config.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {

// A tensor and the type that it will have.
struct ConversionJob {
  std::string name;
  TensorView tensor;
  DType dtype;

  // The tensor as it will be; its data are the old ones.
  TensorView written() const {
    TensorView view = tensor;
    view.dtype = dtype;
    return view;
  }
};

// Owns the file that its jobs refer to.
struct ConversionSource {
  std::unique_ptr<ModelFile> file;
  std::vector<GgufTensor> made;  // of a directory
  ModelConfig config;            // likewise
  std::vector<ConversionJob> jobs;
  GgufWriter writer;  // with all metadata, and no tensors

  bool is_directory() const { return file->container() == Container::kSafetensors; }
};

// file_type nullptr: every tensor keeps the type it has, but for what GGUF wants as F32 or has no type for.
// Errors: those of open_model_file(), read_config(), gguf_tensors() and write_gguf_vocabulary().
Result<ConversionSource> open_conversion_source(const std::string& path, const FileType* file_type);

// Whether the file at `path` is the model and has the tokenizer of a directory that was converted.
// Errors: those of check_same_model() and check_same_tokenizer(); those of reading it.
Status check_conversion(const ConversionSource& source, const std::string& path);

}  // namespace ibid
