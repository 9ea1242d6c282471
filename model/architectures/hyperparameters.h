// Hyperparameters: reads the numbers of a model file, and checks each against its range; errors name file and key. Does
// not depend on architectures. Refers to the file, and is as thread-safe as the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/model_file.h"

namespace ibid {

// A hyperparameter: our name for it, and its key in each container. In GGUF the key is below "<architecture>.", in
// config.json below the model's section; a spelling that starts with ':' is a full key. '|' separates spellings, of
// which the first one that the file has is used. Empty: the container has no such key.
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
  // prefix: "llama." in GGUF; "" or "text_config." in config.json. Both arguments must outlive the object.
  Hyperparameters(const ModelFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  const ModelFile& file() const { return file_; }
  bool gguf() const { return file_.container() == Container::kGguf; }
  bool has(const Key& key) const { return !present_key(key).empty(); }
  // True if config.json has the key with the value null.
  bool is_null(const Key& key) const;
  // Returns the spelling that the file has, or else the first one; for error messages.
  std::string key_of(const Key& key) const;

  // Returns kBadHyperparameter: "<file>: <key> is <value>, wanted <range>".
  Status bad(const Key& key, const std::string& value, const std::string& wanted) const;

  // Returns the integer at `key`, which must be in [low, high]; `fallback` if the file lacks the key. Errors of all
  // readers: kMissingKey, kBadHyperparameter, kBadType.
  Result<size_t> integer(const Key& key, int64_t low, int64_t high, std::optional<size_t> fallback = {}) const;
  // Returns a number in (0, high].
  Result<double> positive(const Key& key, double high, std::optional<double> fallback = {}) const;
  // Returns a finite number in [-high, high].
  Result<double> number(const Key& key, double high, double fallback) const;
  Result<bool> flag(const Key& key, bool fallback) const;
  // Returns the string at `key`; nullopt if the file lacks it.
  Result<std::optional<std::string>> text(const Key& key) const;
  // Returns one number per layer: the file has an array of n_layers, or one number for all layers. nullopt: no key.
  Result<std::optional<std::vector<size_t>>> per_layer(const Key& key, int64_t low, int64_t high,
                                                       size_t n_layers) const;
  Result<std::optional<std::vector<double>>> numbers(const Key& key, size_t n) const;
  // Returns the n numbers at `key`, which may be infinite; nullopt if the file lacks the key.
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
