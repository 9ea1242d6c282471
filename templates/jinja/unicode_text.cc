#include "templates/jinja/unicode_text.h"

#include <algorithm>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid::jinja {

using namespace unicode_data;  // the tables
namespace {

void append_code_point(MarkedText& out, uint32_t c, TextOrigin origin) {
  std::string bytes;
  utf8_append(bytes, c);
  out.append(bytes, origin);
}

// ASCII, where Unicode's tables and a comparison say the same.
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

// Unicode 3.13, Final_Sigma: after a cased letter and not before one, case-ignorable characters aside.
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
  // NFKC turns these into what no identifier holds (UAX 31, 5.1).
  const bool presentation_form = c >= 0xFE70 && c <= 0xFE7E && c % 2 == 0;
  if (presentation_form || in({{0x37A, 0x37A}, {0x2E2F, 0x2E2F}, {0xFC5E, 0xFC63}, {0xFDFA, 0xFDFB}})) return false;
  if (in({{0x1885, 0x1886}, {0x2118, 0x2118}, {0x212E, 0x212E}})) return true;
  if (at_start) {
    return c == '_' || (in_categories(c, kLetters | category_set(Nl)) &&
                        !in({{0xE33, 0xE33}, {0xEB3, 0xEB3}, {0xFF9E, 0xFF9F}}));
  }
  return in_categories(c, kLetters | category_set(Nl, Mn, Mc, Nd, Pc)) ||
         in({{0xB7, 0xB7}, {0x387, 0x387}, {0x1369, 0x1371}, {0x19DA, 0x19DA}});
}

bool is_alpha(uint32_t c) { return is_letter(c); }
bool is_decimal(uint32_t c) { return general_category(c) == GeneralCategory::Nd; }
bool is_digit(uint32_t c) { return in_classes(c, kDigitClass); }
bool is_numeric(uint32_t c) { return in_classes(c, kNumericClass); }
bool is_space(uint32_t c) { return ibid::is_space(c) || (c >= 0x1C && c <= 0x1F); }  // with the ASCII separators
bool is_lower(uint32_t c) { return in_classes(c, kLowerClass); }
bool is_upper(uint32_t c) { return in_classes(c, kUpperClass); }
bool is_title(uint32_t c) { return general_category(c) == GeneralCategory::Lt; }

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
    // Two invalid halves may make a character across the border of runs: it counts for the first.
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

}  // namespace ibid::jinja
