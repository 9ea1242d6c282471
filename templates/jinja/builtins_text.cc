// Filters that return text or numbers, and the methods of str.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "templates/jinja/builtins.h"
#include "templates/jinja/operations.h"
#include "templates/jinja/python_text.h"

namespace ibid::jinja {
namespace {

// Returns the subject of a filter, of any type, as text.
MarkedText text_of(const Call& c) { return str(c.state, c.subject); }

template <CaseChange kChange>
Value recased(const Call& c, const MarkedText& text) {
  c.state.meter.create(text.size());
  c.state.meter.scan(kCaseCost * text.size());
  return Value::string(change_case(text, kChange), c.subject.is_markup());
}

Value stripped(const Call& c, const MarkedText& text, Side side) {
  return Value::string(c.has_value(0) ? strip(c.state, text, side, c.string(0).view()) : strip(c.state, text, side),
                       c.subject.is_markup());
}

// Jinja's own title(): a word begins after white space or one of - ( { [ <; an apostrophe does not end a word.
Value title(const Call& c) {
  const MarkedText text = text_of(c);
  c.state.meter.create(2 * text.size());
  c.state.meter.scan(kCaseCost * text.size());
  const std::string_view bytes = text.view();
  MarkedText out;
  size_t begin = 0;  // start of the word
  const auto end_word = [&](size_t end) {
    if (begin == end) return;
    const size_t first = begin + char_length(bytes, begin);
    out.append(change_case(text.substr(begin, first), CaseChange::kUpper));
    out.append(change_case(text.substr(first, end), CaseChange::kLower));
  };
  for (size_t i = 0; i < bytes.size();) {
    const DecodedChar next = utf8_decode(bytes, i);
    const bool is_bracket = next.length == 1 && std::string_view("-({[<").find(bytes[i]) != std::string_view::npos;
    if (next.valid && (is_space(next.code_point) || is_bracket)) {
      end_word(i);
      out.append(text.substr(i, i + next.length));
      begin = i + next.length;
    }
    i += next.length;
  }
  end_word(bytes.size());
  return Value::string(std::move(out), c.subject.is_markup());
}

Value indent(const Call& c) {
  if (c.subject.is_undefined()) fail(c.subject.undefined_message());
  if (!c.subject.is_string()) fail("indent needs a string, not " + std::string(type_name(c.subject)));
  MarkedText unit;
  if (c.has(0) && c.at(0).is_string()) {
    unit = c.string(0);
  } else {
    const int64_t width = std::max<int64_t>(c.integer(0, 4), 0);
    c.state.meter.check_string(static_cast<uint64_t>(width));
    unit = MarkedText(std::string(static_cast<size_t>(width), ' '), TextOrigin::kTemplate);
  }
  const bool first = c.flag(1, false), blank = c.flag(2, false);
  MarkedText text = c.subject.as_string();
  text.append("\n", TextOrigin::kTemplate);  // the text ends in a newline, after which an empty last line is kept
  const auto lines = split_lines(c.state, text, false);
  MarkedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) out.append("\n", TextOrigin::kTemplate);
    if (i == 0 ? first : blank || !lines[i].empty()) {
      c.state.meter.create(unit.size());
      c.state.meter.check_string(out.size() + unit.size());
      out.append(unit);
    }
    out.append(lines[i]);
  }
  return Value::string(std::move(out), c.subject.is_markup());
}

Value escaped(const Call& c) {
  const MarkedText text = text_of(c);
  c.state.meter.create(text.size() * 5);
  return Value::string(escape_html(text), true);
}

Value truncate(const Call& c) {
  const MarkedText end = c.has(2) ? c.string(2) : MarkedText("...", TextOrigin::kTemplate);
  const int64_t length = c.integer(0, 255), leeway = c.integer_or_none(3, 5);
  const auto end_chars = static_cast<int64_t>(count_chars(end.view()));
  if (length < end_chars) {
    fail("expected length >= " + std::to_string(end_chars) + ", got " + std::to_string(length));
  }
  if (leeway < 0) fail("expected leeway >= 0");
  if (static_cast<int64_t>(jinja::length(c.state, c.subject)) - length <= leeway) return c.subject;
  if (!c.subject.is_string()) fail("truncate needs a string, not " + std::string(type_name(c.subject)));
  const MarkedText& text = c.subject.as_string();
  MarkedText cut = text.substr(0, char_offset(text.view(), static_cast<size_t>(length - end_chars)));
  if (!c.flag(1, false)) cut = split(c.state, cut, " ", 1, true)[0];
  cut.append(end);
  return Value::string(std::move(cut));
}

