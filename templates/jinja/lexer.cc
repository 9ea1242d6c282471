#include "templates/jinja/lexer.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/text.h"
#include "base/utf8.h"
#include "templates/jinja/python_text.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {
namespace {

void append_checked(std::string& out, uint32_t code_point, int line) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
    fail_syntax(line, "an escape in a string is not a character");
  }
  utf8_append(out, code_point);
}

// Appends the character that an escape \xhh, \uhhhh or \Uhhhhhhhh denotes. Its `digits` hex digits begin at body[i].
void append_hex(std::string& out, std::string_view body, size_t i, size_t digits, int line) {
  uint32_t value = 0;
  for (size_t k = 0; k < digits; ++k) {
    const int digit = i + k < body.size() ? hex_digit(body[i + k]) : -1;
    if (digit < 0) fail_syntax(line, "a \\x, \\u or \\U escape in a string is cut short");
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  append_checked(out, value, line);
}

// Appends the character of an octal escape. Returns the number of its digits, at most three.
size_t append_octal(std::string& out, std::string_view body, size_t i, int line) {
  uint32_t value = 0;
  size_t n = 0;
  while (n < 3 && i + n < body.size() && body[i + n] >= '0' && body[i + n] <= '7') {
    value = value * 8 + static_cast<uint32_t>(body[i + n] - '0');
    ++n;
  }
  append_checked(out, value, line);
  return n;
}

// Returns the value of a string literal, as Python's unicode-escape codec does. `body`: the text between the quotes.
// Fails for an invalid \x, \u or \U, for \N{...}, and for escapes of invalid code points; the error names `line`.
std::string unescape(std::string_view body, int line) {
  std::string out;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 == body.size()) {
      out += body[i];
      continue;
    }
    const char c = body[++i];
    switch (c) {
      case '\n': break;  // a backslash at the end of a line continues the line
      case '\\':
      case '\'':
      case '"': out += c; break;
      case 'a': out += '\a'; break;
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'v': out += '\v'; break;
      case 'x':
        append_hex(out, body, i + 1, 2, line);
        i += 2;
        break;
      case 'u':
        append_hex(out, body, i + 1, 4, line);
        i += 4;
        break;
      case 'U':
        append_hex(out, body, i + 1, 8, line);
        i += 8;
        break;
      case 'N': fail_syntax(line, "\\N{...} in a string is not supported");
      default:
        if (c >= '0' && c <= '7') {
          i += append_octal(out, body, i, line) - 1;
        } else {
          out += '\\';
          out += c;
        }
    }
  }
  return out;
}

