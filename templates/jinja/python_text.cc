#include "templates/jinja/python_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid::jinja {

using namespace unicode_data;  // the Unicode tables
namespace {

void append_code_point(MarkedText& out, uint32_t c, TextOrigin origin) {
  std::string bytes;
  utf8_append(bytes, c);
  out.append(bytes, origin);
}

// Changes the case of an ASCII character, by comparisons instead of Unicode's tables.
char change_ascii(char c, CaseChange change, bool starts_word, bool starts_text) {
  const bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
  bool wants_upper = change == CaseChange::kUpper;
  if (change == CaseChange::kSwap) wants_upper = lower;
  if (change == CaseChange::kTitle) wants_upper = starts_word;
  if (change == CaseChange::kCapitalize) wants_upper = starts_text;
  if (wants_upper && lower) return static_cast<char>(c - 'a' + 'A');
  return !wants_upper && upper ? static_cast<char>(c - 'A' + 'a') : c;
}

void append_mapped(MarkedText& out, const CaseTable& table, uint32_t c, TextOrigin origin) {
  std::string bytes;
  if (!append_case_mapping(bytes, table, c)) utf8_append(bytes, c);
  out.append(bytes, origin);
}

constexpr CategorySet kUnprintable =
    category_set(GeneralCategory::Cc, GeneralCategory::Cf, GeneralCategory::Cn, GeneralCategory::Co,
                 GeneralCategory::Cs, GeneralCategory::Zl, GeneralCategory::Zp, GeneralCategory::Zs);

constexpr uint32_t kCapitalSigma = 0x3A3;
constexpr uint32_t kSmallSigma = 0x3C3;
constexpr uint32_t kFinalSigma = 0x3C2;

// Final_Sigma (Unicode 3.13): true after a cased letter, unless another cased letter follows; case-ignorable characters
// are skipped.
bool sigma_is_final(std::string_view text, size_t offset) {
  size_t before = offset;
  bool cased_before = false;
  while (before > 0) {
    do {
      --before;
    } while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80);
    const uint32_t c = utf8_decode(text, before).code_point;
    if (in_classes(c, kCaseIgnorableClass)) continue;
    cased_before = in_classes(c, kCasedClass);
    break;
  }
  if (!cased_before) return false;
  for (size_t after = offset + 2; after < text.size();) {
    const DecodedChar c = utf8_decode(text, after);
    after += c.length;
    if (!in_classes(c.code_point, kCaseIgnorableClass)) return !in_classes(c.code_point, kCasedClass);
  }
  return true;
}

void append_lower(MarkedText& out, std::string_view text, size_t offset, uint32_t c, TextOrigin origin) {
  if (c == kCapitalSigma) {
    append_code_point(out, sigma_is_final(text, offset) ? kFinalSigma : kSmallSigma, origin);
  } else {
    append_mapped(out, to_lower_table(), c, origin);
  }
}

}  // namespace

bool is_printable(uint32_t c) { return c == ' ' || !in_categories(c, kUnprintable); }
bool may_be_in_identifier(uint32_t c, bool at_start) {
  using enum GeneralCategory;
  const auto in = [c](std::initializer_list<std::pair<uint32_t, uint32_t>> ranges) {
    return std::any_of(ranges.begin(), ranges.end(), [c](const auto& r) { return c >= r.first && c <= r.second; });
  };
  // The characters of these blocks that are not allowed: NFKC maps them to characters that identifiers cannot contain
  // (UAX 31, 5.1).
  const bool presentation_form = c >= 0xFE70 && c <= 0xFE7E && c % 2 == 0;
  if (presentation_form || in({{0x37A, 0x37A}, {0x2E2F, 0x2E2F}, {0xFC5E, 0xFC63}, {0xFDFA, 0xFDFB}})) return false;
  if (in({{0x1885, 0x1886}, {0x2118, 0x2118}, {0x212E, 0x212E}})) return true;
  if (at_start) {
    return c == '_' ||
           (in_categories(c, kLetters | category_set(Nl)) && !in({{0xE33, 0xE33}, {0xEB3, 0xEB3}, {0xFF9E, 0xFF9F}}));
  }
  return in_categories(c, kLetters | category_set(Nl, Mn, Mc, Nd, Pc)) ||
         in({{0xB7, 0xB7}, {0x387, 0x387}, {0x1369, 0x1371}, {0x19DA, 0x19DA}});
}

