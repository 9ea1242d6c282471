// Typed reads from config.json under the rules of ModelFile's getters: a missing key and null are nullopt,
// another type is kBadType, a number that does not fit is kBadNumber. Keys may be dotted paths into nested
// objects ("rope_scaling.factor"); a key that has the dot itself comes first. A float may be infinite or NaN
// (model_json.h): who asks for floats looks whether they are in range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace ibid {

// Not owning: `root` (may be null: then every key is missing) and `file`, the name for messages, must outlive
// it.
class JsonValues {
 public:
  JsonValues(const Json* root, std::string_view file) : root_(root), file_(file) {}

  // nullptr when the key is missing or null.
  const Json* find(std::string_view key) const;

  // A float with an integral value, such as 4096.0, is an integer; 1.5 is kBadNumber.
  Result<std::optional<int64_t>> get_int(std::string_view key) const;
  Result<std::optional<double>> get_float(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> get_string(std::string_view key) const;
  Result<std::optional<std::vector<std::string_view>>> get_strings(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const;
  Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const;

 private:
  const Json* root_;
  std::string_view file_;
};

}  // namespace ibid