Value wordcount(const Call& c) {
  const MarkedText text = text_of(c);
  int64_t words = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar next = utf8_decode(text.view(), i);
    const bool is_word = next.valid && (next.code_point == '_' || is_alnum(next.code_point));
    if (is_word && !inside) ++words;
    inside = is_word;
    i += next.length;
  }
  return Value::integer(words);
}

Value format(const Call& c) {
  const Arguments& args = c.arguments;
  if (!args.positional.empty() && !args.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  const Value text = Value::string(text_of(c), c.subject.is_markup());
  if (args.named.empty()) return format_percent(c.state, text, Value::tuple(args.positional));
  DictBuilder dict(c.state);
  for (const auto& [name, value] : args.named) dict.set(Value::text(name, args.name_origin), value);
  return format_percent(c.state, text, dict.build());
}

std::optional<double> to_double(const Value& value) {
  if (value.is_number()) return value.as_double();
  if (value.is_string()) return parse_float(value.bytes());
  return std::nullopt;
}

Value to_int(const Call& c) {
  if (c.subject.is_undefined()) fail(c.subject.undefined_message());
  if (c.subject.is_integral()) return Value::integer(c.subject.as_int());
  const int64_t base = c.integer(1, 10);
  if (base < 2 || base > 36) fail("int() base must be >= 2 and <= 36");
  if (c.subject.is_string()) {
    if (const auto value = parse_int(c.subject.bytes(), static_cast<int>(base))) return Value::integer(*value);
  }
  const auto number = to_double(c.subject);
  if (!number || !std::isfinite(*number)) return c.value_or(0, Value::integer(0));
  if (std::abs(*number) >= 9.2e18) fail("integers beyond 64 bits are not supported");
  return Value::integer(static_cast<int64_t>(*number));
}

Value round(const Call& c) {
  if (!c.subject.is_number()) fail("type " + std::string(type_name(c.subject)) + " doesn't define __round__ method");
  const int64_t precision = c.integer(0, 0);
  const std::string method = c.has(1) ? c.string(1).bytes() : "common";
  if (precision < -300 || precision > 300) fail("round: precision out of range");
  const double value = c.subject.as_double();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value::floating(std::ceil(value * scale) / scale);
  if (method == "floor") return Value::floating(std::floor(value * scale) / scale);
  if (method != "common") fail("method must be common, ceil or floor");
  if (c.subject.is_integral() && precision >= 0) return Value::integer(c.subject.as_int());
  if (!std::isfinite(value)) return c.subject;
  if (precision < 0) {
    const double rounded = std::nearbyint(value * scale) / scale;
    return c.subject.is_integral() ? Value::integer(static_cast<int64_t>(rounded)) : Value::floating(rounded);
  }
  // Rounds the decimal digits of the number, as Python does. Rounding value * scale would give other results.
  return Value::floating(parse_float(format_float(value, static_cast<int>(precision), 'f')).value_or(value));
}

Value tojson(const Call& c) {
  JsonStyle style;
  style.ensure_ascii = c.flag(0, false);
  if (c.has_value(1)) {
    if (c.at(1).is_string()) {
      style.indent = c.at(1).bytes();
    } else {
      const int64_t width = std::max<int64_t>(c.integer(1, 0), 0);
      c.state.meter.check_string(static_cast<uint64_t>(width));
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
    style.item_separator = ",";
  }
  if (c.has_value(2)) {
    const Items separators = iterate(c.state, c.at(2));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      fail("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].bytes();
    style.key_separator = separators[1].bytes();
  }
  style.sort_keys = c.flag(3, false);
  MarkedText text = json_dumps(c.state, c.subject, style);
  const bool styled_by_input =
      (c.has(1) && origin_of(c.at(1)) == TextOrigin::kInput) || (c.has(2) && origin_of(c.at(2)) == TextOrigin::kInput);
  return styled_by_input ? Value::text(text.bytes(), TextOrigin::kInput) : Value::string(std::move(text));
}

constexpr Builtin<Value> kTextFilters[] = {
    {"upper()", [](const Call& c) { return recased<CaseChange::kUpper>(c, text_of(c)); }},
    {"lower()", [](const Call& c) { return recased<CaseChange::kLower>(c, text_of(c)); }},
    {"capitalize()", [](const Call& c) { return recased<CaseChange::kCapitalize>(c, text_of(c)); }},
    {"title()", title},
    {"trim(chars)", [](const Call& c) { return stripped(c, text_of(c), Side::kBoth); }},
    {"replace(old new | count)",
     [](const Call& c) {
       const MarkedText text = text_of(c), old = str(c.state, c.at(0)), with = str(c.state, c.at(1));
       return Value::string(replace(c.state, text, old.view(), with, c.integer_or_none(2, -1)));
     }},
    {"indent(width first blank)", indent},
    {"string()", [](const Call& c) { return c.subject.is_string() ? c.subject : Value::string(text_of(c)); }},
    {"safe()", [](const Call& c) { return Value::string(text_of(c), true); }},
    {"escape()", [](const Call& c) { return c.subject.is_markup() ? c.subject : escaped(c); }, "escape e"},
    {"forceescape()", escaped},
    {"truncate(length killwords end leeway)", truncate},
    {"wordcount()", wordcount},
    {"center(width)", [](const Call& c) { return Value::string(pad(c.state, text_of(c), c.integer(0, 80), '^')); }},
    {"format(*)", format},
    {"int(default base)", to_int},
    {"float(default)",
     [](const Call& c) {
       if (c.subject.is_undefined()) fail(c.subject.undefined_message());
       const auto number = to_double(c.subject);
       return number ? Value::floating(*number) : c.value_or(0, Value::floating(0));
     }},
    {"abs()",
     [](const Call& c) {
       const Value& v = c.subject;
       if (v.is(Kind::kFloat)) return Value::floating(std::abs(v.as_double()));
       if (!v.is_integral()) fail("bad operand type for abs(): '" + std::string(type_name(v)) + "'");
       return v.as_int() < 0 ? negate(v) : plus(v);
     }},
    {"round(precision method)", round},
    {"tojson(ensure_ascii indent separators sort_keys)", tojson},
};

Value to_list(std::vector<MarkedText> parts, bool markup) {
  Items items;
  for (MarkedText& part : parts) items.push_back(Value::string(std::move(part), markup));
  return Value::list(std::move(items));
}

Value split_at(const Call& c, bool from_right) {
  const int64_t max = c.integer(1, -1);
  if (!c.has_value(0)) {
    return to_list(split_space(c.state, c.subject.as_string(), max, from_right), c.subject.is_markup());
  }
  const MarkedText& separator = c.string(0);
  if (separator.empty()) fail("empty separator");
  return to_list(split(c.state, c.subject.as_string(), separator.view(), max, from_right), c.subject.is_markup());
}

// A part of a text, in bytes. The arguments `start` and `end` of a str method select it, in characters.
struct Window {
  size_t begin, end;
  bool empty_range;  // `start` is after `end`: nothing is found in this part, not even ""
};
Window window(const Call& c) {
  const std::string_view text = c.subject.bytes();
  c.state.meter.scan(text.size());
  if (!c.has(1)) return {0, text.size(), false};
  const auto n = static_cast<int64_t>(count_chars(text));
  const auto clamp = [n](int64_t at) { return std::min(at < 0 ? std::max<int64_t>(at + n, 0) : at, n); };
  const int64_t given = c.integer_or_none(1, 0);
  const int64_t start = clamp(given), end = clamp(c.integer_or_none(2, n));
  if (given > n || start > end) return {0, 0, true};
  return {char_offset(text, static_cast<size_t>(start)), char_offset(text, static_cast<size_t>(end)), false};
}

Value has_affix(const Call& c, bool at_end) {
  const Window part = window(c);
  const std::string_view text = std::string_view(c.subject.bytes()).substr(part.begin, part.end - part.begin);
  const auto matches = [&](const Value& value) {
    if (value.is_undefined()) fail(value.undefined_message());
    if (!value.is_string()) {
      fail(std::string(c.name()) + " first arg must be str or a tuple of str, not " + std::string(type_name(value)));
    }
    if (part.empty_range) return false;
    return at_end ? text.ends_with(value.bytes()) : text.starts_with(value.bytes());
  };
  if (!c.at(0).is_tuple()) return Value::boolean(matches(c.at(0)));
  for (const Value& item : c.at(0).sequence_object().items) {
    if (matches(item)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value find(const Call& c, bool from_right, bool must_be_there) {
  const std::string_view wanted = c.string(0).view();
  const Window part = window(c);
  const std::string_view text = std::string_view(c.subject.bytes()).substr(0, part.end);
  size_t at = std::string_view::npos;
  if (!part.empty_range) at = from_right ? text.rfind(wanted) : text.find(wanted, part.begin);
  if (at != std::string_view::npos && at < part.begin) at = std::string_view::npos;
  if (at != std::string_view::npos) return Value::integer(static_cast<int64_t>(count_chars(text.substr(0, at))));
  if (must_be_there) fail("substring not found");
  return Value::integer(-1);
}

Value count(const Call& c) {
  const std::string_view wanted = c.string(0).view();
  const Window part = window(c);
  if (part.empty_range) return Value::integer(0);
  const std::string_view text = std::string_view(c.subject.bytes()).substr(part.begin, part.end - part.begin);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_chars(text)) + 1);
  int64_t n = 0;
  for (size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + wanted.size())) ++n;
  return Value::integer(n);
}

Value joined(const Call& c) {
  MarkedText out;
  const Items items = iterate(c.state, c.at(0));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      fail("sequence item " + std::to_string(i) + ": expected str instance, " + std::string(type_name(items[i])) +
           " found");
    }
    if (i != 0) out.append(c.subject.as_string());
    out.append(items[i].as_string());
    c.state.meter.create(items[i].bytes().size() + c.subject.bytes().size());
    c.state.meter.check_string(out.size());
  }
  return Value::string(std::move(out), c.subject.is_markup());
}

Value justify(const Call& c, char align) {
  const std::string_view fill = c.has(1) ? c.string(1).view() : std::string_view(" ");
  if (count_chars(fill) != 1) fail("The fill character must be exactly one character long");
  const TextOrigin fill_origin = c.has(1) ? c.string(1).safe_origin() : TextOrigin::kTemplate;
  return Value::string(pad(c.state, c.subject.as_string(), c.integer(0, 0), align, fill, fill_origin),
                       c.subject.is_markup());
}

Value zfill(const Call& c) {
  const MarkedText& text = c.subject.as_string();
  const size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+') ? 1 : 0;
  const int64_t width = c.integer(0, 0);
  if (width <= static_cast<int64_t>(sign)) return c.subject;
  MarkedText out = text.substr(0, sign);
  out.append(pad(c.state, text.substr(sign, text.size()), width - static_cast<int64_t>(sign), '>', "0"));
  return Value::string(std::move(out));
}

Value partition(const Call& c, bool from_right) {
  const MarkedText& separator = c.string(0);
  if (separator.empty()) fail("empty separator");
  const MarkedText& text = c.subject.as_string();
  c.state.meter.scan(text.size());
  c.state.meter.create(text.size());
  const size_t at = from_right ? text.view().rfind(separator.view()) : text.view().find(separator.view());
  if (at == std::string_view::npos) {
    const Value nothing = Value::text("");
    return from_right ? Value::tuple({nothing, nothing, c.subject}) : Value::tuple({c.subject, nothing, nothing});
  }
  const size_t after = at + separator.size();
  return Value::tuple({Value::string(text.substr(0, at)), Value::string(text.substr(at, after)),
                       Value::string(text.substr(after, text.size()))});
}

Value without_affix(const Call& c, bool suffix) {
  const std::string_view part = c.string(0).view();
  const MarkedText& text = c.subject.as_string();
  c.state.meter.create(text.size());
  if (suffix ? !text.view().ends_with(part) : !text.view().starts_with(part)) return c.subject;
  return Value::string(suffix ? text.substr(0, text.size() - part.size()) : text.substr(part.size(), text.size()),
                       c.subject.is_markup());
}

Value expandtabs(const Call& c) {
  const int64_t size = std::max<int64_t>(c.integer(0, 8), 0);
  const MarkedText& text = c.subject.as_string();
  MarkedText out;
  int64_t column = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t n = char_length(text.view(), i);
    if (text.bytes()[i] == '\t') {
      const int64_t spaces = size == 0 ? 0 : size - column % size;
      c.state.meter.check_string(out.size() + static_cast<uint64_t>(spaces));
      c.state.meter.create(static_cast<uint64_t>(spaces));
      out.append(std::string(static_cast<size_t>(spaces), ' '), text.origin_at(i));
      column += spaces;
    } else {
      out.append(text.substr(i, i + n));
      column = text.bytes()[i] == '\n' || text.bytes()[i] == '\r' ? 0 : column + 1;
    }
    i += n;
  }
  return Value::string(std::move(out), c.subject.is_markup());
}

