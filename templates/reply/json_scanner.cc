#include "templates/reply/json_scanner.h"

#include "base/json_limits.h"
#include "base/text.h"
#include "base/utf8.h"

namespace ibid {
namespace {

const size_t kMaxOpen = JsonLimits().max_depth;  // parse_json() rejects deeper values

bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

JsonScanner::State JsonScanner::push(char c) {
  const State state = take(c);
  if (state != State::kBad) ++n_taken_;
  return state;
}

JsonScanner::State JsonScanner::take(char c) {
  switch (expected_) {
    case Expected::kInString:
    case Expected::kEscaped:
    case Expected::kHex: return in_string(c);
    case Expected::kNumber: return in_number(c);
    case Expected::kWord:
      if (c != word_.front()) return bad();
      word_.remove_prefix(1);
      return word_.empty() ? (++n_taken_, end_value(), --n_taken_, state_) : state_;
    default: break;
  }
  if (expected_ != Expected::kBegin && is_json_space(c)) return state_;
  switch (expected_) {
    case Expected::kBegin: return c == '{' ? open(c) : bad();
    case Expected::kFirstElement:
      if (c == ']') return close(c);
      return begin_value(c);
    case Expected::kValue: return begin_value(c);
    case Expected::kFirstKey:
      if (c == '}') return close(c);
      [[fallthrough]];
    case Expected::kKey:
      if (c != '"') return bad();
      is_key_ = true;
      if (open_.size() == 1) members_.push_back({.key_begin = n_taken_});
      return go_on(Expected::kInString);
    case Expected::kColon: return c == ':' ? go_on(Expected::kValue) : bad();
    default: break;
  }
  if (c == '}' || c == ']') return close(c);
  if (c != ',') return bad();
  return go_on(open_.back() == '{' ? Expected::kKey : Expected::kValue);
}

JsonScanner::State JsonScanner::begin_value(char c) {
  if (open_.size() == 1 && open_.back() == '{') members_.back().value_begin = n_taken_;
  if (c == '{' || c == '[') return open(c);
  if (c == '"') {
    is_key_ = false;
    return go_on(Expected::kInString);
  }
  if (c == 't' || c == 'f' || c == 'n') {
    word_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    return go_on(Expected::kWord);
  }
  if (c != '-' && !is_decimal_digit(c)) return bad();
  digits_ = c == '-' ? Digits::kMinus : c == '0' ? Digits::kZero : Digits::kWhole;
  return go_on(Expected::kNumber);
}

JsonScanner::State JsonScanner::in_string(char c) {
  if (expected_ == Expected::kHex) {
    if (hex_digit(c) < 0) return bad();
    return --n_hex_ == 0 ? go_on(Expected::kInString) : state_;
  }
  if (expected_ == Expected::kEscaped) {
    if (c == 'u') {
      n_hex_ = 4;
      return go_on(Expected::kHex);
    }
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    return kEscapes.find(c) == kEscapes.npos ? bad() : go_on(Expected::kInString);
  }
  if (c == '\\') return go_on(Expected::kEscaped);
  if (c == '"') return end_string();
  return static_cast<unsigned char>(c) < 0x20 ? bad() : state_;
}

JsonScanner::State JsonScanner::end_string() {
  ++n_taken_;
  if (!is_key_) {
    end_value();
  } else {
    if (open_.size() == 1) members_.back().key_end = n_taken_;
    go_on(Expected::kColon);
  }
  --n_taken_;
  return state_;
}

// A number has no end mark: it ends before the first byte that cannot continue it, and this byte is then processed by
// itself.
JsonScanner::State JsonScanner::in_number(char c) {
  const bool digit = is_decimal_digit(c);
  switch (digits_) {
    case Digits::kMinus:
      if (!digit) return bad();
      digits_ = c == '0' ? Digits::kZero : Digits::kWhole;
      return state_;
    case Digits::kPoint:
      if (!digit) return bad();
      digits_ = Digits::kFraction;
      return state_;
    case Digits::kE:
      if (c == '+' || c == '-') {
        digits_ = Digits::kSign;
        return state_;
      }
      [[fallthrough]];
    case Digits::kSign:
      if (!digit) return bad();
      digits_ = Digits::kExponent;
      return state_;
    default: break;
  }
  if (digit) return digits_ == Digits::kZero ? bad() : state_;
  if (c == '.' && (digits_ == Digits::kZero || digits_ == Digits::kWhole)) {
    digits_ = Digits::kPoint;
    return state_;
  }
  if ((c == 'e' || c == 'E') && digits_ != Digits::kExponent) {
    digits_ = Digits::kE;
    return state_;
  }
  end_value();
  return take(c);
}

// n_taken_ is the index of the first byte after the value.
JsonScanner::State JsonScanner::end_value() {
  if (open_.size() == 1 && open_.back() == '{') members_.back().value_end = n_taken_;
  return go_on(Expected::kNext);
}

JsonScanner::State JsonScanner::open(char brace) {
  if (open_.size() == kMaxOpen) return bad();
  open_.push_back(brace);
  return go_on(brace == '{' ? Expected::kFirstKey : Expected::kFirstElement);
}

JsonScanner::State JsonScanner::close(char brace) {
  if (open_.back() != (brace == '}' ? '{' : '[')) return bad();
  open_.pop_back();
  if (open_.empty()) return state_ = State::kDone;
  ++n_taken_;
  end_value();
  --n_taken_;
  return state_;
}

namespace {

constexpr size_t kMaxLooseDepth = 60;  // maximum nesting; below the limit of parse_json()

bool is_loose_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_loose_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_loose_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_json(std::string_view text) { return parse_json(text, "a value").ok(); }

// Converts a value in loose notation to JSON. Used once; its functions return false if the text is not such a value.
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
      if (!first && take(close)) break;  // Python allows a trailing comma
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
    const bool has_quote = !notation_.quote.empty();
    size_t end = text_.find_first_of(has_quote ? ",{}[]" : ",{}[]():= \n\t\r", at_);
    if (end == text_.npos) end = text_.size();
    const std::string_view word = trim(text_.substr(at_, end - at_));
    at_ = end;
    if (word == "True" || word == "true" || word == "TRUE") return out_ += "true", true;
    if (word == "False" || word == "false" || word == "FALSE") return out_ += "false", true;
    if (word == "None" || word == "null") return out_ += "null", true;
    if (word.empty()) return false;
    if (is_json(word)) return out_ += word, true;
    if (!has_quote) return false;
    out_ += json_string(word);  // the model omitted the quotes
    return true;
  }

