// SafetensorsModel: safetensors weights and the other files of a Hugging Face checkpoint as a ModelFile. Metadata keys
// are those of config.json, dotted for nested objects. Thread-safety and lifetimes: as ModelFile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "base/mapped_file.h"
#include "weights/assembled_tensors.h"
#include "weights/model_file.h"
#include "weights/model_json.h"

namespace ibid {

class SafetensorsModel : public ModelFile {
 public:
  // Opens a directory with config.json and model.safetensors, or model.safetensors.index.json and its shards. With
  // options.vocabulary_only it does not open the weights, and config.json may be missing. Errors: kNotFound
  // (config.json or the weights), kMissingShard, kUnsafePath (a shard's name is not a plain file name, or is a symlink
  // and options.follow_symlinks is false), kMismatch (a shard lacks a tensor that the index lists), and those of
  // parse_json and parse_safetensors_header.
  static Result<std::unique_ptr<ModelFile>> open_directory(const std::string& path, const OpenOptions& options = {});

  // Opens one .safetensors file, and the config.json in the same directory if there is one.
  static Result<std::unique_ptr<ModelFile>> open_file(MappedFile file);

  Container container() const override { return Container::kSafetensors; }
  const std::string& path() const override { return path_; }

  bool has(std::string_view key) const override { return values().find(key) != nullptr; }
  Result<std::optional<int64_t>> get_int(std::string_view key) const override { return values().get_int(key); }
  Result<std::optional<double>> get_float(std::string_view key) const override { return values().get_float(key); }
  Result<std::optional<bool>> get_bool(std::string_view key) const override { return values().get_bool(key); }
  Result<std::optional<std::string_view>> get_string(std::string_view key) const override {
    return values().get_string(key);
  }
  Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const override {
    return values().get_strings(key);
  }
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const override {
    return values().get_ints(key);
  }
  Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const override {
    return values().get_floats(key);
  }

  const Json* config_json() const override { return config_ ? &*config_ : nullptr; }
  // Reads at most 100 MB. Errors: kUnsafePath unless `name` is a plain file name; kLimitExceeded, kNotRegularFile, kIo.
  Result<std::optional<std::string>> companion(std::string_view name) const override;

  const std::vector<std::string>& tensor_names() const override { return names_; }
  const TensorView* find_tensor(std::string_view name) const override;

  std::vector<MetadataLine> describe_metadata() const override;
  const std::vector<std::string>& warnings() const override { return warnings_; }
  void release(const TensorView& tensor) const override;
  Status check_unchanged() const override;
  uint64_t file_bytes() const override;
  Result<Sha256Digest> digest(const std::stop_token& stop) const override { return digest_of_files(files_, stop); }

 private:
  SafetensorsModel(std::string path, std::string directory);

  JsonValues values() const { return JsonValues(config_json(), config_path_); }
  Status read_config();
  Status open_weights(bool follow_symlinks);
  Status open_shards(const std::string& index_text, bool follow_symlinks);
  // Adds the tensors of `file`: those listed in `wanted` (sorted), or all if `wanted` is null.
  Status take(MappedFile file, const std::vector<std::string>* wanted);
  void index_names();
  // Assembles the tensors that are stored in parts. REQUIRES: index_names() was called.
  Status assemble_tensors();

  std::string path_;
  std::string directory_;
  std::string config_path_;
  std::optional<Json> config_;
  std::vector<MappedFile> files_;
  std::vector<std::string> names_;
  std::vector<TensorView> views_;  // views of the tensors in names_
  std::vector<uint32_t> by_name_;  // indices into names_, sorted by name
  // Assembled from several tensors, sorted by name; they take precedence over views_.
  std::vector<AssembledTensor> assembled_;
  std::vector<std::pair<std::string, std::string>> file_metadata_;  // entries of __metadata__ in all files
  std::vector<std::string> warnings_;
};

}  // namespace ibid