Value format_map(const Call& c) {
  const Value& mapping = c.at(0);
  if (!mapping.is_dict()) fail("format_map() argument must be a mapping, not " + std::string(type_name(mapping)));
  Arguments named;
  for (size_t i = 0; i < dict_size(mapping); ++i) {
    auto [key, value] = dict_entry(mapping, i);
    if (key.is_string()) named.named.emplace_back(key.bytes(), std::move(value));
  }
  c.state.meter.create(named.named.size() * sizeof(Value));
  return format_braces(c.in, c.subject, named);
}

// True if every character of the text is in the class. For an empty text the result is may_be_empty.
Value all_of(const Call& c, bool (*is_of_class)(uint32_t), bool may_be_empty = false) {
  const std::string_view text = c.subject.bytes();
  for (size_t i = 0; i < text.size();) {
    const DecodedChar next = utf8_decode(text, i);
    if (!next.valid || !is_of_class(next.code_point)) return Value::boolean(false);
    i += next.length;
  }
  return Value::boolean(may_be_empty || !text.empty());
}

Value islower(const Call& c) { return Value::boolean(has_only_case(c.subject.bytes(), false)); }
Value isupper(const Call& c) { return Value::boolean(has_only_case(c.subject.bytes(), true)); }

Value istitle(const Call& c) {
  const std::string_view text = c.subject.bytes();
  bool any = false, previous_cased = false;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar next = utf8_decode(text, i);
    const bool upper = is_upper(next.code_point) || is_title(next.code_point), lower = is_lower(next.code_point);
    if ((upper && previous_cased) || (lower && !previous_cased)) return Value::boolean(false);
    previous_cased = upper || lower;
    any |= previous_cased;
    i += next.length;
  }
  return Value::boolean(any);
}