bool is_alpha(uint32_t c) { return is_letter(c); }
bool is_decimal(uint32_t c) { return general_category(c) == GeneralCategory::Nd; }
bool is_digit(uint32_t c) { return in_classes(c, kDigitClass); }
bool is_numeric(uint32_t c) { return in_classes(c, kNumericClass); }
bool is_space(uint32_t c) { return ibid::is_space(c) || (c >= 0x1C && c <= 0x1F); }  // also U+001C to U+001F
bool is_lower(uint32_t c) { return in_classes(c, kLowerClass); }
bool is_upper(uint32_t c) { return in_classes(c, kUpperClass); }
bool is_title(uint32_t c) { return general_category(c) == GeneralCategory::Lt; }

bool has_only_case(std::string_view text, bool upper) {
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = utf8_decode(text, i);
    if (is_title(c.code_point) || (upper ? is_lower(c.code_point) : is_upper(c.code_point))) return false;
    any |= upper ? is_upper(c.code_point) : is_lower(c.code_point);
    i += c.length;
  }
  return any;
}

size_t char_length(std::string_view text, size_t offset) {
  return static_cast<unsigned char>(text[offset]) < 0x80 ? 1 : utf8_decode(text, offset).length;
}

size_t count_chars(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); i += char_length(text, i)) ++count;
  return count;
}

size_t char_offset(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += char_length(text, offset);
  return offset;
}

MarkedText change_case(const MarkedText& text, CaseChange change) {
  MarkedText out;
  const std::string_view bytes = text.view();
  size_t offset = 0, end = 0;
  bool previous_cased = false;
  for (const auto [run, origin] : text.runs()) {
    // Two halves of a character, each invalid UTF-8, may meet across runs. The character belongs to the first run.
    for (end += run.size(); offset < end;) {
      const DecodedChar decoded = utf8_decode(bytes, offset);
      const uint32_t c = decoded.code_point;
      if (c < 0x80) {
        const char changed = change_ascii(static_cast<char>(c), change, !previous_cased, offset == 0);
        out.append(std::string_view(&changed, 1), origin);
        previous_cased = (changed | 0x20) >= 'a' && (changed | 0x20) <= 'z';
        ++offset;
        continue;
      }
      if (!decoded.valid) {
        out.append(bytes.substr(offset, decoded.length), origin);
      } else if (change == CaseChange::kUpper || (change == CaseChange::kSwap && is_lower(c))) {
        append_mapped(out, to_upper_table(), c, origin);
      } else if (change == CaseChange::kFold) {
        append_mapped(out, to_folded_table(), c, origin);
      } else if (change == CaseChange::kSwap && !is_upper(c)) {
        append_code_point(out, c, origin);
      } else if ((change == CaseChange::kTitle && !previous_cased) ||
                 (change == CaseChange::kCapitalize && offset == 0)) {
        append_mapped(out, to_title_table(), c, origin);
      } else {
        append_lower(out, bytes, offset, c, origin);
      }
      previous_cased = is_lower(c) || is_upper(c) || is_title(c);
      offset += decoded.length;
    }
  }
  return out;
}

size_t leading_space(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    const DecodedChar c = utf8_decode(text, offset);
    if (!c.valid || !is_space(c.code_point)) break;
    offset += c.length;
  }
  return offset;
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const DecodedChar c = utf8_decode(text, begin);
    if (!c.valid || begin + c.length != end || !is_space(c.code_point)) break;
    end = begin;
  }
  return text.size() - end;
}

namespace {

void charge(RenderState& state, const MarkedText& text) {
  state.meter.scan(text.size());
  state.meter.create(text.size() + sizeof(MarkedText));
}

// Returns the start of the character that ends at `end`. REQUIRES: end > 0.
size_t char_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin + char_length(text, begin) == end ? begin : end - 1;
}

