#include "weights/model_file.h"

#include "weights/gguf_reader.h"

namespace ibid {

Result<std::unique_ptr<ModelFile>> open_model_file(const std::string& path, const OpenOptions& options) {
  return GgufFile::open(path, options);
}

}  // namespace ibid