  bool at_own_quote() const { return !notation_.quote.empty() && text_.substr(at_).starts_with(notation_.quote); }

  // True if a string begins here. Models also write the quotes of JSON if the notation has other quotes.
  bool at_quote() const {
    if (at_ == text_.size()) return false;
    return at_own_quote() || text_[at_] == '"' || (notation_.quote.empty() && text_[at_] == '\'');
  }

  bool read_string() {
    if (at_own_quote()) {
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
    if (n_digits == 0) return value += '\\', value += c, true;  // Python keeps the backslash of an unknown escape
    uint32_t code = 0, low = 0;
    if (!read_hex(n_digits, code)) return false;
    // JSON writes a character beyond U+FFFF as two escapes, a surrogate pair.
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
      const int value = hex_digit(digit);
      if (value < 0) return false;
      code = code * 16 + static_cast<uint32_t>(value);
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
  if (c == '"' || (c == '\'' && quote.empty())) {
    in_quote_ = c;
  } else if (!quote.empty() && c == quote.front()) {
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
  if (in_quote_.size() == 1 && rest.front() == '\\') {
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
  // The tool's schema decides about the type; only without a schema the notation does.
  if (is_string.has_value() && *is_string) {
    if (types.string || !types.any()) return json_string(text);
    is_string.reset();
  }
  const bool is_string_type = types.string && !types.other;
  const std::string_view value = trim(text);
  if (is_string.has_value() && is_string_type && !(is_json(value) && value.front() == '"')) is_string.reset();
  if (types.boolean && !types.string && (value == "TRUE" || value == "FALSE"))
    return value == "TRUE" ? "true" : "false";
  if (!is_string.has_value() && is_string_type && !(types.null && (value == "null" || value == "None"))) {
    return json_string(text);
  }
  // If no schema restricts the type, a JSON string in the text counts as text that contains quotes.
  const bool may_be_string = !is_string.has_value() && (types.string || !types.any());
  if (is_json(value) && !(may_be_string && value.front() == '"')) return std::string(value);
  static const LooseNotation kPython;
  LooseReader reader(value, kPython);
  const bool quoted = !value.empty() && (value.front() == '\'' || value.front() == '"');
  if (!(may_be_string && quoted) && reader.read_value_alone()) return std::move(reader).json();
  return json_string(text);
}

}  // namespace ibid
