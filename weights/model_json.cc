#include "weights/model_json.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/json_members.h"
#include "base/text.h"

namespace ibid {

namespace {

constexpr char kTag[] = "__float__";

struct Word {
  std::string_view text;
  double value;
};

constexpr std::array<Word, 3> kWords = {{{"Infinity", std::numeric_limits<double>::infinity()},
                                         {"-Infinity", -std::numeric_limits<double>::infinity()},
                                         {"NaN", std::numeric_limits<double>::quiet_NaN()}}};

// Position in a text of one of the words Infinity, -Infinity and NaN, and the word.
struct Found {
  size_t at;
  std::string_view word;
};

// True if `rest`, the text after a word, ends a JSON value: end of text, blank, ',', ']' or '}'.
bool ends_word(std::string_view rest) {
  return rest.empty() || is_blank(rest[0]) || rest[0] == ',' || rest[0] == ']' || rest[0] == '}';
}

// Finds the words of kWords where JSON may have a value: after '[', ',' or ':' outside strings. The rest of the text
// may be anything.
std::vector<Found> find_words(std::string_view text, size_t at_most) {
  std::vector<Found> all;
  bool in_string = false;
  char before = '\0';  // the last byte so far that is not a blank
  for (size_t i = 0; i < text.size() && all.size() <= at_most; ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;  // skip an escaped character, which does not end the string
      in_string = c != '"';
      continue;
    }
    if (is_blank(c)) continue;
    in_string = c == '"';
    if (before == '[' || before == ',' || before == ':') {
      for (const Word& word : kWords) {
        const std::string_view rest = text.substr(i);
        if (!rest.starts_with(word.text) || !ends_word(rest.substr(word.text.size()))) continue;
        all.push_back({i, word.text});
        i += word.text.size() - 1;
        break;
      }
    }
    before = c;
  }
  return all;
}

// Replaces each of `words` (Infinity, -Infinity, NaN) by a number of the same length, so that offsets stay the same.
// The result is valid JSON if these words are all that is not JSON in the text.
std::string with_numbers(std::string text, const std::vector<Found>& words) {
  for (const Found& found : words) {
    text.replace(found.at, found.word.size(), std::string(found.word.size() - 1, ' ') + "0");
  }
  return text;
}

std::string with_objects(std::string_view text, const std::vector<Found>& words) {
  std::string out;
  size_t from = 0;
  for (const Found& found : words) {
    out.append(text, from, found.at - from);
    out.append("{\"").append(kTag).append("\":\"").append(found.word).append("\"}");
    from = found.at + found.word.size();
  }
  return out.append(text, from);
}

}  // namespace

Result<Json> parse_model_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  const bool may_have_words = text.find("Infinity") != text.npos || text.find("NaN") != text.npos;
  if (!may_have_words || text.size() > limits.max_bytes) return parse_json(text, what, limits);
  const std::vector<Found> words = find_words(text, kMaxNonFiniteWords);
  if (words.empty()) return parse_json(text, what, limits);
  if (words.size() > kMaxNonFiniteWords) {
    return Status(ErrorCode::kLimitExceeded, std::string(what) + ": more than " + std::to_string(kMaxNonFiniteWords) +
                                                 " floats that are not finite (Infinity, NaN)");
  }
  TRY(parse_json(with_numbers(std::string(text), words), what, limits).status());
  return parse_json(with_objects(text, words), what, limits);
}

std::optional<double> non_finite(const Json& value) {
  if (!value.is_object() || value.size() != 1 || value.begin().key() != kTag) return std::nullopt;
  const Json& name = value.begin().value();
  if (!name.is_string()) return std::nullopt;
  for (const Word& word : kWords) {
    if (name.get_ref<const std::string&>() == word.text) return word.value;
  }
  return std::nullopt;
}

namespace {

// Position of a value in a file, for messages.
struct Place {
  std::string_view file, key;
};

Status wrong_type(const Place& place, const Json& value, std::string_view wanted) {
  return {ErrorCode::kBadType, std::string(place.file) + ": key " + in_quotes(place.key) + " is " +
                                   in_quotes(json_to_string(value)) + " (" + value.type_name() + "), expected " +
                                   std::string(wanted)};
}

Status bad_number(const Place& place, const Json& value) {
  return {ErrorCode::kBadNumber, std::string(place.file) + ": key " + in_quotes(place.key) + " is " +
                                     in_quotes(json_to_string(value)) + ", expected a whole number of at most 63 bits"};
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
  // A double above 2^53 may be the rounded form of several integers.
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
Result<std::optional<T>> read_one(const Place& place, const Json* value, Result<T> (*as)(const Place&, const Json&)) {
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
