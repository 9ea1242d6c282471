#include "templates/jinja/builtins.h"

#include <algorithm>
#include <clocale>
#include <ctime>

#include "templates/jinja/operations.h"
#include "templates/jinja/python_text.h"

namespace ibid::jinja {

Call::Call(std::string_view signature, Evaluator& evaluator, const Value& of, const Arguments& given)
    : in(evaluator), state(in.state()), subject(of), arguments(given), name_(signature.substr(0, signature.find('('))) {
  std::string_view list = signature.substr(name_.size() + 1);
  list.remove_suffix(1);
  if (list == "*") return;
  std::array<std::string_view, kMaxParameters> names;
  size_t n = 0, n_required = 0;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (list[0] == '|') {
      n_required = n;
    } else {
      names[n++] = list.substr(0, end);
    }
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  bind({names.data(), n}, n_required);
}

void Call::bind(std::span<const std::string_view> names, size_t n_required) {
  const std::string name(name_);
  if (arguments.positional.size() > names.size()) {
    fail(name + "() takes " + std::to_string(names.size()) + " arguments but " +
         std::to_string(arguments.positional.size()) + " were given");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound_[i] = &arguments.positional[i];
  for (const auto& [key, value] : arguments.named) {
    const auto i = static_cast<size_t>(std::find(names.begin(), names.end(), key) - names.begin());
    if (i == names.size()) fail(name + "() got an unexpected keyword argument '" + key + "'");
    if (bound_[i] != nullptr) fail(name + "() got multiple values for argument '" + key + "'");
    bound_[i] = &value;
  }
  for (size_t i = 0; i < n_required; ++i) {
    if (bound_[i] == nullptr) fail(name + "() missing required argument: '" + std::string(names[i]) + "'");
  }
}

bool Call::flag(size_t i, bool fallback) const { return has(i) ? truthy(state, at(i)) : fallback; }

int64_t Call::integer(size_t i, int64_t fallback) const {
  if (!has(i)) return fallback;
  if (at(i).is_undefined()) fail(at(i).undefined_message());
  if (!at(i).is_integral()) {
    fail("'" + std::string(type_name(at(i))) + "' object cannot be interpreted as an integer");
  }
  return at(i).as_int();
}

int64_t Call::integer_or_none(size_t i, int64_t fallback) const {
  return has(i) && at(i).is_none() ? fallback : integer(i, fallback);
}

const MarkedText& Call::string(size_t i) const {
  if (at(i).is_undefined()) fail(at(i).undefined_message());
  if (!at(i).is_string()) {
    fail(std::string(name_) + "() argument must be str, not " + std::string(type_name(at(i))));
  }
  return at(i).as_string();
}

bool is_name_in(std::string_view names, std::string_view name) {
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find(' ', begin), names.size());
    if (names.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

std::string no_filter(const std::string& name) {
  if (name == "random") return "The filter 'random' is not supported: a prompt must not depend on chance.";
  if (is_name_in("pprint striptags urlize wordwrap", name)) return "The filter '" + name + "' is not supported.";
  return "No filter named '" + name + "'.";
}

AttributeGetter::AttributeGetter(Evaluator& evaluator, const Value* attribute, bool ignore_case,
                                 std::optional<Value> fallback)
    : evaluator_(evaluator), ignore_case_(ignore_case), fallback_(std::move(fallback)) {
  if (attribute == nullptr || attribute->is_none()) return;
  if (!attribute->is_string()) {
    parts_.push_back(*attribute);
    return;
  }
  for (MarkedText& part : split(evaluator.state(), attribute->as_string(), ".", -1, false)) {
    const bool is_number = !part.empty() && part.bytes().find_first_not_of("0123456789") == std::string::npos;
    const auto index = is_number ? parse_int(part.view()) : std::nullopt;
    parts_.push_back(index ? Value::integer(*index) : Value::string(std::move(part)));
  }
}

Value AttributeGetter::operator()(const Value& item) {
  Value value = item;
  for (const Value& part : parts_) {
    value = evaluator_.item(value, part);
    if (fallback_ && value.is_undefined()) value = *fallback_;
  }
  if (!ignore_case_ || !value.is_string()) return value;
  return Value::string(change_case(value.as_string(), CaseChange::kLower));
}

Items AttributeGetter::all(std::vector<AttributeGetter>& getters, const Value& item) {
  Items keys;
  for (AttributeGetter& getter : getters) keys.push_back(getter(item));
  return keys;
}

std::vector<AttributeGetter> attribute_getters(Evaluator& evaluator, const Value* attribute, bool ignore_case) {
  std::vector<AttributeGetter> getters;
  if (attribute == nullptr || !attribute->is_string()) {
    getters.emplace_back(evaluator, attribute, ignore_case);
    return getters;
  }
  for (MarkedText& part : split(evaluator.state(), attribute->as_string(), ",", -1, false)) {
    const Value name = Value::string(std::move(part));
    getters.emplace_back(evaluator, &name, ignore_case);
  }
  return getters;
}

// --- cycler() and joiner().

namespace {

constexpr std::string_view kCycler = "cycler()", kJoiner = "joiner()";

bool is_kind(const RenderState& state, const Value& value, std::string_view kind) {
  if (!value.is(Kind::kNamespace)) return false;
  const Attributes& attributes = *state.namespaces[value.index()];
  return !attributes.empty() && attributes[0].first == kind;
}

// Returns attribute number i of the namespace in which a cycler or joiner is stored.
const Value& field(const RenderState& state, const Value& value, size_t i) {
  return (*state.namespaces[value.index()])[i].second;
}

Value current(const RenderState& state, const Value& cycler) {
  return field(state, cycler, 1).sequence_object().items[static_cast<size_t>(field(state, cycler, 2).as_int())];
}

constexpr Builtin<Value> kCyclerMethods[] = {
    {"next()",
     [](const Call& c) {
       Value item = current(c.state, c.subject);
       const auto n = static_cast<int64_t>(field(c.state, c.subject, 1).sequence_object().items.size());
       const int64_t next = (field(c.state, c.subject, 2).as_int() + 1) % n;
       c.state.set_attribute(c.subject.index(), "pos", Value::integer(next));
       return item;
     }},
    {"reset()",
     [](const Call& c) {
       c.state.set_attribute(c.subject.index(), "pos", Value::integer(0));
       return Value::none();
     }},
};
constexpr Builtin<Value> kJoinerCall = {"joiner()", [](const Call& c) {
                                          if (field(c.state, c.subject, 2).as_bool())
                                            return field(c.state, c.subject, 1);
                                          c.state.set_attribute(c.subject.index(), "used", Value::boolean(true));
                                          return Value::text("");
                                        }};

Value make_cycler(const Call& c) {
  const Arguments& args = c.arguments;
  if (!args.named.empty()) fail("cycler() got an unexpected keyword argument '" + args.named[0].first + "'");
  if (args.positional.empty()) fail("at least one item has to be provided");
  Items items;
  for (const Value& item : args.positional) items.push_back(resolve_messages(c.state, item));
  return c.in.make_namespace(
      {{std::string(kCycler), Value::none()}, {"items", Value::tuple(std::move(items))}, {"pos", Value::integer(0)}});
}

}  // namespace

bool is_cycler(const RenderState& state, const Value& value) { return is_kind(state, value, kCycler); }
bool is_joiner(const RenderState& state, const Value& value) { return is_kind(state, value, kJoiner); }

std::optional<Value> cycler_attribute(const RenderState& state, const Value& value, std::string_view name) {
  if (!is_cycler(state, value)) return std::nullopt;
  if (name == "current") return current(state, value);
  if (const Method method = find_builtin<Value>(kCyclerMethods, name)) return Value::method(value, method);
  return std::nullopt;
}

Value call_joiner(Evaluator& in, const Value& joiner, const Arguments& args) {
  return apply(kJoinerCall, in, joiner, args);
}

namespace {

int time_field(std::string_view now, size_t at, size_t digits, int low, int high) {
  const auto value = now.size() >= at + digits ? parse_int(now.substr(at, digits)) : std::nullopt;
  if (!value || *value < low || *value > high) {
    fail("now is \"" + std::string(now) + "\"; expected YYYY-MM-DDTHH:MM:SS");
  }
  return static_cast<int>(*value);
}

std::tm parse_time(std::string_view now) {
  std::tm time{};
  time.tm_year = time_field(now, 0, 4, 1, 9999) - 1900;
  time.tm_mon = time_field(now, 5, 2, 1, 12) - 1;
  const int day = time.tm_mday = time_field(now, 8, 2, 1, 31);
  time.tm_hour = time_field(now, 11, 2, 0, 23);
  time.tm_min = time_field(now, 14, 2, 0, 59);
  time.tm_sec = time_field(now, 17, 2, 0, 59);
  timegm(&time);  // computes the days of the week and of the year
  if (time.tm_mday != day) fail("now is \"" + std::string(now) + "\", which is not a date");
  time.tm_isdst = -1;  // no time zone: %z and %Z print nothing
  time.tm_zone = nullptr;
  return time;
}

}  // namespace

// Passes one directive at a time to strftime(), so that the output is short, and no width, `E`, `O` or other extension
// of the C library takes effect.
std::string format_time(RenderState& state, std::string_view now, const std::string& format) {
  constexpr std::string_view kDirectives = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyYzZ%";
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::tm time = parse_time(now);
  state.meter.create(format.size() * 12);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool plain = format[++i] == '-' && i + 1 < format.size();  // true after "%-": the number is not padded
    if (plain) ++i;
    if (format[i] == 'f') {
      out += "000000";
    } else if (kDirectives.find(format[i]) == kDirectives.npos) {
      out += {'%', format[i]};
    } else {
      char text[64];
      const char* flags = plain ? "%-" : format[i] == 'C' ? "%02" : "%";  // glibc does not pad %C (the century)
      const std::string directive = std::string(flags) + format[i];
      out.append(text, strftime_l(text, sizeof(text), directive.c_str(), &time, c_locale));
    }
  }
  return out;
}

namespace {

Value make_range(const Call& c) {
  const bool only_stop = !c.has(1);
  const int64_t start = only_stop ? 0 : c.integer(0, 0);
  const int64_t stop = c.integer(only_stop ? 0 : 1, 0);
  const int64_t step = c.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  Value range = Value::range(start, stop, step);
  const auto size = static_cast<uint64_t>(range.range_object().size());
  if (size > c.state.meter.max_range()) {
    fail_budget("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
                std::to_string(c.state.meter.max_range()) + ") (budget: range)");
  }
  return range;
}

// dict(...): takes a dict or a list of pairs, and keyword arguments.
Value make_dict(RenderState& state, const Arguments& args) {
  if (args.positional.size() > 1)
    fail("dict expected at most 1 argument, got " + std::to_string(args.positional.size()));
  DictBuilder dict(state);
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_dict()) {
      for (size_t i = 0; i < dict_size(source); ++i) {
        auto [key, value] = dict_entry(source, i);
        dict.set(key, std::move(value));
      }
    } else {
      for (const Value& pair : iterate(state, source)) {
        const Items items = iterate(state, pair);
        if (items.size() != 2)
          fail("dictionary update sequence element has length " + std::to_string(items.size()) + "; 2 is required");
        dict.set(items[0], items[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named)
    dict.set(Value::text(name, args.name_origin), resolve_messages(state, value));
  return dict.build();
}

Value make_namespace(const Call& c) {
  Attributes attributes;
  const auto put = [&](const std::string& name, const Value& value) {
    for (auto& [key, old] : attributes) {
      if (key == name) {
        old = value;
        return;
      }
    }
    attributes.emplace_back(name, value);
  };
  if (!c.arguments.positional.empty()) {
    const Value dict = make_dict(c.state, {c.arguments.positional, {}, TextOrigin::kTemplate});
    for (const auto& [key, value] : dict.dict_object().entries) put(str(c.state, key).bytes(), value);
  }
  // Do not copy a list of messages: it is stored as a view.
  for (const auto& [name, value] : c.arguments.named) put(name, value);
  return c.in.make_namespace(std::move(attributes));
}

constexpr Builtin<Value> kFunctions[] = {
    {"range(start | stop step)", make_range},
    {"dict(*)", [](const Call& c) { return make_dict(c.state, c.arguments); }},
    {"fromkeys(iterable | value)",
     [](const Call& c) {
       const Value value = resolve_messages(c.state, c.value_or(1, Value::none()));
       DictBuilder dict(c.state);
       for (const Value& key : iterate(c.state, c.at(0))) {
         c.state.meter.create(sizeof(Entry));
         dict.set(key, value);
       }
       return dict.build();
     },
     "dict.fromkeys"},
    {"namespace(*)", make_namespace},
    {"cycler(*)", make_cycler},
    {"joiner(sep)",
     [](const Call& c) {
       return c.in.make_namespace({{std::string(kJoiner), Value::none()},
                                   {"sep", c.value_or(0, Value::text(", "))},
                                   {"used", Value::boolean(false)}});
     }},
    {"lipsum(*)", [](const Call&) -> Value { fail("lipsum() is not supported: a prompt must not depend on chance"); }},
    {"raise_exception(message |)",
     [](const Call& c) -> Value {
       throw Failure{ErrorCode::kTemplateRaise, str(c.state, c.at(0)).bytes()};
     }},
    {"strftime_now(fmt |)",
     [](const Call& c) {
       const MarkedText& format = c.string(0);
       return Value::text(format_time(c.state, c.in.now(), format.bytes()), format.safe_origin());
     }},
};

bool divides(const Call& c, const Value& divisor, int64_t wanted) {
  const Value rest = arithmetic(c.state, ExprKind::kMod, c.subject, divisor);
  return equals(c.state, rest, Value::integer(wanted));
}

bool is_same(const Call& c) {
  const Value& other = c.at(0);
  if (c.subject.kind() != other.kind()) return false;
  if (c.subject.is(Kind::kJsonList) || c.subject.is(Kind::kJsonDict))
    return &c.subject.json_value() == &other.json_value();
  if (c.subject.identity() != nullptr) return c.subject.identity() == other.identity();
  return equals(c.state, c.subject, other);
}

template <CompareOp kOp>
bool compares(const Call& c) {
  return compare(c.state, kOp, c.subject, c.at(0));
}

constexpr Builtin<bool> kTests[] = {
    {"test()", [](const Call& c) { return !c.subject.is_undefined(); }, "defined"},
    {"test()", [](const Call& c) { return c.subject.is_undefined(); }, "undefined"},
    {"test()", [](const Call& c) { return c.subject.is_none(); }, "none"},
    {"test()", [](const Call& c) { return c.subject.is(Kind::kBool); }, "boolean"},
    {"test()", [](const Call& c) { return c.subject.is(Kind::kBool) && c.subject.as_bool(); }, "true"},
    {"test()", [](const Call& c) { return c.subject.is(Kind::kBool) && !c.subject.as_bool(); }, "false"},
    {"test()", [](const Call& c) { return c.subject.is(Kind::kInt); }, "integer"},
    {"test()", [](const Call& c) { return c.subject.is(Kind::kFloat); }, "float"},
    {"test()", [](const Call& c) { return c.subject.is_number(); }, "number"},
    {"test()", [](const Call& c) { return c.subject.is_string(); }, "string"},
    {"test()", [](const Call& c) { return c.subject.is_dict(); }, "mapping"},
    {"test()", [](const Call& c) { return c.subject.is_markup(); }, "escaped"},
    {"test()",
     [](const Call& c) {
       const Value& v = c.subject;
       return v.is(Kind::kFunction) || v.is(Kind::kMacro) || v.is(Kind::kMethod) || v.is(Kind::kLoop) ||
              v.is_undefined();
     },
     "callable"},
    {"test()",
     // True if Python would look up len() and [] for the value. An undefined value counts: it has both, and only their
     // calls fail.
     [](const Call& c) {
       const Value& v = c.subject;
       return v.is_undefined() || v.is_string() || v.is_dict() || v.is(Kind::kMessages) || is_indexable(v);
     },
     "sequence"},
    {"iterable()", [](const Call& c) { return is_iterable(c.subject); }},
    {"sameas(other |)", is_same},
    {"even()", [](const Call& c) { return divides(c, Value::integer(2), 0); }},
    {"odd()", [](const Call& c) { return divides(c, Value::integer(2), 1); }},
    {"divisibleby(num |)", [](const Call& c) { return divides(c, c.at(0), 0); }},
    {"lower()", [](const Call& c) { return has_only_case(str(c.state, c.subject).view(), false); }},
    {"upper()", [](const Call& c) { return has_only_case(str(c.state, c.subject).view(), true); }},
    {"filter()", [](const Call& c) { return c.subject.is_string() && find_filter(c.subject.bytes()) != nullptr; }},
    {"test()", [](const Call& c) { return c.subject.is_string() && find_test(c.subject.bytes()) != nullptr; }},
    {"comparison(other |)", compares<CompareOp::kIn>, "in"},
    {"comparison(other |)", compares<CompareOp::kEq>, "eq equalto =="},
    {"comparison(other |)", compares<CompareOp::kNe>, "ne !="},
    {"comparison(other |)", compares<CompareOp::kLt>, "lt lessthan <"},
    {"comparison(other |)", compares<CompareOp::kLe>, "le <="},
    {"comparison(other |)", compares<CompareOp::kGt>, "gt greaterthan >"},
    {"comparison(other |)", compares<CompareOp::kGe>, "ge >="},
};

}  // namespace

Function find_global(std::string_view name) { return find_builtin<Value>(kFunctions, name); }
Test find_test(std::string_view name) { return find_builtin<bool>(kTests, name); }

}  // namespace ibid::jinja
