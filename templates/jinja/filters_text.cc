// Filters that make text or numbers.
#include <cmath>

#include "base/utf8.h"
#include "templates/jinja/arguments.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/filters.h"
#include "templates/jinja/format.h"
#include "templates/jinja/number_text.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/text_ops.h"
#include "templates/jinja/unicode_text.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
namespace {

Value change(Evaluator& in, const Value& subject, const Arguments& args, const char* name,
             CaseChange change) {
  const Parameters parameters(args, name, {});
  const MarkedText text = str(in.state(), subject);
  in.state().meter.create(text.size());
  in.state().meter.scan(kCaseCost * text.size());
  return Value::string(change_case(text, change), subject.is_markup());
}

Value do_upper(Evaluator& in, const Value& s, const Arguments& args) {
  return change(in, s, args, "upper", CaseChange::kUpper);
}
Value do_lower(Evaluator& in, const Value& s, const Arguments& args) {
  return change(in, s, args, "lower", CaseChange::kLower);
}
Value do_capitalize(Evaluator& in, const Value& s, const Arguments& args) {
  return change(in, s, args, "capitalize", CaseChange::kCapitalize);
}

// Jinja's own title(): words begin after white space and - ( { [ <, an apostrophe does not end one.
Value do_title(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "title", {});
  const MarkedText text = str(in.state(), subject);
  in.state().meter.create(2 * text.size());
  in.state().meter.scan(kCaseCost * text.size());
  const std::string_view bytes = text.view();
  MarkedText out;
  size_t begin = 0;  // of the word
  const auto end_word = [&](size_t end) {
    if (begin == end) return;
    const size_t first = begin + char_length(bytes, begin);
    out.append(change_case(text.substr(begin, first), CaseChange::kUpper));
    out.append(change_case(text.substr(first, end), CaseChange::kLower));
  };
  for (size_t i = 0; i < bytes.size();) {
    const DecodedChar c = utf8_decode(bytes, i);
    const bool separates = c.valid && (is_space(c.code_point) || c.code_point == '-' || c.code_point == '(' ||
                                       c.code_point == '{' || c.code_point == '[' || c.code_point == '<');
    if (separates) {
      end_word(i);
      out.append(text.substr(i, i + c.length));
      begin = i + c.length;
    }
    i += c.length;
  }
  end_word(bytes.size());
  return Value::string(std::move(out), subject.is_markup());
}

Value do_trim(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "trim", {"chars"});
  const MarkedText text = str(in.state(), subject);
  const bool with_chars = parameters.has(0) && !parameters.at(0).is_none();
  return Value::string(with_chars ? strip(in.state(), text, Side::kBoth, parameters.string(0).view())
                                  : strip(in.state(), text, Side::kBoth),
                       subject.is_markup());
}

Value do_replace(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "replace", {"old", "new", "count"}, 2);
  const MarkedText text = str(in.state(), subject);
  const MarkedText old = str(in.state(), parameters.at(0)), with = str(in.state(), parameters.at(1));
  return Value::string(replace(in.state(), text, old.view(), with, parameters.integer_or_none(2, -1)));
}

Value do_indent(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "indent", {"width", "first", "blank"});
  RenderState& state = in.state();
  if (subject.is_undefined()) fail(subject.undefined_message());
  if (!subject.is_string()) fail("indent needs a string, not " + std::string(type_name(subject)));
  MarkedText indent;
  if (parameters.has(0) && parameters.at(0).is_string()) {
    indent = parameters.string(0);
  } else {
    const int64_t width = std::max<int64_t>(parameters.integer(0, 4), 0);
    state.meter.check_string(static_cast<uint64_t>(width));
    indent = MarkedText(std::string(static_cast<size_t>(width), ' '), TextOrigin::kTemplate);
  }
  const bool first = parameters.flag(state, 1, false), blank = parameters.flag(state, 2, false);
  MarkedText text = subject.as_string();
  text.append("\n", TextOrigin::kTemplate);  // so that a newline at the end keeps its empty last line
  const auto lines = split_lines(state, text, false);
  MarkedText out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) out.append("\n", TextOrigin::kTemplate);
    if (i == 0 ? first : blank || !lines[i].empty()) {
      state.meter.create(indent.size());
      state.meter.check_string(out.size() + indent.size());
      out.append(indent);
    }
    out.append(lines[i]);
  }
  return Value::string(std::move(out), subject.is_markup());
}

