#include "model/architectures/hyperparameters.h"

#include <algorithm>
#include <cmath>

#include "base/json_limits.h"
#include "base/text.h"

namespace ibid {

std::string Hyperparameters::full_key(std::string_view spelling) const {
  if (spelling.starts_with(':')) return std::string(spelling.substr(1));
  return prefix_ + std::string(spelling);
}

std::string Hyperparameters::present_key(const Key& key) const {
  std::string present;
  for_each_piece(gguf() ? key.gguf : key.hf, '|', [&](std::string_view spelling) {
    std::string full = full_key(spelling);
    if (spelling.empty() || !file_.has(full)) return false;
    present = std::move(full);
    return true;
  });
  return present;
}

bool Hyperparameters::is_null(const Key& key) const {
  const Json* at = file_.config_json();
  if (at == nullptr || has(key)) return false;
  const std::string section = prefix_.substr(0, prefix_.find('.'));
  if (!section.empty()) {
    if (!at->contains(section)) return false;
    at = &(*at)[section];
  }
  bool found = false;
  for_each_piece(key.hf, '|', [&](std::string_view spelling) {
    const std::string name(spelling);
    found = !name.empty() && at->is_object() && at->contains(name) && (*at)[name].is_null();
    return found;
  });
  return found;
}

std::string Hyperparameters::key_of(const Key& key) const {
  std::string present = present_key(key);
  if (!present.empty()) return present;
  const std::string_view all = gguf() ? key.gguf : key.hf;
  return full_key(all.substr(0, all.find('|')));
}

Status Hyperparameters::bad(const Key& key, const std::string& value, const std::string& wanted) const {
  return {ErrorCode::kBadHyperparameter, file_.path() + ": " + key_of(key) + " is " + value + ", expected " + wanted};
}

Status Hyperparameters::missing(const Key& key) const {
  return {ErrorCode::kMissingKey, file_.path() + ": " + key_of(key) + " (" + key.name + ") is missing"};
}

Status Hyperparameters::wrong_length(const std::string& key, size_t got, size_t wanted) const {
  return {ErrorCode::kBadHyperparameter,
          file_.path() + ": " + key + " has " + std::to_string(got) + " elements, expected " + std::to_string(wanted)};
}

Result<size_t> Hyperparameters::integer(const Key& key, int64_t low, int64_t high,
                                        std::optional<size_t> fallback) const {
  const std::string name = present_key(key);
  if (name.empty()) return fallback ? Result<size_t>(*fallback) : missing(key);
  TRY_ASSIGN(const std::optional<int64_t> value, file_.get_int(name));
  if (*value < low || *value > high) {
    return bad(key, std::to_string(*value), std::to_string(low) + ".." + std::to_string(high));
  }
  return static_cast<size_t>(*value);
}

Result<double> Hyperparameters::positive(const Key& key, double high, std::optional<double> fallback) const {
  const std::string name = present_key(key);
  if (name.empty()) return fallback ? Result<double>(*fallback) : missing(key);
  TRY_ASSIGN(const std::optional<double> value, file_.get_float(name));
  if (!(*value > 0 && *value <= high)) return bad(key, std::to_string(*value), "a positive number");
  return *value;
}

Result<double> Hyperparameters::number(const Key& key, double high, double fallback) const {
  const std::string name = present_key(key);
  if (name.empty()) return fallback;
  TRY_ASSIGN(const std::optional<double> value, file_.get_float(name));
  if (!(std::abs(*value) <= high)) return bad(key, std::to_string(*value), "a number");
  return *value;
}

Result<bool> Hyperparameters::flag(const Key& key, bool fallback) const {
  const std::string name = present_key(key);
  if (name.empty()) return fallback;
  TRY_ASSIGN(const std::optional<bool> value, file_.get_bool(name));
  return *value;
}

Result<std::optional<std::string>> Hyperparameters::text(const Key& key) const {
  const std::string name = present_key(key);
  if (name.empty()) return std::optional<std::string>();
  TRY_ASSIGN(const std::optional<std::string_view> value, file_.get_string(name));
  return std::optional<std::string>(*value);
}

Result<std::optional<std::vector<size_t>>> Hyperparameters::per_layer(const Key& key, int64_t low, int64_t high,
                                                                      size_t n_layers) const {
  const std::string name = present_key(key);
  if (name.empty()) return std::optional<std::vector<size_t>>();
  if (const auto one = file_.get_int(name); one.ok()) {
    TRY_ASSIGN(const size_t value, integer(key, low, high));
    return std::optional(std::vector<size_t>(n_layers, value));
  }
  TRY_ASSIGN(const auto listed, file_.get_ints(name));
  const std::vector<int64_t> values = listed.value_or(std::vector<int64_t>());
  if (values.size() != n_layers) return wrong_length(name, values.size(), n_layers);
  std::vector<size_t> all;
  for (const int64_t value : values) {
    if (value < low || value > high) {
      return bad(key, "an array with " + std::to_string(value),
                 "elements of " + std::to_string(low) + ".." + std::to_string(high));
    }
    all.push_back(static_cast<size_t>(value));
  }
  return std::optional(std::move(all));
}

Result<std::optional<std::vector<double>>> Hyperparameters::numbers(const Key& key, size_t n) const {
  TRY_ASSIGN(auto values, numbers_or_infinity(key, n));
  for (const double value : values.value_or(std::vector<double>())) {
    if (!(std::abs(value) <= kMaxFactor)) return bad(key, "an array with " + std::to_string(value), "numbers");
  }
  return values;
}

Result<std::optional<std::vector<double>>> Hyperparameters::numbers_or_infinity(const Key& key, size_t n) const {
  const std::string name = present_key(key);
  if (name.empty()) return std::optional<std::vector<double>>();
  TRY_ASSIGN(const auto listed, file_.get_floats(name));
  std::vector<double> values = listed.value_or(std::vector<double>());
  if (values.size() != n) return wrong_length(name, values.size(), n);
  for (const double value : values) {
    if (std::isnan(value)) return bad(key, "an array with " + std::to_string(value), "numbers");
  }
  return std::optional(std::move(values));
}

Result<std::optional<std::vector<std::string_view>>> Hyperparameters::texts(const Key& key, size_t n) const {
  const std::string name = present_key(key);
  if (name.empty()) return std::optional<std::vector<std::string_view>>();
  TRY_ASSIGN(const auto listed, file_.get_strings(name));
  std::vector<std::string_view> values = listed.value_or(std::vector<std::string_view>());
  if (values.size() != n) return wrong_length(name, values.size(), n);
  return std::optional(std::move(values));
}

}  // namespace ibid
