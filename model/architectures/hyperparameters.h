// Hyperparameters: the numbers of one model file, each checked against its range, with errors that name file and key.
// It knows keys and no architectures. Refers to the file; as thread-safe as that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/model_file.h"

namespace ibid {

// One hyperparameter: what we call it, and where each container keeps it: GGUF behind "<architecture>.", config.json
// behind its section, or where a spelling begins with ':', as it stands. '|' separates spellings, of which the first
// that is there is taken; an empty key is one that the container does not have.
struct Key {
  const char* name;
  const char* gguf;
  const char* hf;
};

// Limits beyond any real model, small enough that no product of two of them overflows.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxWidth = 1 << 22;
inline constexpr int64_t kMaxPositions = int64_t{1} << 30;
inline constexpr double kMaxFactor = 1e9;

class Hyperparameters {
 public:
  // prefix: "llama." of GGUF; "" or "text_config." of config.json. Both views must outlive this.
  Hyperparameters(const ModelFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  const ModelFile& file() const { return file_; }
  bool gguf() const { return file_.container() == Container::kGguf; }
  bool has(const Key& key) const { return !present_key(key).empty(); }
  // True if config.json has the key and no value for it.
  bool is_null(const Key& key) const;
  // The spelling that the file has, else the first: what an error names.
  std::string key_of(const Key& key) const;

  // kBadHyperparameter: "<file>: <key> is <value>, wanted <range>".
  Status bad(const Key& key, const std::string& value, const std::string& wanted) const;

  // The integer at `key` in [low, high]; `fallback` when the file does not have it. Errors: kMissingKey,
  // kBadHyperparameter, kBadType.
  Result<size_t> integer(const Key& key, int64_t low, int64_t high, std::optional<size_t> fallback = {}) const;
  // A number in (0, high].
  Result<double> positive(const Key& key, double high, std::optional<double> fallback = {}) const;
  // A finite number of at most `high` either way.
  Result<double> number(const Key& key, double high, double fallback) const;
  Result<bool> flag(const Key& key, bool fallback) const;
  // Nothing where the file does not have them.
  Result<std::optional<std::string>> text(const Key& key) const;
  // One number for each layer: an array of n_layers, or one for all of them. Nothing where the file has none.
  Result<std::optional<std::vector<size_t>>> per_layer(const Key& key, int64_t low, int64_t high,
                                                       size_t n_layers) const;
  Result<std::optional<std::vector<double>>> numbers(const Key& key, size_t n) const;
  // Any but NaN.
  Result<std::optional<std::vector<double>>> numbers_or_infinity(const Key& key, size_t n) const;
  Result<std::optional<std::vector<std::string_view>>> texts(const Key& key, size_t n) const;

 private:
  std::string full_key(std::string_view spelling) const;
  std::string present_key(const Key& key) const;
  Status wrong_length(const std::string& key, size_t got, size_t wanted) const;
  Status missing(const Key& key) const;

  const ModelFile& file_;
  std::string prefix_;
};

}  // namespace ibid
