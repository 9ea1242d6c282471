#include "templates/jinja/format.h"

#include <algorithm>
#include <cmath>

#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/format_spec.h"
#include "templates/jinja/number_text.h"
#include "templates/jinja/unicode_text.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
namespace {

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
    // Python counts every value that can be subscripted as a mapping, and a mapping need not be used.
    const bool is_mapping = arguments_.is_dict() || arguments_.is_list() || arguments_.is(Kind::kRange) ||
                            arguments_.is_undefined();
    const bool left_over = arguments_.is_tuple() ? next_ < arguments_.sequence_object().items.size()
                                                 : !is_mapping && !used_single_;
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
      if (n > INT32_MAX) fail_budget("a width in a format string is too large (budget: bytes)");
    }
    return n;
  }

  void conversion() {
    ++position_;  // '%'
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
      fail("%" + std::string(1, type) + " format: a real number is required, not " +
           std::string(type_name(value)));
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

MarkedText pad(RenderState& state, const MarkedText& text, int64_t width, char align,
                 std::string_view fill, TextOrigin fill_origin) {
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

}  // namespace ibid::jinja
