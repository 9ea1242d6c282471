#include "tokenizer/loading/json_document.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/loading/tokenizer_builder.h"

namespace ibid {

// Finds the lists of vocabulary and merges in the text, and reads them. Accepts only lists that parse_json() would
// accept. Skips the rest of the text, which the caller then passes to parse_json(). Every function returns false if it
// meets unknown syntax.
class JsonListReader {
 public:
  JsonListReader(std::string_view text, JsonDocument& out)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()), out_(out) {}

  bool run() {
    return members([this](std::string_view key) {
      if (key != "model" || !is_at('{')) return skip_value();
      return members([this](std::string_view name) {
        if (name == "vocab") {
          out_.has_scores_ = !is_at('{');
          return cut(out_.has_scores_ ? &JsonListReader::scores : &JsonListReader::ids);
        }
        return name == "merges" ? cut(&JsonListReader::merges) : skip_value();
      });
    });
  }

  // Returns the document's text, with null in place of each list that was read separately.
  std::string rest() const {
    std::string out;
    const char* copied = begin_;
    for (const auto& [from, to] : cuts_) {
      out.append(copied, from).append("null");
      copied = to;
    }
    return out.append(copied, end_);
  }

 private:
  bool is_at(char c) const { return at_ != end_ && *at_ == c; }
  bool take(char c) {
    if (!is_at(c)) return false;
    ++at_;
    return true;
  }
  void spaces() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  // Reads one structural character and the white space around it.
  bool mark(char c) {
    spaces();
    if (!take(c)) return false;
    spaces();
    return true;
  }

  // Reads {"key": value, ...}. Calls value(key) to read each value.
  template <typename Value>
  bool members(Value value) {
    if (!mark('{')) return false;
    if (take('}')) return true;
    do {
      std::string_view key;
      if (!string(key) || !mark(':') || !value(key)) return false;
    } while (mark(','));
    return take('}');
  }

  // Reads [element, ...]. Calls element() to read each element.
  template <typename Element>
  bool elements(Element element) {
    if (!mark('[')) return false;
    if (take(']')) return true;
    do {
      if (!element()) return false;
    } while (mark(','));
    return take(']');
  }

  bool cut(bool (JsonListReader::*list)()) {
    const char* const from = at_;
    if (!(this->*list)()) return false;
    cuts_.emplace_back(from, at_);
    return true;
  }

  // Reserves memory for the most rows that the remaining bytes can encode. Reserved memory that is never written costs
  // nothing.
  template <typename Row>
  std::vector<Row>& reserve_rows(std::optional<std::vector<Row>>& rows) {
    rows.emplace().reserve(std::min(static_cast<size_t>(end_ - at_) / 16, VocabularyLimits::kMaxTokens));
    return *rows;
  }

  // Reads the vocabulary of BPE: {"text": id, ...}
  bool ids() {
    std::vector<VocabularyEntry>& rows = reserve_rows(out_.vocabulary_);
    return members([&](std::string_view text) {
      uint32_t id = 0;
      const auto [after, error] = std::from_chars(at_, end_, id);
      const bool zeros = is_at('0') && after != at_ + 1;
      if (error != std::errc() || zeros || id >= VocabularyLimits::kMaxTokens || is_number_part(after)) return false;
      at_ = after;
      rows.push_back({text, static_cast<TokenId>(id)});
      return rows.size() <= VocabularyLimits::kMaxTokens;
    });
  }

  // Reads the vocabulary of Unigram: [["text", score], ...]
  bool scores() {
    std::vector<VocabularyEntry>& rows = reserve_rows(out_.vocabulary_);
    return elements([&] {
      VocabularyEntry row{{}, static_cast<TokenId>(rows.size())};
      if (!mark('[') || !string(row.text) || !mark(',') || !number(row.score) || !mark(']')) return false;
      rows.push_back(row);
      return rows.size() <= VocabularyLimits::kMaxTokens;
    });
  }

  // Reads merges: ["left right", ...] or [["left", "right"], ...]
  bool merges() {
    std::vector<TextMerge>& rows = reserve_rows(out_.merges_);
    return elements([&] {
      TextMerge row;
      if (is_at('[')) {
        if (!mark('[') || !string(row.left) || !mark(',') || !string(row.right) || !mark(']')) return false;
      } else {
        std::string_view both;
        if (!string(both)) return false;
        const size_t space = both.find(' ');
        if (space == both.npos || both.find(' ', space + 1) != both.npos) return false;
        row = {both.substr(0, space), both.substr(space + 1)};
      }
      rows.push_back(row);
      return rows.size() <= VocabularyLimits::kMaxMerges;
    });
  }