// isidentifier(): tests for XID_Start and XID_Continue of UAX 31, computed from categories and their exceptions.
Value isidentifier(const Call& c) {
  const std::string_view text = c.subject.bytes();
  bool first = true;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar next = utf8_decode(text, i);
    if (!next.valid || !may_be_in_identifier(next.code_point, first)) return Value::boolean(false);
    first = false;
    i += next.length;
  }
  return Value::boolean(!first);
}

constexpr Builtin<Value> kMethods[] = {
    {"str method()", [](const Call& c) { return recased<CaseChange::kUpper>(c, c.subject.as_string()); }, "upper"},
    {"str method()", [](const Call& c) { return recased<CaseChange::kLower>(c, c.subject.as_string()); }, "lower"},
    {"str method()", [](const Call& c) { return recased<CaseChange::kTitle>(c, c.subject.as_string()); }, "title"},
    {"str method()", [](const Call& c) { return recased<CaseChange::kCapitalize>(c, c.subject.as_string()); },
     "capitalize"},
    {"str method()", [](const Call& c) { return recased<CaseChange::kSwap>(c, c.subject.as_string()); }, "swapcase"},
    {"str method()", [](const Call& c) { return recased<CaseChange::kFold>(c, c.subject.as_string()); }, "casefold"},
    {"strip(chars)", [](const Call& c) { return stripped(c, c.subject.as_string(), Side::kBoth); }, "strip"},
    {"strip(chars)", [](const Call& c) { return stripped(c, c.subject.as_string(), Side::kLeft); }, "lstrip"},
    {"strip(chars)", [](const Call& c) { return stripped(c, c.subject.as_string(), Side::kRight); }, "rstrip"},
    {"split(sep maxsplit)", [](const Call& c) { return split_at(c, false); }},
    {"rsplit(sep maxsplit)", [](const Call& c) { return split_at(c, true); }},
    {"splitlines(keepends)",
     [](const Call& c) {
       return to_list(split_lines(c.state, c.subject.as_string(), c.flag(0, false)), c.subject.is_markup());
     }},
    {"startswith(prefix | start end)", [](const Call& c) { return has_affix(c, false); }},
    {"endswith(prefix | start end)", [](const Call& c) { return has_affix(c, true); }},
    {"find(sub | start end)", [](const Call& c) { return find(c, false, false); }, "find"},
    {"find(sub | start end)", [](const Call& c) { return find(c, true, false); }, "rfind"},
    {"find(sub | start end)", [](const Call& c) { return find(c, false, true); }, "index"},
    {"find(sub | start end)", [](const Call& c) { return find(c, true, true); }, "rindex"},
    {"count(sub | start end)", count},
    {"replace(old new | count)",
     [](const Call& c) {
       const int64_t max = c.integer(2, -1);
       return Value::string(replace(c.state, c.subject.as_string(), c.string(0).view(), c.string(1), max),
                            c.subject.is_markup());
     }},
    {"join(iterable |)", joined},
    {"format(*)", [](const Call& c) { return format_braces(c.in, c.subject, c.arguments); }},
    {"format_map(mapping |)", format_map},
    {"zfill(width |)", zfill},
    {"justify(width | fillchar)", [](const Call& c) { return justify(c, '<'); }, "ljust"},
    {"justify(width | fillchar)", [](const Call& c) { return justify(c, '>'); }, "rjust"},
    {"justify(width | fillchar)", [](const Call& c) { return justify(c, '^'); }, "center"},
    {"partition(sep |)", [](const Call& c) { return partition(c, false); }, "partition"},
    {"partition(sep |)", [](const Call& c) { return partition(c, true); }, "rpartition"},
    {"removeprefix(affix |)", [](const Call& c) { return without_affix(c, false); }, "removeprefix"},
    {"removeprefix(affix |)", [](const Call& c) { return without_affix(c, true); }, "removesuffix"},
    {"expandtabs(tabsize)", expandtabs},
    {"str method()", [](const Call& c) { return all_of(c, is_alnum); }, "isalnum"},
    {"str method()", [](const Call& c) { return all_of(c, is_alpha); }, "isalpha"},
    {"str method()", [](const Call& c) { return all_of(c, is_decimal); }, "isdecimal"},
    {"str method()", [](const Call& c) { return all_of(c, is_digit); }, "isdigit"},
    {"str method()", [](const Call& c) { return all_of(c, is_numeric); }, "isnumeric"},
    {"str method()", [](const Call& c) { return all_of(c, is_space); }, "isspace"},
    {"str method()",
     [](const Call& c) {
       return all_of(
           c, [](uint32_t x) { return x < 0x80; }, true);
     },
     "isascii"},
    {"str method()", [](const Call& c) { return all_of(c, is_printable, true); }, "isprintable"},
    {"str method()", islower, "islower"},
    {"str method()", isupper, "isupper"},
    {"istitle()", istitle},
    {"isidentifier()", isidentifier},
};

}  // namespace

Filter find_text_filter(std::string_view name) { return find_builtin<Value>(kTextFilters, name); }
Method find_string_method(std::string_view name) { return find_builtin<Value>(kMethods, name); }

}  // namespace ibid::jinja
