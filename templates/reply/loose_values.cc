#include "templates/reply/loose_values.h"

#include "base/json_limits.h"
#include "base/utf8.h"

namespace ibid {
namespace {

constexpr size_t kMaxLooseDepth = 60;  // within what parse_json() takes

bool is_loose_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_loose_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_loose_space(text.back())) text.remove_suffix(1);
  return text;
}

// Whether the text is one JSON value.
bool is_json(std::string_view text) { return parse_json(text, "a value").ok(); }

// Reads a value of loose notation and writes it as JSON. One use; false: it is none.
class LooseReader {
 public:
  LooseReader(std::string_view text, const LooseNotation& notation) : text_(text), notation_(notation) {}

  bool read_whole() {
    if (!take(notation_.open) || !read_members(notation_.close, notation_.separator, 1)) return false;
    skip_spaces();
    return at_ == text_.size();
  }
  bool read_value_alone() { return read_value(1) && (skip_spaces(), at_ == text_.size()); }
  std::string json() && { return std::move(out_); }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && is_loose_space(text_[at_])) ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool read_members(char close, char separator, size_t depth) {
    out_ += '{';
    for (bool first = true; !take(close); first = false) {
      if (!first && !take(',')) return false;
      if (!first && take(close)) break;  // Python allows a comma there
      if (!first) out_ += ", ";
      if (!read_key(separator) || !take(separator)) return false;
      out_ += ": ";
      if (!read_value(depth)) return false;
    }
    out_ += '}';
    return true;
  }

  bool read_elements(char close, size_t depth) {
    out_ += '[';
    for (bool first = true; !take(close); first = false) {
      if (!first && !take(',')) return false;
      if (!first && take(close)) break;
      if (!first) out_ += ", ";
      if (!read_value(depth)) return false;
    }
    out_ += ']';
    return true;
  }

  bool read_key(char separator) {
    skip_spaces();
    if (at_quote()) return read_string();
    const size_t end = text_.find(separator, at_);
    if (end == text_.npos || end == at_) return false;
    const std::string_view key = trim(text_.substr(at_, end - at_));
    if (key.find_first_of("{}[](),\"'\n") != key.npos) return false;
    out_ += json_string(key);
    at_ = end;
    return true;
  }

  bool read_value(size_t depth) {
    if (depth > kMaxLooseDepth) return false;
    skip_spaces();
    if (at_quote()) return read_string();
    if (take('{')) return read_members('}', ':', depth + 1);
    if (take('[')) return read_elements(']', depth + 1);
    if (take('(')) return read_elements(')', depth + 1);
    return read_word();
  }

  bool read_word() {
    size_t end = text_.find_first_of(",{}[]():= \n\t\r", at_);
    if (end == text_.npos) end = text_.size();
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    if (word == "True" || word == "true") return out_ += "true", true;
    if (word == "False" || word == "false") return out_ += "false", true;
    if (word == "None" || word == "null") return out_ += "null", true;
    if (word.empty() || !is_json(word)) return false;
    out_ += word;
    return true;
  }

  bool at_quote() const {
    if (at_ == text_.size()) return false;
    if (!notation_.quote.empty()) return text_.substr(at_).starts_with(notation_.quote);
    return text_[at_] == '"' || text_[at_] == '\'';
  }

  bool read_string() {
    if (!notation_.quote.empty()) {
      at_ += notation_.quote.size();
      const size_t end = text_.find(notation_.quote, at_);
      if (end == text_.npos) return false;
      out_ += json_string(text_.substr(at_, end - at_));
      at_ = end + notation_.quote.size();
      return true;
    }
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] != '\\') {
        value += text_[at_++];
      } else if (!read_escape(value)) {
        return false;
      }
    }
    if (!take(std::string_view(&quote, 1))) return false;
    out_ += json_string(value);
    return true;
  }

  bool read_escape(std::string& value) {
    if (++at_ == text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "ntrbf'\"\\/", kMeanings = "\n\t\r\b\f'\"\\/";
    if (const size_t i = kNames.find(c); i != kNames.npos) return value += kMeanings[i], true;
    const size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_digits == 0) return value += '\\', value += c, true;  // Python keeps what it does not know
    uint32_t code = 0, low = 0;
    if (!read_hex(n_digits, code)) return false;
    // JSON writes characters beyond the first plane as two.
    if (c == 'u' && code >= 0xD800 && code < 0xDC00 && take("\\u")) {
      if (!read_hex(4, low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    utf8_append(value, code);
    return true;
  }

  bool read_hex(size_t n_digits, uint32_t& code) {
    const std::string_view digits = text_.substr(at_, n_digits);
    for (const char digit : digits) {
      const size_t one = std::string_view("0123456789abcdef").find(static_cast<char>(digit | 0x20));
      if (one == std::string_view::npos) return false;
      code = code * 16 + static_cast<uint32_t>(one);
    }
    at_ += n_digits;
    return digits.size() == n_digits;
  }

  const std::string_view text_;
  const LooseNotation& notation_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string json_string(std::string_view text) { return json_to_string(Json(std::string(text))); }

std::optional<std::string> loose_object_json(std::string_view text, const LooseNotation& notation) {
  LooseReader reader(text, notation);
  if (!reader.read_whole()) return std::nullopt;
  return std::move(reader).json();
}

// --- LooseScanner

LooseScanner::State LooseScanner::scan(std::string_view text) {
  while (state_ == State::kOpen && n_taken_ < text.size()) {
    if (!in_quote_.empty()) {
      if (!skip_string(text)) return state_;
      continue;
    }
    const char c = text[n_taken_];
    if (c == '{' || c == '[' || c == '(') {
      if (open_.size() == kMaxLooseDepth) return state_ = State::kBad;
      open_ += c == '{' ? '}' : c == '[' ? ']' : ')';
    } else if (open_.empty()) {
      return state_ = State::kBad;
    } else if (c == '}' || c == ']' || c == ')') {
      if (open_.back() != c) return state_ = State::kBad;
      open_.pop_back();
      if (open_.empty()) state_ = State::kDone;
    } else if (!begin_string(text)) {
      return state_;
    }
    if (in_quote_.empty()) ++n_taken_;
  }
  return state_;
}

bool LooseScanner::begin_string(std::string_view text) {
  const char c = text[n_taken_];
  const std::string& quote = notation_.quote;
  if (quote.empty()) {
    if (c == '"' || c == '\'') in_quote_ = c;
  } else if (c == quote.front()) {
    const std::string_view rest = text.substr(n_taken_, quote.size());
    if (!std::string_view(quote).starts_with(rest)) return true;
    if (rest.size() < quote.size()) return false;
    in_quote_ = quote;
  }
  n_taken_ += in_quote_.size();
  return true;
}

bool LooseScanner::skip_string(std::string_view text) {
  const std::string_view rest = text.substr(n_taken_);
  if (notation_.quote.empty() && rest.front() == '\\') {
    if (rest.size() < 2) return false;
    n_taken_ += 2;
  } else if (rest.starts_with(in_quote_)) {
    n_taken_ += in_quote_.size();
    in_quote_.clear();
  } else if (std::string_view(in_quote_).starts_with(rest)) {
    return false;
  } else {
    ++n_taken_;
  }
  return true;
}

// --- values between markers

std::string marked_value_json(std::string_view text, const AllowedTypes& types, std::optional<bool> is_string) {
  if (is_string.has_value() && *is_string) return json_string(text);
  const bool says_string = types.string && !types.other;
  const std::string_view value = trim(text);
  if (!is_string.has_value() && says_string && !(types.null && (value == "null" || value == "None"))) {
    return json_string(text);
  }
  // Without a schema, what looks like a JSON string is a text that has quotes.
  const bool may_be_string = !is_string.has_value() && (types.string || !types.any());
  if (is_json(value) && !(may_be_string && value.front() == '"')) return std::string(value);
  static const LooseNotation kPython;
  LooseReader reader(value, kPython);
  const bool quoted = !value.empty() && (value.front() == '\'' || value.front() == '"');
  if (!(may_be_string && quoted) && reader.read_value_alone()) return std::move(reader).json();
  return json_string(text);
}

}  // namespace ibid