// Replaces \r\n and \r by \n, and drops one newline at the end.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalize_newlines(source)), source_(text_) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) lex_data();
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Token& add(TokenType type, std::string text) {
    Token token;
    token.type = type;
    token.line = line_;
    token.text = std::move(text);
    return tokens_.emplace_back(std::move(token));
  }

  // Skips `bytes` bytes, counts their line ends, and records whether the last character was a newline.
  void advance(size_t bytes) {
    const std::string_view passed = source_.substr(position_, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    position_ += bytes;
  }

  bool at(std::string_view expected) const { return source_.substr(position_).starts_with(expected); }

  // Returns the position of the first {{ {% or {# at or after `from`.
  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string_view::npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    }
    return std::string_view::npos;
  }

  // Returns the part of `data` that is kept before a tag. `sign`: the character after the tag's opening.
  std::string_view strip_before(std::string_view data, char sign, bool is_output) const {
    if (sign == '-') return data.substr(0, data.size() - trailing_space(data));
    if (sign == '+' || is_output) return data;
    const size_t newline = data.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (begin == 0 && !line_starting_) return data;
    const std::string_view last = data.substr(begin);
    return leading_space(last) == last.size() ? data.substr(0, begin) : data;
  }

  char sign_at(size_t position) const {
    if (position >= source_.size()) return 0;
    return source_[position] == '-' || source_[position] == '+' ? source_[position] : char{0};
  }

  void emit_data(std::string_view data) {
    if (!data.empty()) add(TokenType::kData, std::string(data));
  }

  void lex_data() {
    const size_t tag = find_tag(position_);
    if (tag == std::string_view::npos) {
      emit_data(source_.substr(position_));
      advance(source_.size() - position_);
      return;
    }
    const std::string_view data = source_.substr(position_, tag - position_);
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    emit_data(strip_before(data, sign, kind == '{'));
    advance(data.size() + 2 + (sign != 0 ? 1 : 0));
    if (kind == '#') return lex_comment();
    if (kind == '{') {
      add(TokenType::kOutputBegin, "{{");
      return lex_expression("}}", TokenType::kOutputEnd);
    }
    if (const auto raw = raw_tag(position_, "raw")) return lex_raw(*raw);
    add(TokenType::kBlockBegin, "{%");
    lex_expression("%}", TokenType::kBlockEnd);
  }

  void skip_space() { advance(leading_space(source_.substr(position_))); }

  // Skips white space after the end tag of a block or comment: all of it for the sign '-', one newline without a sign.
  void trim_after(char sign) {
    if (sign == '-') return skip_space();
    if (sign == 0 && at("\n")) advance(1);
  }

  void lex_comment() {
    const size_t end = source_.find("#}", position_);
    if (end == std::string_view::npos) fail_syntax(line_, "Missing end of comment tag");
    const char sign = end > position_ ? sign_at(end - 1) : char{0};
    advance(end + 2 - position_);
    trim_after(sign);
  }

  struct RawTag {
    size_t end;  // position after "%}"
    char sign;   // sign before "%}"
  };
  // Parses the rest of `{% raw %}` or `{% endraw %}` after its opening and sign. Returns nullopt for other tags.
  std::optional<RawTag> raw_tag(size_t position, std::string_view name) const {
    position += leading_space(source_.substr(position));
    if (!source_.substr(position).starts_with(name)) return std::nullopt;
    position += name.size();
    position += leading_space(source_.substr(position));
    const char sign = sign_at(position);
    if (sign != 0) ++position;
    if (!source_.substr(position).starts_with("%}")) return std::nullopt;
    return RawTag{position + 2, sign};
  }

  void lex_raw(const RawTag& open) {
    advance(open.end - position_);
    if (open.sign == '-') skip_space();
    for (size_t tag = source_.find("{%", position_); tag != std::string_view::npos; tag = source_.find("{%", tag + 2)) {
      const char sign = sign_at(tag + 2);
      const auto close = raw_tag(tag + 2 + (sign != 0 ? 1 : 0), "endraw");
      if (!close) continue;
      emit_data(strip_before(source_.substr(position_, tag - position_), sign, false));
      advance(close->end - position_);
      trim_after(close->sign);
      return;
    }
    fail_syntax(line_, "Missing end of raw directive");
  }

  void lex_expression(std::string_view closing, TokenType end_type) {
    std::string open;  // closing brackets that are still expected
    for (;;) {
      skip_space();
      if (position_ >= source_.size()) fail_syntax(line_, "unexpected end of template");
      if (open.empty() && lex_closing(closing, end_type)) return;
      if (lex_number() || lex_name() || lex_string()) continue;
      lex_operator(open);
    }
  }

  bool lex_closing(std::string_view closing, TokenType end_type) {
    const bool is_block = end_type == TokenType::kBlockEnd;
    char sign = sign_at(position_);
    if (sign == '+' && !is_block) sign = 0;
    if (!source_.substr(position_ + (sign != 0 ? 1 : 0)).starts_with(closing)) return false;
    add(end_type, std::string(closing));
    advance(closing.size() + (sign != 0 ? 1 : 0));
    if (is_block) {
      trim_after(sign);
    } else if (sign == '-') {
      skip_space();
    }
    return true;
  }

  // Length of the digits (\d+_)*\d+ at `position`; 0 if no digit is there.
  size_t digits(size_t position) const {
    size_t end = position;
    while (end < source_.size() &&
           (is_decimal_digit(source_[end]) || (source_[end] == '_' && end > position && end + 1 < source_.size() &&
                                               is_decimal_digit(source_[end + 1])))) {
      ++end;
    }
    return end - position;
  }

  bool lex_number() {
    if (!is_decimal_digit(source_[position_])) return false;
    const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
    size_t end = position_ + digits(position_);
    bool is_float = false;
    if (!after_dot && end < source_.size() && source_[end] == '.' && digits(end + 1) > 0) {
      is_float = true;
      end += 1 + digits(end + 1);
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
      if (const size_t exponent = digits(end + 1 + sign); exponent > 0) {
        is_float = true;
        end += 1 + sign + exponent;
      }
    }
    if (is_float) {
      const std::string_view text = source_.substr(position_, end - position_);
      Token& token = add(TokenType::kFloat, std::string(text));
      token.number = parse_float(text).value_or(0);
      advance(text.size());
      return true;
    }
    return lex_integer(end);
  }

  bool lex_integer(size_t end) {
    int base = 10;
    size_t begin = position_;
    if (source_[position_] == '0' && position_ + 1 < source_.size()) {
      const char x = static_cast<char>(source_[position_ + 1] | 0x20);
      base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
    }
    if (base != 10) {
      begin += 2;
      end = begin;
      const std::string_view allowed = std::string_view("0123456789abcdefABCDEF_")
                                           .substr(0, base == 16 ? std::string_view::npos : static_cast<size_t>(base));
      while (end < source_.size() && allowed.find(source_[end]) != std::string_view::npos) ++end;
    } else if (source_[begin] == '0') {
      end = begin;  // "012" is split into 0 and 12, as in Jinja
      while (end < source_.size() && source_[end] == '0') ++end;
    }
    const auto value = parse_int(source_.substr(begin, end - begin), base);
    if (!value) fail_syntax(line_, "integers beyond 64 bits are not supported");
    Token& token = add(TokenType::kInteger, std::string(source_.substr(position_, end - position_)));
    token.integer = *value;
    advance(end - position_);
    return true;
  }

  bool lex_name() {
    size_t end = position_;
    while (end < source_.size()) {
      const DecodedChar c = utf8_decode(source_, end);
      if (!c.valid || (c.code_point != '_' && !is_alnum(c.code_point))) break;
      end += c.length;
    }
    if (end == position_) return false;
    add(TokenType::kName, std::string(source_.substr(position_, end - position_)));
    advance(end - position_);
    return true;
  }

  bool lex_string() {
    const char quote = source_[position_];
    if (quote != '\'' && quote != '"') return false;
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_syntax(line_, "a string that starts here does not end");
    add(TokenType::kString, unescape(source_.substr(position_ + 1, end - position_ - 1), line_));
    advance(end + 1 - position_);
    return true;
  }

  void lex_operator(std::string& open) {
    static constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view op : kOperators) {
      if (!at(op)) continue;
      const char c = op[0];
      if (c == '{' || c == '(' || c == '[') open += c == '{' ? '}' : c == '(' ? ')' : ']';
      if (c == '}' || c == ')' || c == ']') {
        if (open.empty()) fail_syntax(line_, "unexpected '" + std::string(op) + "'");
        if (open.back() != c) {
          fail_syntax(line_, "unexpected '" + std::string(op) + "', expected '" + std::string(1, open.back()) + "'");
        }
        open.pop_back();
      }
      add(TokenType::kOperator, std::string(op));
      advance(op.size());
      return;
    }
    const size_t length = char_length(source_, position_);
    fail_syntax(line_, "unexpected char '" + utf8_sanitize(source_.substr(position_, length)) + "' at byte " +
                           std::to_string(position_));
  }

  const std::string text_;
  const std::string_view source_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kData: return "template data / text";
    case TokenType::kOutputBegin: return "begin of print statement";
    case TokenType::kOutputEnd: return "end of print statement";
    case TokenType::kBlockBegin: return "begin of statement block";
    case TokenType::kBlockEnd: return "end of statement block";
    case TokenType::kEnd: return "end of template";
    default: return token.text;
  }
}

