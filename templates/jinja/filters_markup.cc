// Filters for URLs and attributes, and of sizes in words.
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "templates/jinja/arguments.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/filters.h"
#include "templates/jinja/number_text.h"
#include "templates/jinja/unicode_text.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
namespace {

// A part of a URL; in a query a slash is quoted and a space is +.
std::string quote(RenderState& state, const Value& value, bool in_query) {
  constexpr std::string_view kPlain = "_.-~", kDigits = "0123456789ABCDEF";
  const MarkedText text = str(state, value);
  state.meter.create(3 * text.size());
  std::string out;
  for (const char c : text.bytes()) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x80 && is_alnum(byte)) || kPlain.find(c) != kPlain.npos || (c == '/' && !in_query)) {
      out += c;
    } else if (c == ' ' && in_query) {
      out += '+';
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

Value do_urlencode(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "urlencode", {});
  RenderState& state = in.state();
  const TextOrigin origin = origin_of(subject);
  if (subject.is_string() || !is_iterable(subject)) return Value::text(quote(state, subject, false), origin);
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    out += quote(state, key, true) + '=' + quote(state, value, true);
    state.meter.check_string(out.size());
  };
  if (subject.is_dict()) {
    for (size_t i = 0; i < dict_size(subject); ++i) {
      const auto [key, value] = dict_entry(subject, i);
      add(key, value);
    }
    return Value::text(std::move(out), origin);
  }
  for (const Value& pair : iterate(state, subject)) {
    if (!is_iterable(pair)) fail("cannot unpack non-iterable " + std::string(type_name(pair)) + " object");
    const Items items = iterate(state, pair);
    if (items.size() != 2) fail("urlencode needs pairs, got " + std::to_string(items.size()) + " values");
    add(items[0], items[1]);
  }
  return Value::text(std::move(out), origin);
}

void check_attribute_name(const Value& key) {
  if (!key.is_string()) fail("expected string or bytes-like object, got '" + std::string(type_name(key)) + "'");
  const std::string_view name = key.bytes();
  for (size_t i = 0; i < name.size();) {
    const DecodedChar c = utf8_decode(name, i);
    if (name[i] == '/' || name[i] == '>' || name[i] == '=' || (c.valid && is_space(c.code_point))) {
      fail("Invalid character in attribute name: '" + std::string(name) + "'");
    }
    i += c.length;
  }
}

Value do_xmlattr(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "xmlattr", {"autospace"});
  if (subject.is_undefined()) fail(subject.undefined_message());
  if (!subject.is_dict()) fail("'" + std::string(type_name(subject)) + "' object has no attribute 'items'");
  RenderState& state = in.state();
  const auto escaped = [&state](const Value& value) {
    const MarkedText text = str(state, value);
    state.meter.create(5 * text.size());
    return value.is_markup() ? text : escape_html(text);
  };
  MarkedText out;
  for (size_t i = 0; i < dict_size(subject); ++i) {
    const auto [key, value] = dict_entry(subject, i);
    if (value.is_none() || value.is_undefined()) continue;
    check_attribute_name(key);
    if (!out.empty() || parameters.flag(state, 0, true)) out.append(" ", TextOrigin::kTemplate);
    out.append(escaped(key));
    out.append("=\"", TextOrigin::kTemplate);
    out.append(escaped(value));
    out.append("\"", TextOrigin::kTemplate);
    state.meter.check_string(out.size());
  }
  return Value::string(std::move(out));
}

Value do_filesizeformat(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "filesizeformat", {"binary"});
  if (subject.is_undefined()) fail(subject.undefined_message());
  const std::optional<double> number = subject.is_string()   ? parse_float(subject.bytes())
                                       : subject.is_number() ? std::optional(subject.as_double())
                                                             : std::nullopt;
  if (!number) fail("could not convert " + std::string(type_name(subject)) + " to float");
  const bool binary = parameters.flag(in.state(), 0, false);
  const double base = binary ? 1024 : 1000;
  if (*number == 1) return Value::text("1 Byte");
  if (*number < base) {
    if (*number <= -9.2e18) fail("integers beyond 64 bits are not supported");
    return Value::text(std::to_string(static_cast<int64_t>(*number)) + " Bytes");
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  size_t i = 0;
  double unit = base * base;
  for (; !(*number < unit) && i + 1 < kPrefixes.size(); ++i) unit *= base;
  const char prefix = binary && i == 0 ? 'K' : kPrefixes[i];
  return Value::text(format_float(base * *number / unit, 1, 'f') + ' ' + prefix + (binary ? "iB" : "B"));
}

constexpr NamedFilter kMarkupFilters[] = {
    {"urlencode", do_urlencode},
    {"xmlattr", do_xmlattr},
    {"filesizeformat", do_filesizeformat},
};

}  // namespace

Filter find_markup_filter(std::string_view name) {
  for (const NamedFilter& entry : kMarkupFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace ibid::jinja
