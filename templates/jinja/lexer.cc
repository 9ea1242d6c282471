#include "templates/jinja/lexer.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/number_text.h"
#include "templates/jinja/string_literal.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

// \r\n and \r become \n; one newline at the end is dropped.
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

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

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

  // Moves on, counting lines and remembering whether the last character was a newline.
  void advance(size_t bytes) {
    const std::string_view passed = source_.substr(position_, bytes);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    position_ += bytes;
  }

  bool at(std::string_view expected) const { return source_.substr(position_).starts_with(expected); }

  // The first of {{ {% {# at or after `from`.
  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string_view::npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    }
    return std::string_view::npos;
  }

  // What of `data` stays before a tag with this sign after its opening.
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

  // After a block's or comment's closing: '-' takes all white space, no sign takes one newline.
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
    size_t end;  // behind "%}"
    char sign;   // before it
  };
  // `{% raw %}` or `{% endraw %}` whose opening (sign included) ends at `position`.
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
    for (size_t tag = source_.find("{%", position_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 2)) {
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
    std::string open;  // brackets that wait for their partner
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

  // Bytes of (\d+_)*\d+ at `position`, 0 when there is no digit.
  size_t digits(size_t position) const {
    size_t end = position;
    while (end < source_.size() &&
           (is_ascii_digit(source_[end]) || (source_[end] == '_' && end > position &&
                                             end + 1 < source_.size() && is_ascii_digit(source_[end + 1])))) {
      ++end;
    }
    return end - position;
  }

  bool lex_number() {
    if (!is_ascii_digit(source_[position_])) return false;
    const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
    size_t end = position_ + digits(position_);
    bool is_float = false;
    if (!after_dot && end < source_.size() && source_[end] == '.' && digits(end + 1) > 0) {
      is_float = true;
      end += 1 + digits(end + 1);
    }
    if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign =
          end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
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
      const std::string_view allowed =
          std::string_view("0123456789abcdefABCDEF_")
              .substr(0, base == 16 ? std::string_view::npos : static_cast<size_t>(base));
      while (end < source_.size() && allowed.find(source_[end]) != std::string_view::npos) ++end;
    } else if (source_[begin] == '0') {
      end = begin;  // "012" is 0 and then 12, as in Jinja
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
          fail_syntax(line_,
                      "unexpected '" + std::string(op) + "', expected '" + std::string(1, open.back()) + "'");
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

}  // namespace ibid::jinja
