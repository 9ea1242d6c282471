// Methods of str.
#include "templates/jinja/arguments.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/format.h"
#include "templates/jinja/methods.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/text_ops.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

template <CaseChange kChange>
Value change(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "str method", {});
  in.state().meter.create(self.bytes().size());
  in.state().meter.scan(kCaseCost * self.bytes().size());
  return Value::string(change_case(self.as_string(), kChange), self.is_markup());
}

template <Side kSide>
Value strip_method(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "strip", {"chars"});
  const bool with_chars = parameters.has(0) && !parameters.at(0).is_none();
  return Value::string(with_chars ? strip(in.state(), self.as_string(), kSide, parameters.string(0).view())
                                  : strip(in.state(), self.as_string(), kSide),
                       self.is_markup());
}

Value to_list(std::vector<MarkedText> parts, bool markup) {
  Items items;
  for (MarkedText& part : parts) items.push_back(Value::string(std::move(part), markup));
  return Value::list(std::move(items));
}

template <bool kFromRight>
Value split_method(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, kFromRight ? "rsplit" : "split", {"sep", "maxsplit"});
  const int64_t max = parameters.integer(1, -1);
  if (!parameters.has(0) || parameters.at(0).is_none()) {
    return to_list(split_space(in.state(), self.as_string(), max, kFromRight), self.is_markup());
  }
  const MarkedText& separator = parameters.string(0);
  if (separator.empty()) fail("empty separator");
  return to_list(split(in.state(), self.as_string(), separator.view(), max, kFromRight), self.is_markup());
}

Value splitlines(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "splitlines", {"keepends"});
  return to_list(split_lines(in.state(), self.as_string(), parameters.flag(in.state(), 0, false)),
                 self.is_markup());
}

// The bytes that str's optional start and end (in characters) leave of `text`.
struct Window {
  size_t begin, end;
  bool empty_range;  // start is behind the end: nothing is found, not even ""
};
Window window(RenderState& state, std::string_view text, const Parameters& parameters) {
  state.meter.scan(text.size());
  if (!parameters.has(1)) return {0, text.size(), false};
  const auto n = static_cast<int64_t>(count_chars(text));
  const auto clamp = [n](int64_t at) { return std::min(at < 0 ? std::max<int64_t>(at + n, 0) : at, n); };
  const int64_t given = parameters.integer_or_none(1, 0);
  const int64_t start = clamp(given), end = clamp(parameters.integer_or_none(2, n));
  if (given > n || start > end) return {0, 0, true};
  return {char_offset(text, static_cast<size_t>(start)), char_offset(text, static_cast<size_t>(end)), false};
}

template <bool kAtEnd>
Value affix(Evaluator& in, const Value& self, const Arguments& args) {
  const char* name = kAtEnd ? "endswith" : "startswith";
  const Parameters parameters(args, name, {"prefix", "start", "end"}, 1);
  const Window part = window(in.state(), self.bytes(), parameters);
  const std::string_view text = std::string_view(self.bytes()).substr(part.begin, part.end - part.begin);
  const auto matches = [&](const Value& value) {
    if (value.is_undefined()) fail(value.undefined_message());
    if (!value.is_string()) {
      fail(std::string(name) + " first arg must be str or a tuple of str, not " +
           std::string(type_name(value)));
    }
    if (part.empty_range) return false;
    return kAtEnd ? text.ends_with(value.bytes()) : text.starts_with(value.bytes());
  };
  if (!parameters.at(0).is_tuple()) return Value::boolean(matches(parameters.at(0)));
  for (const Value& item : parameters.at(0).sequence_object().items) {
    if (matches(item)) return Value::boolean(true);
  }
  return Value::boolean(false);
}

enum class Missing { kMinusOne, kFails };

template <bool kFromRight, Missing kMissing>
Value find(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "find", {"sub", "start", "end"}, 1);
  const std::string_view wanted = parameters.string(0).view();
  const Window part = window(in.state(), self.bytes(), parameters);
  const std::string_view text = std::string_view(self.bytes()).substr(0, part.end);
  size_t at = std::string_view::npos;
  if (!part.empty_range) at = kFromRight ? text.rfind(wanted) : text.find(wanted, part.begin);
  if (at != std::string_view::npos && at < part.begin) at = std::string_view::npos;
  if (at != std::string_view::npos)
    return Value::integer(static_cast<int64_t>(count_chars(text.substr(0, at))));
  if (kMissing == Missing::kFails) fail("substring not found");
  return Value::integer(-1);
}

Value count(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "count", {"sub", "start", "end"}, 1);
  const std::string_view wanted = parameters.string(0).view();
  const Window part = window(in.state(), self.bytes(), parameters);
  if (part.empty_range) return Value::integer(0);
  const std::string_view text = std::string_view(self.bytes()).substr(part.begin, part.end - part.begin);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_chars(text)) + 1);
  int64_t n = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size()))
    ++n;
  return Value::integer(n);
}

Value replace_method(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "replace", {"old", "new", "count"}, 2);
  const int64_t max = parameters.integer(2, -1);
  return Value::string(
      replace(in.state(), self.as_string(), parameters.string(0).view(), parameters.string(1), max),
      self.is_markup());
}

Value join(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "join", {"iterable"}, 1);
  MarkedText out;
  const Items items = iterate(in.state(), parameters.at(0));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      fail("sequence item " + std::to_string(i) + ": expected str instance, " +
           std::string(type_name(items[i])) + " found");
    }
    if (i != 0) out.append(self.as_string());
    out.append(items[i].as_string());
    in.state().meter.create(items[i].bytes().size() + self.bytes().size());
    in.state().meter.check_string(out.size());
  }
  return Value::string(std::move(out), self.is_markup());
}

