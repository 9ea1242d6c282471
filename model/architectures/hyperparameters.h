// Hyperparameters: the numbers of one model file, each checked against its range, with errors that name file and key.
// Independent of architectures. Refers to the file; as thread-safe as the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/model_file.h"

namespace ibid {

// One hyperparameter: our name for it and its key in each container: in GGUF below "<architecture>.", in config.json
// below its section, or absolute if the spelling starts with ':'. '|' separates spellings, of which the first present
// one is used; empty: the container has no such key.
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
  // prefix: "llama." in GGUF; "" or "text_config." in config.json. Both arguments must outlive this.
  Hyperparameters(const ModelFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  const ModelFile& file() const { return file_; }
  bool gguf() const { return file_.container() == Container::kGguf; }
  bool has(const Key& key) const { return !present_key(key).empty(); }
  // True if config.json has the key with the value null.
  bool is_null(const Key& key) const;
  // The spelling that the file has, else the first one; for error messages.
  std::string key_of(const Key& key) const;

  // kBadHyperparameter: "<file>: <key> is <value>, wanted <range>".
  Status bad(const Key& key, const std::string& value, const std::string& wanted) const;

  // The integer at `key` in [low, high]; `fallback` if the file lacks the key. Errors: kMissingKey, kBadHyperparameter,
  // kBadType.
  Result<size_t> integer(const Key& key, int64_t low, int64_t high, std::optional<size_t> fallback = {}) const;
  // A number in (0, high].
  Result<double> positive(const Key& key, double high, std::optional<double> fallback = {}) const;
  // A finite number in [-high, high].
  Result<double> number(const Key& key, double high, double fallback) const;
  Result<bool> flag(const Key& key, bool fallback) const;
  // nullopt if the file lacks the key.
  Result<std::optional<std::string>> text(const Key& key) const;
  // One number per layer: an array of n_layers, or one number for all layers. nullopt if the file lacks the key.
  Result<std::optional<std::vector<size_t>>> per_layer(const Key& key, int64_t low, int64_t high,
                                                       size_t n_layers) const;
  Result<std::optional<std::vector<double>>> numbers(const Key& key, size_t n) const;
  // As numbers(), but accepts all values except NaN.
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
