#include "weights/model_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "weights/gguf_reader.h"
#include "weights/safetensors_reader.h"
#include "weights/sniff.h"

namespace ibid {

Result<std::unique_ptr<ModelFile>> open_model_file(const std::string& path, const OpenOptions& options) {
  std::error_code ignored;  // whatever is wrong with the path, opening it says so in better words
  if (std::filesystem::is_directory(path, ignored)) return SafetensorsModel::open_directory(path, options);
  TRY_ASSIGN(MappedFile file, MappedFile::open(path));
  const Sniffed sniffed = sniff(file.bytes());
  if (sniffed.content == Content::kGguf) return GgufFile::open(std::move(file), options);
  // A safetensors file whose first bytes are broken is told which rule it breaks.
  const bool named_safetensors = path.ends_with(".safetensors") && sniffed.looks_like.empty();
  if (sniffed.content == Content::kSafetensors || (named_safetensors && file.bytes().size() > 8)) {
    return SafetensorsModel::open_file(std::move(file));
  }
  return foreign_content_error(file.bytes(), path, "a GGUF or safetensors file");
}

}  // namespace ibid
