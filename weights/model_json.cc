#include "weights/model_json.h"

#include <array>
#include <limits>
#include <string>
#include <vector>

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

// One of the words in a text.
struct Found {
  size_t at;
  std::string_view word;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Whether what follows a word ends it: the end of a value, or blanks.
bool ends_word(std::string_view rest) {
  return rest.empty() || is_blank(rest[0]) || rest[0] == ',' || rest[0] == ']' || rest[0] == '}';
}

// The words outside strings that stand where a value does, behind '[', ',' or ':'. Whether the text around them is JSON
// is not looked at here.
std::vector<Found> find_words(std::string_view text, size_t at_most) {
  std::vector<Found> all;
  bool in_string = false;
  char before = '\0';  // the last byte that is no blank
  for (size_t i = 0; i < text.size() && all.size() <= at_most; ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;  // whatever is escaped does not end the string
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

// `text` with a number of the same length for each word: as good JSON as the text is, with the same offsets.
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

}  // namespace ibid
