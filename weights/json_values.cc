#include "weights/json_values.h"

#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/json_limits.h"
#include "weights/in_quotes.h"
#include "weights/model_json.h"

namespace ibid {

namespace {

// Where a value stands, for messages.
struct Place {
  std::string_view file, key;
};

Status wrong_type(const Place& place, const Json& value, std::string_view wanted) {
  return {ErrorCode::kBadType, std::string(place.file) + ": key " + in_quotes(place.key) + " is " +
                                   in_quotes(json_to_string(value)) + " (" + value.type_name() +
                                   "), wanted " + std::string(wanted)};
}

Status bad_number(const Place& place, const Json& value) {
  return {ErrorCode::kBadNumber, std::string(place.file) + ": key " + in_quotes(place.key) + " is " +
                                     in_quotes(json_to_string(value)) +
                                     ", wanted a whole number of at most 63 bits"};
}

Result<int64_t> as_int(const Place& place, const Json& value) {
  if (!value.is_number()) return wrong_type(place, value, "an integer");
  if (value.is_number_unsigned()) {
    const std::optional<int64_t> fits = checked_cast<int64_t>(value.get<uint64_t>());
    if (!fits) return bad_number(place, value);
    return *fits;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  const double number = value.get<double>();
  // Beyond 2^53 a double does not tell neighbouring integers apart.
  if (std::fabs(number) > 0x1p53 || number != std::trunc(number)) return bad_number(place, value);
  return static_cast<int64_t>(number);
}

Result<double> as_float(const Place& place, const Json& value) {
  if (const std::optional<double> special = non_finite(value)) return *special;
  if (!value.is_number()) return wrong_type(place, value, "a number");
  return value.get<double>();
}

Result<std::string_view> as_string(const Place& place, const Json& value) {
  if (!value.is_string()) return wrong_type(place, value, "a string");
  return std::string_view(value.get_ref<const std::string&>());
}

Result<bool> as_bool(const Place& place, const Json& value) {
  if (!value.is_boolean()) return wrong_type(place, value, "true or false");
  return value.get<bool>();
}

template <typename T>
Result<std::optional<T>> read_one(const Place& place, const Json* value,
                                  Result<T> (*as)(const Place&, const Json&)) {
  if (value == nullptr) return std::optional<T>();
  TRY_ASSIGN(T read, as(place, *value));
  return std::optional<T>(std::move(read));
}

template <typename T>
Result<std::optional<std::vector<T>>> read_all(const Place& place, const Json* value,
                                               Result<T> (*as)(const Place&, const Json&)) {
  if (value == nullptr) return std::optional<std::vector<T>>();
  if (!value->is_array()) return wrong_type(place, *value, "an array");
  std::vector<T> all;
  all.reserve(value->size());
  for (const Json& element : *value) {
    TRY_ASSIGN(T read, as(place, element));
    all.push_back(read);
  }
  return std::optional<std::vector<T>>(std::move(all));
}

const Json* member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(std::string(key));
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

const Json* JsonValues::find(std::string_view key) const {
  const Json* value = root_;
  while (value != nullptr) {
    if (const Json* whole = member(*value, key)) return whole;
    const size_t dot = key.find('.');
    if (dot == std::string_view::npos) return nullptr;
    value = member(*value, key.substr(0, dot));
    key.remove_prefix(dot + 1);
  }
  return nullptr;
}

Result<std::optional<int64_t>> JsonValues::get_int(std::string_view key) const {
  return read_one({file_, key}, find(key), as_int);
}

Result<std::optional<double>> JsonValues::get_float(std::string_view key) const {
  return read_one({file_, key}, find(key), as_float);
}

Result<std::optional<bool>> JsonValues::get_bool(std::string_view key) const {
  return read_one({file_, key}, find(key), as_bool);
}

Result<std::optional<std::string_view>> JsonValues::get_string(std::string_view key) const {
  return read_one({file_, key}, find(key), as_string);
}

Result<std::optional<std::vector<std::string_view>>> JsonValues::get_strings(std::string_view key) const {
  return read_all({file_, key}, find(key), as_string);
}

Result<std::optional<std::vector<int64_t>>> JsonValues::get_ints(std::string_view key) const {
  return read_all({file_, key}, find(key), as_int);
}

Result<std::optional<std::vector<double>>> JsonValues::get_floats(std::string_view key) const {
  return read_all({file_, key}, find(key), as_float);
}

}  // namespace ibid
