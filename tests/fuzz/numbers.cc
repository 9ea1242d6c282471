// Numbers of templates: a printed float is parsed to the same bits, and texts that are not numbers are rejected.
#include <bit>
#include <cmath>

#include "base/check.h"
#include "templates/jinja/python_text.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

void numbers(Input input) {
  Script script(input);
  const double value = script.number<double>();
  const std::string text = jinja::float_text(value);
  const auto read = jinja::parse_float(text);
  CHECK(read.has_value()) << text;
  CHECK(std::isnan(value) ? std::isnan(*read) : std::bit_cast<uint64_t>(*read) == std::bit_cast<uint64_t>(value))
      << text;
  constexpr char kTypes[] = {'e', 'f', 'g', 'E', 'F', 'G'};
  const char type = script.pick(kTypes);
  CHECK(!jinja::format_float(value, static_cast<int>(script.below(30)), type).empty());
  const int base = static_cast<int>(script.below(37));
  const std::string_view rest = text_of(script.rest());
  if (const auto whole = jinja::parse_int(rest, 10)) {
    CHECK(jinja::parse_int(std::to_string(*whole), 10) == whole) << rest;
  }
  if (base != 1) (void)jinja::parse_int(rest, base);
  if (const auto real = jinja::parse_float(rest)) {
    CHECK(std::isnan(*real) || jinja::parse_float(jinja::float_text(*real)) == real) << rest;
  }
}

}  // namespace ibid::fuzz
