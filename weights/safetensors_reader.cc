#include "weights/safetensors_reader.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/file_ops.h"
#include "base/mapped_file.h"
#include "base/text.h"
#include "weights/model_file.h"
#include "weights/model_json.h"
#include "weights/safetensors_header.h"

namespace ibid {

namespace {

constexpr char kConfigName[] = "config.json";
constexpr char kSingleName[] = "model.safetensors";
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr uint64_t kMaxConfigBytes = 10'000'000;
constexpr uint64_t kMaxCompanionBytes = 100'000'000;  // the largest known tokenizer.json has 35 MB

// Reads the text of `name` in `directory`; kNotFound if it does not exist.
Result<std::string> read_beside(const std::string& directory, const std::string& name, uint64_t max_bytes) {
  Result<MappedFile> file = MappedFile::open_in(directory, name);
  if (!file.ok()) {
    // MappedFile cannot map an empty file, but an empty file is a valid empty text.
    if (file.status().code() == ErrorCode::kTruncated) return std::string();
    return file.status();
  }
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() > max_bytes) {
    return Status(ErrorCode::kLimitExceeded, file->path() + ": has " + std::to_string(bytes.size()) +
                                                 " bytes, at most " + std::to_string(max_bytes) + " are read");
  }
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TRY(file->check_unchanged());
  return text;
}

bool is_missing(const Status& status) { return status.code() == ErrorCode::kNotFound; }

std::string shown(const Json& value) {
  return shown_value(value.is_string() ? value.get<std::string>() : json_to_string(value));
}

}  // namespace

SafetensorsModel::SafetensorsModel(std::string path, std::string directory)
    : path_(std::move(path)), directory_(std::move(directory)), config_path_(directory_ + "/" + kConfigName) {}

Result<std::unique_ptr<ModelFile>> SafetensorsModel::open_directory(const std::string& path,
                                                                    const OpenOptions& options) {
  std::unique_ptr<SafetensorsModel> model(new SafetensorsModel(path, path));
  TRY(model->read_config());
  if (options.vocabulary_only) return std::unique_ptr<ModelFile>(std::move(model));
  if (!model->config_) {
    return Status(ErrorCode::kNotFound, path + ": holds no " + kConfigName +
                                            ", so it is not a model's directory; name a .gguf or .safetensors file");
  }
  TRY(model->open_weights(options.follow_symlinks));
  return std::unique_ptr<ModelFile>(std::move(model));
}

Result<std::unique_ptr<ModelFile>> SafetensorsModel::open_file(MappedFile file) {
  const std::string path = file.path();
  const std::string parent = std::filesystem::path(path).parent_path().string();
  std::unique_ptr<SafetensorsModel> model(new SafetensorsModel(path, parent.empty() ? "." : parent));
  TRY(model->read_config());
  TRY(model->take(std::move(file), nullptr));
  model->index_names();
  TRY(model->assemble_tensors());
  return std::unique_ptr<ModelFile>(std::move(model));
}

Status SafetensorsModel::read_config() {
  const Result<std::string> text = read_beside(directory_, kConfigName, kMaxConfigBytes);
  if (is_missing(text.status())) return {};
  TRY(text.status());
  TRY_ASSIGN(Json config, parse_model_json(*text, config_path_));
  if (!config.is_object()) return {ErrorCode::kBadHeader, config_path_ + ": is not a JSON object"};
  config_ = std::move(config);
  return {};
}

Status SafetensorsModel::open_weights(bool follow_symlinks) {
  Result<MappedFile> single = MappedFile::open_in(directory_, kSingleName, follow_symlinks);
  if (single.ok()) {
    TRY(take(std::move(single).value(), nullptr));
  } else if (!is_missing(single.status())) {
    return single.status();
  } else {
    const Result<std::string> index = read_beside(directory_, kIndexName, kMaxCompanionBytes);
    if (is_missing(index.status())) {
      return {ErrorCode::kNotFound, directory_ + ": holds neither " + kSingleName + " nor " + kIndexName +
                                        " (PyTorch's .bin files are pickles and are not supported)"};
    }
    TRY(index.status());
    TRY(open_shards(*index, follow_symlinks));
  }
  index_names();
  return assemble_tensors();
}

Status SafetensorsModel::open_shards(const std::string& index_text, bool follow_symlinks) {
  const std::string index_path = directory_ + "/" + kIndexName;
  TRY_ASSIGN(const ShardIndex index, parse_shard_index(index_text, index_path));
  for (const ShardIndex::Shard& shard : index.shards) {
    Result<MappedFile> file = MappedFile::open_in(directory_, shard.file, follow_symlinks);
    if (is_missing(file.status())) {
      return {ErrorCode::kMissingShard, index_path + ": shard " + in_quotes(shard.file) + " (" +
                                            std::to_string(shard.tensors.size()) + " tensors) is missing"};
    }
    TRY(file.status());
    TRY(take(std::move(file).value(), &shard.tensors));
  }
  uint64_t bytes = 0;
  for (const TensorView& view : views_) bytes += view.data.size();
  if (index.total_bytes && *index.total_bytes != bytes) {
    warnings_.push_back(index_path + ": says total_size " + std::to_string(*index.total_bytes) + ", the tensors have " +
                        std::to_string(bytes) + " bytes");
  }
  return {};
}