template <char kAlign>
Value justify(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "justify", {"width", "fillchar"}, 1);
  const std::string_view fill = parameters.has(1) ? parameters.string(1).view() : std::string_view(" ");
  if (count_chars(fill) != 1) fail("The fill character must be exactly one character long");
  const TextOrigin fill_origin =
      parameters.has(1) ? parameters.string(1).safe_origin() : TextOrigin::kTemplate;
  return Value::string(pad(in.state(), self.as_string(), parameters.integer(0, 0), kAlign, fill, fill_origin),
                       self.is_markup());
}

Value zfill(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "zfill", {"width"}, 1);
  const MarkedText& text = self.as_string();
  const size_t sign = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+') ? 1 : 0;
  const int64_t width = parameters.integer(0, 0);
  if (width <= static_cast<int64_t>(sign)) return self;
  MarkedText out = text.substr(0, sign);
  out.append(pad(in.state(), text.substr(sign, text.size()), width - static_cast<int64_t>(sign), '>', "0"));
  return Value::string(std::move(out));
}

template <bool kFromRight>
Value partition(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "partition", {"sep"}, 1);
  const MarkedText& separator = parameters.string(0);
  if (separator.empty()) fail("empty separator");
  const MarkedText& text = self.as_string();
  in.state().meter.scan(text.size());
  in.state().meter.create(text.size());
  const size_t at = kFromRight ? text.view().rfind(separator.view()) : text.view().find(separator.view());
  if (at == std::string_view::npos) {
    const Value nothing = Value::text("");
    return kFromRight ? Value::tuple({nothing, nothing, self}) : Value::tuple({self, nothing, nothing});
  }
  const size_t behind = at + separator.size();
  return Value::tuple({Value::string(text.substr(0, at)), Value::string(text.substr(at, behind)),
                       Value::string(text.substr(behind, text.size()))});
}

template <bool kSuffix>
Value remove_affix(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "removeprefix", {"affix"}, 1);
  const std::string_view part = parameters.string(0).view();
  const MarkedText& text = self.as_string();
  in.state().meter.create(text.size());
  if (kSuffix ? !text.view().ends_with(part) : !text.view().starts_with(part)) return self;
  return Value::string(
      kSuffix ? text.substr(0, text.size() - part.size()) : text.substr(part.size(), text.size()),
      self.is_markup());
}

Value expandtabs(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "expandtabs", {"tabsize"});
  const int64_t size = std::max<int64_t>(parameters.integer(0, 8), 0);
  const MarkedText& text = self.as_string();
  MarkedText out;
  int64_t column = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t n = char_length(text.view(), i);
    if (text.bytes()[i] == '\t') {
      const int64_t spaces = size == 0 ? 0 : size - column % size;
      in.state().meter.check_string(out.size() + static_cast<uint64_t>(spaces));
      in.state().meter.create(static_cast<uint64_t>(spaces));
      out.append(std::string(static_cast<size_t>(spaces), ' '), text.origin_at(i));
      column += spaces;
    } else {
      out.append(text.substr(i, i + n));
      column = text.bytes()[i] == '\n' || text.bytes()[i] == '\r' ? 0 : column + 1;
    }
    i += n;
  }
  return Value::string(std::move(out), self.is_markup());
}

Value format_map(Evaluator& in, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "format_map", {"mapping"}, 1);
  const Value& mapping = parameters.at(0);
  if (!mapping.is_dict()) fail("format_map() argument must be a mapping, not " + std::string(type_name(mapping)));
  Arguments named;
  for (size_t i = 0; i < dict_size(mapping); ++i) {
    auto [key, value] = dict_entry(mapping, i);
    if (key.is_string()) named.named.emplace_back(key.bytes(), std::move(value));
  }
  in.state().meter.create(named.named.size() * sizeof(Value));
  return format_braces(in, self, named);
}

struct NamedMethod {
  std::string_view name;
  Method method;
};

constexpr NamedMethod kMethods[] = {
    {"upper", change<CaseChange::kUpper>},
    {"lower", change<CaseChange::kLower>},
    {"title", change<CaseChange::kTitle>},
    {"capitalize", change<CaseChange::kCapitalize>},
    {"swapcase", change<CaseChange::kSwap>},
    {"casefold", change<CaseChange::kFold>},
    {"strip", strip_method<Side::kBoth>},
    {"lstrip", strip_method<Side::kLeft>},
    {"rstrip", strip_method<Side::kRight>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
    {"endswith", affix<true>},
    {"find", find<false, Missing::kMinusOne>},
    {"rfind", find<true, Missing::kMinusOne>},
    {"index", find<false, Missing::kFails>},
    {"rindex", find<true, Missing::kFails>},
    {"count", count},
    {"replace", replace_method},
    {"join", join},
    {"format", format_braces},
    {"format_map", format_map},
    {"zfill", zfill},
    {"ljust", justify<'<'>},
    {"rjust", justify<'>'>},
    {"center", justify<'^'>},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"expandtabs", expandtabs},
};

}  // namespace

Method find_string_method(std::string_view name) {
  for (const NamedMethod& entry : kMethods) {
    if (entry.name == name) return entry.method;
  }
  return find_string_class_method(name);
}

}  // namespace ibid::jinja
