#include "templates/jinja/operations.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/utf8.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/python_text.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {
namespace {

// Python's format specification: [[fill]align][sign][#][0][width][,][.precision][type].
struct FormatSpec {
  std::string fill = " ";
  char align = 0;   // '<' '>' '^' '='; 0: the default of the value's type
  char sign = '-';  // '-': only for negative numbers; '+': always; ' ': a space for positive numbers
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  char grouping = 0;  // ',' or '_'
  std::optional<int64_t> precision;
  char type = 0;
};

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

// Returns the digits of |value| without sign and grouping; sets `prefix` to "0x" or another prefix of the base.
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
      if (n > INT32_MAX) fail_budget("a width in a format string exceeds 2147483647 (budget: bytes)");
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
  const size_t end = spec.precision ? char_offset(text.view(), static_cast<size_t>(*spec.precision)) : text.size();
  const MarkedText cut = text.substr(0, end);
  const char align = spec.align == 0 || spec.align == '=' ? '<' : spec.align;
  // If the number of fill characters is odd, str.format puts the extra one on the right. pad() puts it where str.center
  // does, so pad the two sides separately.
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
    // The number may come from a message, so the character with this code counts as input.
    return format_text(state, MarkedText(std::move(text), TextOrigin::kInput), spec);
  }
  const bool as_float = value.is(Kind::kFloat) ||
                        (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos);
  if (spec.type != 0 && std::string_view("dxXobeEfFgG%n").find(spec.type) == std::string_view::npos) {
    fail("Unknown format code '" + std::string(1, spec.type) + "' for a number");
  }
  if (value.is(Kind::kFloat) && spec.type != 0 && std::string_view("dxXob").find(spec.type) != std::string_view::npos) {
    fail("Unknown format code '" + std::string(1, spec.type) + "' for object of type 'float'");
  }
  std::string prefix;
  const bool negative = as_float ? std::signbit(value.as_double()) : value.as_int() < 0;
  std::string digits =
      as_float ? float_digits(std::abs(value.as_double()), spec) : integer_digits(value.as_int(), spec, prefix);
  if (!as_float && spec.precision && static_cast<int64_t>(digits.size()) < *spec.precision) {
    state.meter.check_string(static_cast<uint64_t>(*spec.precision));
    digits.insert(0, static_cast<size_t>(*spec.precision) - digits.size(), '0');
  }
  if (spec.grouping != 0) group_digits(digits, spec.grouping);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const char align = spec.align != 0 && !(spec.zero && spec.align == '>') ? spec.align : spec.zero ? '=' : '>';
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

class PercentFormatter {
 public:
  PercentFormatter(RenderState& state, const Value& format, const Value& arguments)
      : state_(state), format_(format.as_string()), arguments_(arguments), markup_(format.is_markup()) {}

