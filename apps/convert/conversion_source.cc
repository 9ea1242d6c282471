#include "apps/convert/conversion_source.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "model/architectures/architectures.h"
#include "model/architectures/gguf_conversion.h"
#include "model/weights/unused_tensors.h"
#include "tokenizer/loading/gguf_vocabulary.h"
#include "weights/gguf_reader.h"

namespace ibid {

namespace {

constexpr std::string_view kFileTypeKey = "general.file_type";
constexpr std::string_view kVersionKey = "general.quantization_version";

// What only a split file has, and what is written anew.
bool is_replaced(const GgufEntry& entry, const FileType* file_type) {
  if (entry.key.starts_with("split.") || entry.key == "general.alignment") return true;
  return file_type != nullptr && (entry.key == kFileTypeKey || entry.key == kVersionKey);
}

void write_file_type(const FileType& file_type, GgufWriter& writer) {
  writer.add_u32(kFileTypeKey, file_type.gguf_number);
  if (dtype_is_quantized(file_type.matrices)) writer.add_u32(kVersionKey, 2);
}

Status take_gguf(ConversionSource& source, const FileType* file_type) {
  for (const GgufEntry& entry : gguf_entries(*source.file)) {
    if (!is_replaced(entry, file_type)) source.writer.add_entry(entry);
  }
  if (file_type != nullptr) write_file_type(*file_type, source.writer);
  const ModelFile& file = *source.file;
  ModelShape shape;
  shape.has_head = file.find_tensor("output.weight") != nullptr;
  TRY_ASSIGN(const auto architecture, file.get_string("general.architecture"));
  if (architecture) {
    TRY_ASSIGN(const auto n_layers, file.get_int(std::string(*architecture) + ".block_count"));
    shape.n_layers = n_layers ? static_cast<size_t>(std::max<int64_t>(*n_layers, 0)) : 0;
  }
  for (const std::string& name : file.tensor_names()) {
    const TensorView& tensor = *file.find_tensor(name);
    const DType dtype = file_type == nullptr ? tensor.dtype : converted_type(*file_type, name, tensor, shape);
    source.jobs.push_back({name, tensor, dtype});
  }
  return {};
}

// What most weights of the tensors are.
const FileType* type_of_most(const std::vector<ConversionJob>& jobs) {
  std::map<DType, uint64_t> values;
  for (const ConversionJob& job : jobs) values[job.dtype] += job.tensor.shape.elements();
  const auto most = std::ranges::max_element(values, {}, [](const auto& entry) { return entry.second; });
  return most == values.end() ? nullptr : find_file_type(most->first);
}

Status take_directory(ConversionSource& source, const FileType* file_type) {
  const ModelFile& file = *source.file;
  TRY_ASSIGN(source.config, read_config(file));
  TRY_ASSIGN(const ArchitectureMatch match, find_architecture(file));
  const Architecture* to = written_architecture(*match.row, source.config);
  if (to == nullptr) {
    return {ErrorCode::kUnsupported, file.path() + ": architecture '" + std::string(match.row->hf_model_type) +
                                         "' has no name in GGUF: use the model as it is"};
  }
  TRY_ASSIGN(source.made, gguf_tensors(file, source.config, *to));
  TRY(refuse_unknown_tensors(file, source.config));
  const auto is_head = [](const GgufTensor& tensor) { return tensor.name == "output.weight"; };
  const ModelShape shape{source.config.n_layers, std::ranges::any_of(source.made, is_head)};
  for (const GgufTensor& tensor : source.made) {
    TensorView written = tensor.view;
    written.dtype = tensor.dtype;
    const DType dtype =
        file_type == nullptr ? tensor.dtype : converted_type(*file_type, tensor.name, written, shape);
    source.jobs.push_back({tensor.name, tensor.view, dtype});
  }
  // What is written has them within its weights.
  if (to->recurrent.gguf_folds_factors) source.config = without_factors(source.config);
  TRY(write_gguf_keys(file, source.config, *to, source.writer));
  const std::filesystem::path path = std::filesystem::absolute(file.path()).lexically_normal();
  const std::filesystem::path directory = path.has_filename() ? path : path.parent_path();
  source.writer.add_string("general.name", directory.filename().string());
  const FileType* type = file_type != nullptr ? file_type : type_of_most(source.jobs);
  if (type != nullptr) write_file_type(*type, source.writer);
  return write_gguf_vocabulary(file, source.config.vocab_size, source.writer);
}

}  // namespace

Result<ConversionSource> open_conversion_source(const std::string& path, const FileType* file_type) {
  ConversionSource source;
  TRY_ASSIGN(source.file, open_model_file(path));
  TRY(source.is_directory() ? take_directory(source, file_type) : take_gguf(source, file_type));
  return source;
}

Status check_conversion(const ConversionSource& source, const std::string& path) {
  if (!source.is_directory()) return {};
  TRY_ASSIGN(const std::unique_ptr<ModelFile> written, open_model_file(path));
  TRY_ASSIGN(const ModelConfig config, read_config(*written));
  TRY(check_same_model(source.config, config, source.file->path()));
  return check_same_tokenizer(*source.file, *written);
}

}  // namespace ibid