Value do_string(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "string", {});
  return subject.is_string() ? subject : Value::string(str(in.state(), subject));
}

Value do_safe(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "safe", {});
  return Value::string(str(in.state(), subject), true);
}

Value do_escape(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "escape", {});
  if (subject.is_markup()) return subject;
  const MarkedText text = str(in.state(), subject);
  in.state().meter.create(text.size() * 5);
  return Value::string(escape_html(text), true);
}

Value do_forceescape(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "forceescape", {});
  const MarkedText text = str(in.state(), subject);
  in.state().meter.create(text.size() * 5);
  return Value::string(escape_html(text), true);
}

Value do_truncate(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "truncate", {"length", "killwords", "end", "leeway"});
  const MarkedText end =
      parameters.has(2) ? parameters.string(2) : MarkedText("...", TextOrigin::kTemplate);
  const int64_t length = parameters.integer(0, 255), leeway = parameters.integer_or_none(3, 5);
  const auto end_chars = static_cast<int64_t>(count_chars(end.view()));
  if (length < end_chars)
    fail("expected length >= " + std::to_string(end_chars) + ", got " + std::to_string(length));
  if (leeway < 0) fail("expected leeway >= 0");
  if (static_cast<int64_t>(jinja::length(in.state(), subject)) - length <= leeway) return subject;
  if (!subject.is_string()) fail("truncate needs a string, not " + std::string(type_name(subject)));
  const MarkedText& text = subject.as_string();
  MarkedText cut = text.substr(0, char_offset(text.view(), static_cast<size_t>(length - end_chars)));
  if (!parameters.flag(in.state(), 1, false)) cut = split(in.state(), cut, " ", 1, true)[0];
  cut.append(end);
  return Value::string(std::move(cut));
}

Value do_wordcount(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "wordcount", {});
  const MarkedText text = str(in.state(), subject);
  int64_t words = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = utf8_decode(text.view(), i);
    const bool is_word = c.valid && (c.code_point == '_' || is_alnum(c.code_point));
    if (is_word && !inside) ++words;
    inside = is_word;
    i += c.length;
  }
  return Value::integer(words);
}

Value do_center(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "center", {"width"});
  return Value::string(pad(in.state(), str(in.state(), subject), parameters.integer(0, 80), '^'));
}

Value do_format(Evaluator& in, const Value& subject, const Arguments& args) {
  if (!args.positional.empty() && !args.named.empty())
    fail("can't handle positional and keyword arguments at the same time");
  const Value format = Value::string(str(in.state(), subject), subject.is_markup());
  if (args.named.empty()) return format_percent(in.state(), format, Value::tuple(args.positional));
  DictBuilder dict(in.state());
  for (const auto& [name, value] : args.named) dict.set(Value::text(name, args.name_origin), value);
  return format_percent(in.state(), format, dict.build());
}

std::optional<double> to_double(const Value& value) {
  if (value.is_number()) return value.as_double();
  if (value.is_string()) return parse_float(value.bytes());
  return std::nullopt;
}

Value do_int(Evaluator&, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "int", {"default", "base"});
  if (subject.is_undefined()) fail(subject.undefined_message());
  if (subject.is_integral()) return Value::integer(subject.as_int());
  const int64_t base = parameters.integer(1, 10);
  if (base < 2 || base > 36) fail("int() base must be >= 2 and <= 36");
  if (subject.is_string()) {
    if (const auto value = parse_int(subject.bytes(), static_cast<int>(base))) return Value::integer(*value);
  }
  const auto number = to_double(subject);
  if (!number || !std::isfinite(*number)) return parameters.value_or(0, Value::integer(0));
  if (std::abs(*number) >= 9.2e18) fail("integers beyond 64 bits are not supported");
  return Value::integer(static_cast<int64_t>(*number));
}