  bool is_number_part(const char* at) const {
    return at != end_ && std::string_view("0123456789.eE-+").find(*at) != std::string_view::npos;
  }

  // Reads a number in JSON's notation; from_chars() alone would also accept "inf", "01" and ".5".
  bool number(double& value) {
    const char* const from = at_;
    const auto digits = [this] {
      const char* const first = at_;
      while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
      return at_ != first;
    };
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      if (!digits()) return false;
    }
    const auto [after, error] = std::from_chars(from, at_, value);
    return error == std::errc() && after == at_ && !is_number_part(at_);
  }

  bool string(std::string_view& out) {
    if (!take('"')) return false;
    const char* const from = at_;
    unsigned char all = 0;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\') {
      const auto byte = static_cast<unsigned char>(*at_++);
      if (byte < 0x20) return false;
      all |= byte;
    }
    if (at_ == end_) return false;
    if (*at_ == '\\') return escaped_string(from, out);
    out = {from, static_cast<size_t>(at_ - from)};
    ++at_;
    return all < 0x80 || utf8_is_valid(out);
  }

  // Reads the rest of a string, from its first escape on.
  bool escaped_string(const char* from, std::string_view& out) {
    std::string text(from, at_);
    while (at_ != end_ && *at_ != '"') {
      const auto byte = static_cast<unsigned char>(*at_++);
      if (byte < 0x20) return false;
      if (byte != '\\') {
        text += static_cast<char>(byte);
      } else if (!escape(text)) {
        return false;
      }
    }
    if (!take('"') || !utf8_is_valid(text)) return false;
    out = out_.unescaped_.emplace_back(std::move(text));
    return true;
  }

  bool escape(std::string& text) {
    if (at_ == end_) return false;
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kBytes = "\"\\/\b\f\n\r\t";
    const char letter = *at_++;
    if (const size_t which = kEscapes.find(letter); which != kEscapes.npos) {
      text += kBytes[which];
      return true;
    }
    uint32_t high = 0, low = 0;
    if (letter != 'u' || !four_digits(high)) return false;
    if (high >= 0xD800 && high < 0xE000) {
      if (high >= 0xDC00 || !take('\\') || !take('u') || !four_digits(low)) return false;
      if (low < 0xDC00 || low >= 0xE000) return false;
      high = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    utf8_append(text, high);
    return true;
  }

  bool four_digits(uint32_t& value) {
    if (end_ - at_ < 4) return false;
    const auto [after, error] = std::from_chars(at_, at_ + 4, value, 16);
    const bool all = error == std::errc() && after == at_ + 4;
    at_ += 4;
    return all;
  }

  // Skips a value of any kind; checks only its brackets and strings.
  bool skip_value() {
    size_t depth = 0;
    do {
      spaces();
      if (at_ == end_) return false;
      const char c = *at_;
      if (c == '"') {
        if (!skip_string()) return false;
      } else if (c == '{' || c == '[') {
        ++depth, ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return false;
        --depth, ++at_;
      } else if (c == ',' || c == ':') {
        if (depth == 0) return false;
        ++at_;
      } else {
        while (at_ != end_ && std::string_view(" \n\t\r\"{}[],:").find(*at_) == std::string_view::npos) ++at_;
      }
    } while (depth > 0);
    return true;
  }

  bool skip_string() {
    for (++at_; at_ != end_ && *at_ != '"'; ++at_) {
      if (*at_ == '\\' && ++at_ == end_) return false;
    }
    return take('"');
  }

  const char* const begin_;
  const char* at_;
  const char* const end_;
  JsonDocument& out_;
  std::vector<std::pair<const char*, const char*>> cuts_;
};

Result<JsonDocument> JsonDocument::parse_whole(std::string_view text, std::string_view name) {
  JsonDocument out;
  TRY_ASSIGN(out.root_, parse_json(text, name));
  return out;
}

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view name) {
  JsonDocument out;
  JsonListReader reader(text, out);
  if (text.size() > JsonLimits().max_bytes || !reader.run()) return parse_whole(text, name);
  Result<Json> rest = parse_json(reader.rest(), name);
  if (!rest.ok()) return parse_whole(text, name);
  out.root_ = std::move(rest).value();
  return out;
}

}  // namespace ibid