Status SafetensorsModel::take(MappedFile file, const std::vector<std::string>* wanted) {
  // If the file is of another known type, the error names that type; otherwise the parser reports the violated rule.
  const Sniffed sniffed = sniff(file.bytes());
  if (sniffed.content != Content::kSafetensors && !sniffed.looks_like.empty()) {
    return wrong_content_error(file.bytes(), file.path(), "a safetensors file");
  }
  Result<SafetensorsHeader> parsed = parse_safetensors_header(file.bytes(), file.path());
  TRY(file.check_unchanged());  // checked first, because the parse error may be due to a change of the file
  TRY_ASSIGN(SafetensorsHeader header, std::move(parsed));
  size_t unlisted = 0;
  std::vector<bool> found(wanted == nullptr ? 0 : wanted->size());
  for (SafetensorsTensor& tensor : header.tensors) {
    if (wanted != nullptr) {
      const auto at = std::lower_bound(wanted->begin(), wanted->end(), tensor.name);
      if (at == wanted->end() || *at != tensor.name) {
        ++unlisted;
        continue;
      }
      found[static_cast<size_t>(at - wanted->begin())] = true;
    }
    names_.push_back(std::move(tensor.name));
    views_.push_back(tensor.view);
  }
  if (const auto missing = std::find(found.begin(), found.end(), false); missing != found.end()) {
    return {ErrorCode::kMismatch, file.path() + ": has no tensor " +
                                      in_quotes((*wanted)[static_cast<size_t>(missing - found.begin())]) + ", which " +
                                      kIndexName + " says it has; is it a shard of another model?"};
  }
  if (unlisted > 0) {
    warnings_.push_back(file.path() + ": " + std::to_string(unlisted) + " tensors that " + kIndexName +
                        " does not list are ignored");
  }
  for (auto& pair : header.metadata) file_metadata_.push_back(std::move(pair));
  files_.push_back(std::move(file));
  return {};
}

void SafetensorsModel::index_names() {
  by_name_.resize(names_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(), [this](uint32_t a, uint32_t b) { return names_[a] < names_[b]; });
}

Status SafetensorsModel::assemble_tensors() {
  TRY_ASSIGN(const QuantizationConfig config, read_quantization_config(values(), config_path_));
  const StoredTensors stored{&names_, [this](std::string_view name) { return find_tensor(name); }, path_};
  TRY_ASSIGN(std::vector<AssembledTensor> made, make_tensors(stored, config));
  std::ranges::sort(made, {}, &AssembledTensor::name);
  assembled_ = std::move(made);
  return {};
}

void SafetensorsModel::release(const TensorView& tensor) const {
  const auto parts = tensor.source == nullptr ? std::vector{tensor.data} : tensor.source->parts();
  for (const std::span<const std::byte> part : parts) {
    for (const MappedFile& file : files_) file.release(part);
  }
}

const TensorView* SafetensorsModel::find_tensor(std::string_view name) const {
  const auto whole = std::ranges::lower_bound(assembled_, name, {}, &AssembledTensor::name);
  if (whole != assembled_.end() && whole->name == name) return &whole->view;
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [this](uint32_t i, std::string_view n) { return names_[i] < n; });
  return at != by_name_.end() && names_[*at] == name ? &views_[*at] : nullptr;
}

Result<std::optional<std::string>> SafetensorsModel::companion(std::string_view name) const {
  // For a file in a folder beside the weights, the folder's name must be a plain name too.
  std::string directory = directory_;
  if (const size_t slash = name.find('/'); slash != std::string_view::npos) {
    const std::string folder(name.substr(0, slash));
    if (!is_plain_name(folder)) {
      return {ErrorCode::kUnsafePath, directory_ + ": " + in_quotes(folder) + " is not a plain name of a folder"};
    }
    directory += "/" + folder;
    std::error_code error;
    if (!std::filesystem::exists(directory, error)) return std::optional<std::string>();
    name.remove_prefix(slash + 1);
  }
  Result<std::string> text = read_beside(directory, std::string(name), kMaxCompanionBytes);
  if (is_missing(text.status())) return std::optional<std::string>();
  TRY(text.status());
  return std::optional(std::move(text).value());
}

std::vector<ModelFile::MetadataLine> SafetensorsModel::describe_metadata() const {
  std::vector<MetadataLine> lines;
  if (config_) {
    for (const auto& [key, value] : config_->items()) lines.push_back({key, value.type_name(), shown(value)});
  }
  for (const auto& [key, value] : file_metadata_) {
    lines.push_back({"__metadata__." + key, "string", shown(Json(value))});
  }
  return lines;
}

Status SafetensorsModel::check_unchanged() const {
  for (const MappedFile& file : files_) TRY(file.check_unchanged());
  return {};
}

uint64_t SafetensorsModel::file_bytes() const {
  uint64_t bytes = 0;
  for (const MappedFile& file : files_) bytes += file.bytes().size();
  return bytes;
}

}  // namespace ibid