Value do_float(Evaluator&, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "float", {"default"});
  if (subject.is_undefined()) fail(subject.undefined_message());
  const auto number = to_double(subject);
  return number ? Value::floating(*number) : parameters.value_or(0, Value::floating(0));
}

Value do_abs(Evaluator&, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "abs", {});
  if (subject.is(Kind::kFloat)) return Value::floating(std::abs(subject.as_double()));
  if (!subject.is_integral()) fail("bad operand type for abs(): '" + std::string(type_name(subject)) + "'");
  return subject.as_int() < 0 ? negate(subject) : plus(subject);
}

Value do_round(Evaluator&, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "round", {"precision", "method"});
  if (!subject.is_number())
    fail("type " + std::string(type_name(subject)) + " doesn't define __round__ method");
  const int64_t precision = parameters.integer(0, 0);
  const std::string method = parameters.has(1) ? parameters.string(1).bytes() : "common";
  if (precision < -300 || precision > 300) fail("round: precision out of range");
  const double value = subject.as_double();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value::floating(std::ceil(value * scale) / scale);
  if (method == "floor") return Value::floating(std::floor(value * scale) / scale);
  if (method != "common") fail("method must be common, ceil or floor");
  if (subject.is_integral() && precision >= 0) return Value::integer(subject.as_int());
  if (!std::isfinite(value)) return subject;
  if (precision < 0) {
    const double rounded = std::nearbyint(value * scale) / scale;
    return subject.is_integral() ? Value::integer(static_cast<int64_t>(rounded)) : Value::floating(rounded);
  }
  // The decimal digits decide, as in Python, not value * scale.
  return Value::floating(parse_float(format_float(value, static_cast<int>(precision), 'f')).value_or(value));
}

Value do_tojson(Evaluator& in, const Value& subject, const Arguments& args) {
  const Parameters parameters(args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = parameters.flag(in.state(), 0, false);
  if (parameters.has(1) && !parameters.at(1).is_none()) {
    if (parameters.at(1).is_string()) {
      style.indent = parameters.at(1).bytes();
    } else {
      const int64_t width = std::max<int64_t>(parameters.integer(1, 0), 0);
      in.state().meter.check_string(static_cast<uint64_t>(width));
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
    style.item_separator = ",";
  }
  if (parameters.has(2) && !parameters.at(2).is_none()) {
    const Items separators = iterate(in.state(), parameters.at(2));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      fail("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].bytes();
    style.key_separator = separators[1].bytes();
  }
  style.sort_keys = parameters.flag(in.state(), 3, false);
  MarkedText text = json_dumps(in.state(), subject, style);
  const bool styled_by_input = (parameters.has(1) && origin_of(parameters.at(1)) == TextOrigin::kInput) ||
                               (parameters.has(2) && origin_of(parameters.at(2)) == TextOrigin::kInput);
  return styled_by_input ? Value::text(text.bytes(), TextOrigin::kInput) : Value::string(std::move(text));
}

constexpr NamedFilter kTextFilters[] = {
    {"upper", do_upper},
    {"lower", do_lower},
    {"capitalize", do_capitalize},
    {"title", do_title},
    {"trim", do_trim},
    {"replace", do_replace},
    {"indent", do_indent},
    {"string", do_string},
    {"safe", do_safe},
    {"escape", do_escape},
    {"e", do_escape},
    {"forceescape", do_forceescape},
    {"truncate", do_truncate},
    {"wordcount", do_wordcount},
    {"center", do_center},
    {"format", do_format},
    {"int", do_int},
    {"float", do_float},
    {"abs", do_abs},
    {"round", do_round},
    {"tojson", do_tojson},
};

}  // namespace

Filter find_text_filter(std::string_view name) {
  for (const NamedFilter& entry : kTextFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace ibid::jinja
