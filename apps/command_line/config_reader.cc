// The bytes of a config file into settings.
#include <algorithm>
#include <utility>

#include "apps/command_line/config_file.h"
#include "base/utf8.h"

namespace ibid {

namespace {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

void append_utf8(std::string& text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  const int n_more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(kLead[n_more] | c >> (6 * n_more));
  for (int i = n_more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : text_(text), config_{path, {}, {}} {}

  Result<Config> read() {
    if (!utf8_is_valid(text_)) return wrong("this is not UTF-8 text");
    take("\xEF\xBB\xBF");  // the byte order mark that some editors write
    for (;;) {
      skip_blanks_and_lines();
      if (at_end()) return std::move(config_);
      TRY(peek() == '[' ? read_table() : read_setting());
      TRY(end_line());
    }
  }

 private:
  bool at_end() const { return position_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }
  char next() {
    if (peek() == '\n') ++line_;
    return text_[position_++];
  }
  bool take(std::string_view word) {
    if (!text_.substr(position_).starts_with(word)) return false;
    for (size_t i = 0; i < word.size(); ++i) next();
    return true;
  }
  Status wrong(const std::string& what) const {
    return {ErrorCode::kBadHeader, config_.path + ":" + std::to_string(line_) + ": " + what};
  }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || (peek() == '\r' && peek(1) == '\n')) next();
    if (peek() == '#') {
      while (!at_end() && peek() != '\n') next();
    }
  }
  void skip_blanks_and_lines() {
    for (skip_blanks(); peek() == '\n'; skip_blanks()) next();
  }
  Status end_line() {
    skip_blanks();
    if (!at_end() && peek() != '\n') return wrong("there is something behind the end of the value");
    return {};
  }

  Result<std::string> read_name() {
    if (peek() == '"' || peek() == '\'') return read_string();
    std::string name;
    while (is_bare(peek())) name += next();
    if (name.empty()) return wrong("wanted `name = value` or [table]");
    return name;
  }

  Status read_table() {
    next();
    std::string table;
    do {
      skip_blanks();
      TRY_ASSIGN(const std::string part, read_name());
      table += (table.empty() ? "" : ".") + part;
      skip_blanks();
    } while (take("."));
    if (!take("]")) return wrong("the table's name has no ]");
    const auto has_name = [&](const ConfigTable& other) { return other.name == table; };
    if (std::any_of(config_.tables.begin(), config_.tables.end(), has_name)) {
      return wrong("[" + table + "] stands here for the second time");
    }
    config_.tables.push_back({table, line_});
    table_ = table;
    return {};
  }

  Status read_setting() {
    ConfigSetting setting{table_, "", {}, line_};
    TRY_ASSIGN(setting.name, read_name());
    std::replace(setting.name.begin(), setting.name.end(), '_', '-');
    skip_blanks();
    if (!take("=")) return wrong("'" + setting.name + "' has no = and no value");
    skip_blanks();
    for (const ConfigSetting& before : config_.settings) {
      if (before.table == table_ && before.name == setting.name) {
        return wrong("'" + setting.name + "' has a value already, in line " + std::to_string(before.line));
      }
    }
    if (peek() == '[') {
      TRY(read_array(setting.values));
    } else {
      TRY_ASSIGN(std::string value, read_value());
      setting.values.push_back(std::move(value));
    }
    config_.settings.push_back(std::move(setting));
    return {};
  }

  Status read_array(std::vector<std::string>& values) {
    next();
    for (;;) {
      skip_blanks_and_lines();
      if (take("]")) return {};
      if (at_end()) return wrong("the array has no ]");
      TRY_ASSIGN(std::string value, read_value());
      values.push_back(std::move(value));
      skip_blanks_and_lines();
      if (at_end()) return wrong("the array has no ]");
      if (!take(",") && peek() != ']') return wrong("wanted , or ] in the array");
    }
  }

  Result<std::string> read_value() {
    if (peek() == '"' || peek() == '\'') return read_string();
    std::string value;
    while (is_bare(peek()) || peek() == '.' || peek() == '+') value += next();
    if (value == "true" || value == "false") return value;
    std::string_view digits = value;
    digits.remove_prefix(std::min(digits.find_first_not_of("+-"), digits.size()));
    const bool number = !digits.empty() && ((digits[0] >= '0' && digits[0] <= '9') || digits[0] == '.' ||
                                            digits == "inf" || digits == "nan");
    if (!number) return wrong("wanted a value: a text in quotes, a number, true or false");
    std::erase(value, '_');
    return value;
  }

  Result<std::string> read_string() {
    const size_t began = line_;
    const char quote = peek();
    const std::string three(3, quote);
    const bool lines = take(three);
    if (!lines) next();
    if (lines) take("\r\n") || take("\n");
    std::string text;
    for (;;) {
      if (at_end() || (!lines && peek() == '\n')) {
        line_ = began;
        return wrong("the text has no closing quote");
      }
      if (lines ? take(three) : peek() == quote) {
        if (!lines) next();
        return text;
      }
      if (quote == '"' && peek() == '\\') {
        TRY(read_escape(text, lines));
      } else {
        text += next();
      }
    }
  }

  Status read_escape(std::string& text, bool lines) {
    next();
    constexpr std::string_view kNames = "btnfr\"\\", kMeans = "\b\t\n\f\r\"\\";
    const char name = peek();
    if (const size_t i = kNames.find(name); name != '\0' && i != std::string_view::npos) {
      next();
      text += kMeans[i];
      return {};
    }
    if (lines && (name == '\n' || name == '\r' || name == ' ' || name == '\t')) {  // the line goes on
      while (peek() == ' ' || peek() == '\t' || peek() == '\r' || peek() == '\n') next();
      return {};
    }
    const size_t digits = name == 'u' ? 4 : name == 'U' ? 8 : 0;
    if (digits > 0) next();
    uint32_t code = 0;
    bool good = digits > 0;
    for (size_t i = 0; good && i < digits; ++i) {
      const size_t value = std::string_view("0123456789abcdefABCDEF").find(peek());
      good = !at_end() && value != std::string_view::npos;
      if (good) code = code << 4 | static_cast<uint32_t>(value < 16 ? value : value - 6);
      if (good) next();
    }
    if (!good || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return wrong("there is no such escape");
    append_utf8(text, code);
    return {};
  }

  std::string_view text_;
  size_t position_ = 0;
  size_t line_ = 1;
  std::string table_;
  Config config_;
};

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& path) { return Reader(text, path).read(); }

}  // namespace ibid
