// A model directory that exists only in memory: it has text files and no tensors.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/model_file.h"

namespace ibid {

class MemoryModelFile : public ModelFile {
 public:
  explicit MemoryModelFile(std::map<std::string, std::string, std::less<>> companions)
      : companions_(std::move(companions)) {}

  Container container() const override { return Container::kSafetensors; }
  const std::string& path() const override { return path_; }
  bool has(std::string_view) const override { return false; }
  Result<std::optional<int64_t>> get_int(std::string_view) const override { return std::optional<int64_t>(); }
  Result<std::optional<double>> get_float(std::string_view) const override { return std::optional<double>(); }
  Result<std::optional<bool>> get_bool(std::string_view) const override { return std::optional<bool>(); }
  Result<std::optional<std::string_view>> get_string(std::string_view) const override {
    return std::optional<std::string_view>();
  }
  Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view) const override {
    return std::optional<std::vector<std::string_view>>();
  }
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view) const override {
    return std::optional<std::vector<int64_t>>();
  }
  Result<std::optional<std::vector<double>>> get_floats(std::string_view) const override {
    return std::optional<std::vector<double>>();
  }
  const Json* config_json() const override { return nullptr; }
  Result<std::optional<std::string>> companion(std::string_view name) const override {
    const auto found = companions_.find(name);
    return found == companions_.end() ? std::nullopt : std::optional<std::string>(found->second);
  }
  const std::vector<std::string>& tensor_names() const override { return none_; }
  const TensorView* find_tensor(std::string_view) const override { return nullptr; }
  std::vector<MetadataLine> describe_metadata() const override { return {}; }
  const std::vector<std::string>& warnings() const override { return none_; }
  Status check_unchanged() const override { return {}; }
  uint64_t file_bytes() const override { return 0; }
  Result<Sha256Digest> digest(const std::stop_token&) const override { return Sha256().finish(); }

 private:
  std::string path_ = "model";
  std::map<std::string, std::string, std::less<>> companions_;
  std::vector<std::string> none_;
};

}  // namespace ibid