bool is_line_end(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

MarkedText strip(RenderState& state, const MarkedText& text, Side side) {
  charge(state, text);
  const size_t begin = side == Side::kRight ? 0 : leading_space(text.view());
  const size_t end = side == Side::kLeft ? text.size() : text.size() - trailing_space(text.view().substr(begin));
  return text.substr(begin, end);
}

MarkedText strip(RenderState& state, const MarkedText& text, Side side, std::string_view chars) {
  charge(state, text);
  const std::string_view bytes = text.view();
  const auto is_in_set = [&](size_t begin, size_t end) {
    state.meter.scan(chars.size());
    const std::string_view wanted = bytes.substr(begin, end - begin);
    for (size_t i = 0; i < chars.size(); i += char_length(chars, i)) {
      if (chars.substr(i, char_length(chars, i)) == wanted) return true;
    }
    return false;
  };
  size_t begin = 0, end = text.size();
  while (side != Side::kRight && begin < end && is_in_set(begin, begin + char_length(bytes, begin))) {
    begin += char_length(bytes, begin);
  }
  while (side != Side::kLeft && begin < end) {
    const size_t last = char_before(bytes, end);
    if (!is_in_set(last, end)) break;
    end = last;
  }
  return text.substr(begin, end);
}

MarkedText replace(RenderState& state, const MarkedText& text, std::string_view old, const MarkedText& with,
                   int64_t max) {
  charge(state, text);
  MarkedText out;
  size_t done = 0;
  const auto left = [&max] { return max < 0 || max-- > 0; };
  const auto put = [&] {
    state.meter.create(with.size());
    state.meter.check_string(out.size() + with.size());
    out.append(with);
  };
  if (old.empty()) {
    // An empty `old` is replaced between all characters and at both ends.
    for (;;) {
      if (!left()) break;
      put();
      if (done >= text.size()) break;
      const size_t next = done + char_length(text.view(), done);
      out.append(text.substr(done, next));
      done = next;
    }
  } else {
    for (size_t at = text.view().find(old); at != std::string_view::npos && left(); at = text.view().find(old, done)) {
      out.append(text.substr(done, at));
      put();
      done = at + old.size();
    }
  }
  out.append(text.substr(done, text.size()));
  return out;
}

std::vector<MarkedText> split_space(RenderState& state, const MarkedText& text, int64_t max, bool from_right) {
  charge(state, text);
  std::vector<MarkedText> parts;
  const std::string_view bytes = text.view();
  size_t begin = leading_space(bytes);
  size_t end = bytes.size() - trailing_space(bytes.substr(begin));
  // After `max` splits, the rest of the text is the last part, and keeps its white space.
  const auto cut = [&](size_t from, size_t to) {
    state.meter.create(sizeof(MarkedText));
    parts.push_back(text.substr(from, to));
  };
  if (from_right) {
    while (end > begin) {
      size_t word = end;
      if (max < 0 || static_cast<int64_t>(parts.size()) < max) {
        while (word > begin && trailing_space(bytes.substr(begin, word - begin)) == 0) word = char_before(bytes, word);
      } else {
        word = begin = 0;
      }
      cut(word, end);
      end = word - trailing_space(bytes.substr(begin, word - begin));
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  while (begin < end) {
    size_t word = begin;
    if (max < 0 || static_cast<int64_t>(parts.size()) < max) {
      while (word < end) {
        const DecodedChar c = utf8_decode(bytes, word);
        if (c.valid && is_space(c.code_point)) break;
        word += c.length;
      }
    } else {
      word = end = bytes.size();
    }
    cut(begin, word);
    begin = word + leading_space(bytes.substr(word, end - word));
  }
  return parts;
}

std::vector<MarkedText> split(RenderState& state, const MarkedText& text, std::string_view separator, int64_t max,
                              bool from_right) {
  charge(state, text);
  std::vector<MarkedText> parts;
  const auto cut = [&](size_t from, size_t to) {
    state.meter.create(sizeof(MarkedText));
    parts.push_back(text.substr(from, to));
  };
  const std::string_view bytes = text.view();
  if (!from_right) {
    size_t begin = 0;
    for (size_t at = bytes.find(separator); at != std::string_view::npos && max != 0;
         at = bytes.find(separator, begin)) {
      cut(begin, at);
      begin = at + separator.size();
      if (max > 0) --max;
    }
    cut(begin, text.size());
    return parts;
  }
  size_t end = text.size();
  while (max != 0 && end >= separator.size()) {
    const size_t at = bytes.rfind(separator, end - separator.size());
    if (at == std::string_view::npos) break;
    cut(at + separator.size(), end);
    end = at;
    if (max > 0) --max;
  }
  cut(0, end);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<MarkedText> split_lines(RenderState& state, const MarkedText& text, bool keep_ends) {
  charge(state, text);
  std::vector<MarkedText> lines;
  const std::string_view bytes = text.view();
  size_t begin = 0;
  for (size_t i = 0; i < bytes.size();) {
    const DecodedChar c = utf8_decode(bytes, i);
    size_t next = i + c.length;
    if (c.valid && is_line_end(c.code_point)) {
      if (c.code_point == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      state.meter.create(sizeof(MarkedText));
      lines.push_back(text.substr(begin, keep_ends ? next : i));
      begin = next;
    }
    i = next;
  }
  if (begin < bytes.size()) lines.push_back(text.substr(begin, bytes.size()));
  return lines;
}

namespace {

// Converts a number "d.ddde+XX", as to_chars writes it, to the form of Python's repr.
std::string lay_out(std::string_view scientific) {
  const bool negative = scientific.front() == '-';
  if (negative) scientific.remove_prefix(1);
  const size_t e = scientific.find('e');
  std::string digits(1, scientific[0]);
  if (e > 1) digits += scientific.substr(2, e - 2);
  int exponent = 0;
  const char* first = scientific.data() + e + 1;
  std::from_chars(*first == '+' ? first + 1 : first, scientific.data() + scientific.size(), exponent);

  std::string out = negative ? "-" : "";
  const int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out += "." + digits.substr(1);
    const int magnitude = std::abs(exponent);
    out += exponent < 0 ? "e-" : "e+";
    if (magnitude < 10) out += '0';
    return out + std::to_string(magnitude);
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1) return out + digits + std::string(static_cast<size_t>(exponent + 1 - n), '0') + ".0";
  return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

// Returns the text without surrounding white space, underscores and a leading plus; nullopt if an underscore is not
// between digits, or a plus is followed by another sign.
std::optional<std::string> plain_digits(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain += text[i];
      continue;
    }
    if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i + 1] == '_') return std::nullopt;
  }
  if (plain.starts_with("+-")) return std::nullopt;
  if (plain.starts_with('+')) plain.erase(0, 1);
  return plain;
}

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  return lay_out({buffer, static_cast<size_t>(end.ptr - buffer)});
}

std::string float_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return float_text(value);
}