TokenStream::Nesting::Nesting(TokenStream& tokens) : tokens_(tokens) {
  // Allow four levels for each parenthesis, because several of the rules that parse a parenthesis count a level.
  if (++tokens.depth_ > 4 * tokens.max_depth_) {
    fail_budget("template line " + std::to_string(tokens.current().line) + ": nested deeper than " +
                std::to_string(tokens.max_depth_) + " (budget: depth)");
  }
}

bool TokenStream::is_operator(const Token& token, std::string_view text) {
  return token.type == TokenType::kOperator && token.text == text;
}

bool TokenStream::is_name(const Token& token, std::string_view text) {
  return token.type == TokenType::kName && token.text == text;
}

bool TokenStream::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  next();
  return true;
}

bool TokenStream::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  next();
  return true;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_here("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

void TokenStream::expect_name(std::string_view text) {
  if (!skip_name(text)) fail_here("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

std::string TokenStream::expect_any_name() {
  if (!at_type(TokenType::kName)) fail_here("expected token 'name', got '" + describe(current()) + "'");
  std::string name = current().text;
  next();
  return name;
}

void TokenStream::expect_type(TokenType type) {
  if (!at_type(type)) {
    Token wanted;
    wanted.type = type;
    fail_here("expected token '" + describe(wanted) + "', got '" + describe(current()) + "'");
  }
  next();
}

void TokenStream::fail_here(const std::string& message) const { fail_syntax(current().line, message); }

}  // namespace ibid::jinja
