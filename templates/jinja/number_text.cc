#include "templates/jinja/number_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

// "d.ddde+XX" as to_chars writes it, laid out as Python's repr does.
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

// Without surrounding white space, underscores and a leading plus; nullopt where an underscore is not between digits or
// a plus is followed by another sign.
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
    // 310 digits before the point at most.
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