std::string format_float(double value, int precision, char type) {
  const bool upper = type == 'E' || type == 'F' || type == 'G';
  std::string out;
  if (std::isnan(value)) {
    out = "nan";
  } else if (std::isinf(value)) {
    out = value > 0 ? "inf" : "-inf";
  } else {
    const char lower = static_cast<char>(upper ? type - 'A' + 'a' : type);
    const auto format = lower == 'e'   ? std::chars_format::scientific
                        : lower == 'f' ? std::chars_format::fixed
                                       : std::chars_format::general;
    // Reserve enough for the at most 310 digits that a double has before the point.
    out.resize(static_cast<size_t>(std::max(precision, 0)) + 330);
    const auto end = std::to_chars(out.data(), out.data() + out.size(), value, format, precision);
    out.resize(static_cast<size_t>(end.ptr - out.data()));
  }
  if (upper) {
    for (char& c : out) {
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
  }
  return out;
}

std::optional<int64_t> parse_int(std::string_view text, int base) {
  const auto plain = plain_digits(text);
  if (!plain) return std::nullopt;
  const char* first = plain->data();
  const char* last = first + plain->size();
  int64_t value = 0;
  const auto result = std::from_chars(first, last, value, base);
  if (result.ec != std::errc() || result.ptr != last) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  const auto plain = plain_digits(text);
  if (!plain) return std::nullopt;
  const char* first = plain->data();
  const char* last = first + plain->size();
  double value = 0;
  const auto result = std::from_chars(first, last, value);
  if (result.ptr != last) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    const bool negative = *first == '-';
    const size_t e = plain->find_first_of("eE");
    const bool tiny = e != std::string::npos && e + 1 < plain->size() && (*plain)[e + 1] == '-';
    const double magnitude = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    return negative ? -magnitude : magnitude;
  }
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace ibid::jinja
