#include "templates/jinja/format_spec.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/utf8.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/format.h"
#include "templates/jinja/number_text.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

std::string in_base(uint64_t value, unsigned base) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), kDigits[value % base]);
    value /= base;
  } while (value != 0);
  return digits;
}

void group_digits(std::string& digits, char separator) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (size_t at = whole; at > 3;) {
    at -= 3;
    digits.insert(at, 1, separator);
  }
}

// Digits of |value|, without sign and grouping; `prefix` is 0x and the like.
std::string integer_digits(int64_t value, const FormatSpec& spec, std::string& prefix) {
  const uint64_t magnitude = value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  switch (spec.type) {
    case 'x':
    case 'X':
    case 'o':
    case 'b': {
      const char lower = static_cast<char>(spec.type | 0x20);
      if (spec.alternate) prefix = std::string("0") + spec.type;
      std::string digits = in_base(magnitude, lower == 'x' ? 16 : lower == 'o' ? 8 : 2);
      if (spec.type == 'X') {
        for (char& c : digits) c = static_cast<char>(c >= 'a' ? c - 'a' + 'A' : c);
      }
      return digits;
    }
    default: return std::to_string(magnitude);
  }
}

std::string float_digits(double magnitude, const FormatSpec& spec) {
  const int precision = static_cast<int>(std::min<int64_t>(spec.precision.value_or(6), 10'000));
  if (spec.type == '%') return format_float(magnitude * 100, precision, 'f') + "%";
  if (spec.type != 0) {
    const bool general = spec.type == 'g' || spec.type == 'G';
    return format_float(magnitude, general ? std::max(precision, 1) : precision, spec.type);
  }
  return spec.precision ? format_float(magnitude, std::max(precision, 1), 'g') : float_text(magnitude);
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  FormatSpec spec;
  size_t i = 0;
  const size_t first = text.empty() ? 0 : char_length(text, 0);
  if (first < text.size() && is_align(text[first])) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    i = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    i = 1;
  }
  const auto at = [&](std::string_view chars) {
    return i < text.size() && chars.find(text[i]) != std::string_view::npos;
  };
  const auto number = [&] {
    int64_t n = 0;
    for (; at("0123456789"); ++i) {
      n = n * 10 + (text[i] - '0');
      if (n > INT32_MAX) fail_budget("a width in a format string is too large (budget: bytes)");
    }
    return n;
  };
  if (at("+- ")) spec.sign = text[i++];
  if (at("#")) spec.alternate = true, ++i;
  if (at("0")) spec.zero = true, ++i;
  spec.width = number();
  if (at(",_")) spec.grouping = text[i++];
  if (at(".")) {
    ++i;
    if (!at("0123456789")) fail("Format specifier missing precision");
    spec.precision = number();
  }
  if (i < text.size()) spec.type = text[i++];
  if (i != text.size()) fail("Invalid format specifier '" + std::string(text) + "'");
  return spec;
}

MarkedText format_text(RenderState& state, const MarkedText& text, const FormatSpec& spec) {
  const size_t end =
      spec.precision ? char_offset(text.view(), static_cast<size_t>(*spec.precision)) : text.size();
  const MarkedText cut = text.substr(0, end);
  const char align = spec.align == 0 || spec.align == '=' ? '<' : spec.align;
  // str.format centres with the odd character on the right, str.center decides by parity.
  if (align == '^') {
    const auto missing = spec.width - static_cast<int64_t>(count_chars(cut.view()));
    const MarkedText left = pad(state, cut, spec.width - (missing + 1) / 2, '>', spec.fill);
    return pad(state, left, spec.width, '<', spec.fill);
  }
  return pad(state, cut, spec.width, align, spec.fill);
}

MarkedText format_number(RenderState& state, const Value& value, const FormatSpec& spec) {
  if (spec.type == 'c') {
    std::string text;
    const int64_t c = value.is_integral() ? value.as_int() : -1;
    if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) fail("%c arg not in range(0x110000)");
    utf8_append(text, static_cast<uint32_t>(c));
    // A character chosen by a number that may be anybody's.
    return format_text(state, MarkedText(std::move(text), TextOrigin::kInput), spec);
  }
  const bool as_float =
      value.is(Kind::kFloat) ||
      (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos);
  if (spec.type != 0 && std::string_view("dxXobeEfFgG%n").find(spec.type) == std::string_view::npos) {
    fail("Unknown format code '" + std::string(1, spec.type) + "' for a number");
  }
  if (value.is(Kind::kFloat) && spec.type != 0 &&
      std::string_view("dxXob").find(spec.type) != std::string_view::npos) {
    fail("Unknown format code '" + std::string(1, spec.type) + "' for object of type 'float'");
  }
  std::string prefix;
  const bool negative = as_float ? std::signbit(value.as_double()) : value.as_int() < 0;
  std::string digits = as_float ? float_digits(std::abs(value.as_double()), spec)
                                : integer_digits(value.as_int(), spec, prefix);
  if (!as_float && spec.precision && static_cast<int64_t>(digits.size()) < *spec.precision) {
    state.meter.check_string(static_cast<uint64_t>(*spec.precision));
    digits.insert(0, static_cast<size_t>(*spec.precision) - digits.size(), '0');
  }
  if (spec.grouping != 0) group_digits(digits, spec.grouping);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const char align = spec.align != 0 && !(spec.zero && spec.align == '>') ? spec.align
                     : spec.zero                                          ? '='
                                                                          : '>';
  const std::string fill = spec.zero && spec.fill == " " ? "0" : spec.fill;
  MarkedText text(sign + prefix, TextOrigin::kTemplate);
  if (align == '=') {
    text.append(pad(state, MarkedText(std::move(digits), TextOrigin::kTemplate),
                    spec.width - static_cast<int64_t>(text.size()), '>', fill));
    return text;
  }
  text.append(digits, TextOrigin::kTemplate);
  FormatSpec outer = spec;
  outer.align = align;
  outer.precision.reset();
  return format_text(state, text, outer);
}

}  // namespace ibid::jinja