  MarkedText run() {
    const std::string_view text = format_.view();
    state_.meter.scan(text.size());
    while (position_ < text.size()) {
      const size_t percent = std::min(text.find('%', position_), text.size());
      out_.append(format_.substr(position_, percent));
      position_ = percent;
      if (position_ < text.size()) conversion();
      state_.meter.check_string(out_.size());
    }
    // Python accepts every subscriptable value as a mapping, and does not fail if the format leaves a mapping unused.
    const bool is_mapping =
        arguments_.is_dict() || arguments_.is_list() || arguments_.is(Kind::kRange) || arguments_.is_undefined();
    const bool left_over =
        arguments_.is_tuple() ? next_ < arguments_.sequence_object().items.size() : !is_mapping && !used_single_;
    if (left_over) fail("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char peek() const {
    if (position_ >= format_.size()) fail("incomplete format");
    return format_.bytes()[position_];
  }

  Value next_argument() {
    if (arguments_.is_tuple()) {
      if (next_ >= arguments_.sequence_object().items.size()) fail("not enough arguments for format string");
      return arguments_.sequence_object().items[next_++];
    }
    if (used_single_) fail("not enough arguments for format string");
    used_single_ = true;
    return arguments_;
  }

  Value keyed_argument() {
    const size_t close = format_.bytes().find(')', position_);
    if (close == std::string::npos) fail("incomplete format key");
    const std::string key = format_.bytes().substr(position_ + 1, close - position_ - 1);
    position_ = close + 1;
    if (!arguments_.is_dict()) fail("format requires a mapping");
    auto value = dict_find(state_, arguments_, key);
    if (!value) fail("'" + key + "'");
    return std::move(*value);
  }

  std::optional<int64_t> number() {
    if (peek() == '*') {
      ++position_;
      const Value value = next_argument();
      if (!value.is_integral()) fail("* wants int");
      return value.as_int();
    }
    if (peek() < '0' || peek() > '9') return std::nullopt;
    int64_t n = 0;
    for (; peek() >= '0' && peek() <= '9'; ++position_) {
      n = n * 10 + (peek() - '0');
      if (n > INT32_MAX) fail_budget("a width in a format string exceeds 2147483647 (budget: bytes)");
    }
    return n;
  }

  void conversion() {
    ++position_;  // skips '%'
    FormatSpec spec;
    spec.align = '>';
    std::optional<Value> keyed;
    if (peek() == '(') keyed = keyed_argument();
    bool left = false, zero = false;
    for (;; ++position_) {
      const char flag = peek();
      if (flag == '-')
        left = true;
      else if (flag == '0')
        zero = true;
      else if (flag == '+')
        spec.sign = '+';
      else if (flag == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (flag == '#')
        spec.alternate = true;
      else
        break;
    }
    if (const auto width = number()) {
      left |= *width < 0;
      spec.width = std::abs(*width);
    }
    if (peek() == '.') {
      ++position_;
      spec.precision = std::max<int64_t>(number().value_or(0), 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++position_;
    const char type = peek();
    ++position_;
    if (type == '%') return out_.append("%", TextOrigin::kTemplate);
    if (left) spec.align = '<';
    spec.zero = zero && !left;
    put(type, keyed ? *keyed : next_argument(), spec);
  }

  void put(char type, const Value& value, FormatSpec& spec) {
    switch (type) {
      case 's':
      case 'r':
      case 'a': {
        MarkedText text = type == 's' ? str(state_, value) : repr(state_, value);
        if (markup_ && !value.is_markup()) text = escape_html(text);
        spec.zero = false;
        return out_.append(format_text(state_, text, spec));
      }
      case 'd':
      case 'i':
      case 'u': spec.type = 'd'; break;
      case 'x':
      case 'X':
      case 'o':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': spec.type = type; break;
      case 'c':
        if (value.is_string() && count_chars(value.bytes()) == 1)
          return out_.append(format_text(state_, value.as_string(), spec));
        spec.type = 'c';
        break;
      default: fail("unsupported format character '" + std::string(1, type) + "'");
    }
    if (!value.is_number()) {
      fail("%" + std::string(1, type) + " format: a real number is required, not " + std::string(type_name(value)));
    }
    const bool to_int = spec.type == 'd' && value.is(Kind::kFloat);
    if (to_int && !(std::abs(value.as_double()) < 9.2e18)) fail("cannot convert float to integer");
    const Value number = to_int ? Value::integer(static_cast<int64_t>(value.as_double())) : value;
    out_.append(format_number(state_, number, spec));
  }

  RenderState& state_;
  const MarkedText& format_;
  const Value& arguments_;
  bool markup_;
  size_t position_ = 0;
  size_t next_ = 0;
  bool used_single_ = false;
  MarkedText out_;
};

}  // namespace

Value format_percent(RenderState& state, const Value& format, const Value& arguments) {
  MarkedText text = PercentFormatter(state, format, arguments).run();
  return Value::string(under_format(format, std::move(text)), format.is_markup());
}

MarkedText under_format(const Value& format, MarkedText text) {
  if (format.as_string().safe_origin() == TextOrigin::kTemplate) return text;
  return MarkedText(text.bytes(), TextOrigin::kInput);
}

MarkedText pad(RenderState& state, const MarkedText& text, int64_t width, char align, std::string_view fill,
               TextOrigin fill_origin) {
  const auto size = static_cast<int64_t>(count_chars(text.view()));
  if (width <= size) return text;
  const auto missing = static_cast<uint64_t>(width - size);
  state.meter.check_string(missing * fill.size() + text.size());
  state.meter.create(missing * fill.size() + text.size());
  uint64_t left = 0;
  if (align == '>') left = missing;
  if (align == '^') left = missing / 2 + (missing & static_cast<uint64_t>(width) & 1);
  std::string before, after;
  for (uint64_t i = 0; i < missing; ++i) (i < left ? before : after).append(fill);
  MarkedText out(std::move(before), fill_origin);
  out.append(text);
  out.append(after, fill_origin);
  return out;
}

// --- str.format: '{} {0} {name.attribute[key]!r:>8}'.

namespace {

class BraceFormatter {
 public:
  BraceFormatter(Evaluator& evaluator, const Value& format, const Arguments& arguments)
      : in_(evaluator), state_(evaluator.state()), format_(format.as_string()), arguments_(arguments) {}

  MarkedText run() {
    const std::string_view text = format_.view();
    state_.meter.scan(text.size());
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t brace = std::min(text.find_first_of("{}", begin), text.size());
      out_.append(format_.substr(begin, brace));
      if (brace == text.size()) break;
      const bool doubled = brace + 1 < text.size() && text[brace + 1] == text[brace];
      if (doubled) {
        out_.append(format_.substr(brace, brace + 1));
        begin = brace + 2;
        continue;
      }
      if (text[brace] == '}') fail("Single '}' encountered in format string");
      const size_t close = text.find('}', brace);
      if (close == std::string_view::npos) fail("expected '}' before end of string");
      field(text.substr(brace + 1, close - brace - 1));
      state_.meter.check_string(out_.size());
      begin = close + 1;
    }
    return std::move(out_);
  }

 private:
  void field(std::string_view text) {
    if (text.find('{') != std::string_view::npos) fail("nested fields in a format are not supported");
    const size_t colon = std::min(text.find(':'), text.size());
    std::string_view name = text.substr(0, colon);
    const FormatSpec spec = parse_format_spec(colon < text.size() ? text.substr(colon + 1) : std::string_view());
    char conversion = 0;
    if (const size_t bang = name.rfind('!'); bang != std::string_view::npos) {
      if (bang + 2 != name.size()) fail("expected ':' after conversion specifier");
      conversion = name[bang + 1];
      name = name.substr(0, bang);
    }
    const Value value = resolve(name);
    if (conversion == 0 && value.is_number() && !value.is(Kind::kBool))
      return out_.append(format_number(state_, value, spec));
    if (conversion == 'r' || conversion == 'a') return out_.append(format_text(state_, repr(state_, value), spec));
    if (conversion != 0 && conversion != 's') fail("Unknown conversion specifier " + std::string(1, conversion));
    out_.append(format_text(state_, str(state_, value), spec));
  }

  // Resolves a name: "first", then any number of ".attribute" and "[key]".
  Value resolve(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, end));
    for (size_t i = end; i < name.size();) {
      const bool is_key = name[i] == '[';
      const size_t stop = is_key ? name.find(']', i) : std::min(name.find_first_of(".[", i + 1), name.size());
      if (stop == std::string_view::npos) fail("Missing ']' in format string");
      const std::string part(name.substr(i + 1, stop - i - 1));
      if (part.empty()) fail("Empty attribute in format string");
      const auto index = is_key ? parse_int(part) : std::nullopt;
      value =
          !is_key ? in_.attribute(value, part) : in_.item(value, index ? Value::integer(*index) : Value::text(part));
      i = is_key ? stop + 1 : stop;
    }
    return value;
  }

  Value first(std::string_view name) {
    const bool is_number = name.empty() || name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_number) {
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      fail("'" + std::string(name) + "'");
    }
    (name.empty() ? automatic_ : manual_) = true;
    if (automatic_ && manual_) fail("cannot switch between manual field specification and automatic field numbering");
    const auto given = name.empty() ? std::optional<int64_t>(next_++) : parse_int(name);
    if (!given || *given >= static_cast<int64_t>(arguments_.positional.size())) {
      fail("Replacement index out of range for positional args tuple");
    }
    return arguments_.positional[static_cast<size_t>(*given)];
  }

  Evaluator& in_;
  RenderState& state_;
  const MarkedText& format_;
  const Arguments& arguments_;
  int64_t next_ = 0;
  bool automatic_ = false, manual_ = false;  // the format has {} (automatic numbering), or {0} (manual numbering)
  MarkedText out_;
};

}  // namespace

Value format_braces(Evaluator& evaluator, const Value& format, const Arguments& arguments) {
  MarkedText text = BraceFormatter(evaluator, format, arguments).run();
  return Value::string(under_format(format, std::move(text)), format.is_markup());
}

}  // namespace ibid::jinja
