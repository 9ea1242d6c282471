// Builtins: the filters, tests, functions and methods that a template calls by name, as rows of constant tables, and
// the calls that they receive. `tojson` and strftime_now behave as in transformers, all others as in Jinja and Python.
// Error texts are Python's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "templates/jinja/evaluator.h"
#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

// One call: the subject of a filter, test or method, and the arguments, bound to parameters as in Python.
class Call {
 public:
  // `signature`: "replace(old new | count)", where names before the bar are required, or "map(*)" for a builtin that
  // binds its arguments itself. Fails for too many positional, unknown or duplicate named arguments, and for a missing
  // required one. All arguments must outlive the object.
  Call(std::string_view signature, Evaluator& evaluator, const Value& of, const Arguments& given);

  Evaluator& in;
  RenderState& state;
  const Value& subject;  // value to which the filter, test or method is applied; undefined if a function is called
  const Arguments& arguments;  // as written in the call, not bound to parameters

  std::string_view name() const { return name_; }
  // Returns argument i, or nullptr if the call does not pass it.
  const Value* get(size_t i) const { return bound_[i]; }
  bool has(size_t i) const { return bound_[i] != nullptr; }
  // True if argument i is passed and is not None.
  bool has_value(size_t i) const { return has(i) && !at(i).is_none(); }
  const Value& at(size_t i) const { return *bound_[i]; }  // REQUIRES: has(i)
  Value value_or(size_t i, const Value& fallback) const { return has(i) ? at(i) : fallback; }

  bool flag(size_t i, bool fallback) const;
  // Returns argument i as an integer, or `fallback` if it is not passed. Fails if it is not an integer (None included).
  int64_t integer(size_t i, int64_t fallback) const;
  // As integer(), but returns `fallback` for None too, as if the argument were not passed.
  int64_t integer_or_none(size_t i, int64_t fallback) const;
  // Returns argument i. Fails if it is not a string.
  const MarkedText& string(size_t i) const;

 private:
  static constexpr size_t kMaxParameters = 4;

  void bind(std::span<const std::string_view> names, size_t n_required);

  std::string_view name_;
  std::array<const Value*, kMaxParameters> bound_{};
};

template <typename Result>
struct Builtin {
  std::string_view signature;
  Result (*run)(const Call&);
  // The builtin's names in templates, separated by blanks. Empty: the name in its signature is the only one.
  std::string_view names = {};
};

template <typename Result>
Result apply(const Builtin<Result>& builtin, Evaluator& in, const Value& subject, const Arguments& arguments) {
  return builtin.run(Call(builtin.signature, in, subject, arguments));
}

// True if `name` is one of `names`, which are separated by blanks.
bool is_name_in(std::string_view names, std::string_view name);

// Finds the builtin that has this name in a table; nullptr: no row of the table has it.
template <typename Result>
const Builtin<Result>* find_builtin(std::span<const Builtin<Result>> rows, std::string_view name) {
  for (const Builtin<Result>& row : rows) {
    const bool is_own = row.signature.starts_with(name) && row.signature.substr(name.size()).starts_with('(');
    if (row.names.empty() ? is_own : is_name_in(row.names, name)) return &row;
  }
  return nullptr;
}

// Each of these functions returns nullptr if no builtin of the kind has this name.
Filter find_filter(std::string_view name);
Test find_test(std::string_view name);
// Also finds "dict.fromkeys", which in a template is written as an attribute of `dict`.
Function find_global(std::string_view name);
// Returns the method that the type of `value` has under this name.
Method find_method(const Value& value, std::string_view name);
// Returns the error text for an unknown filter. If Jinja itself has the filter, the text says so.
std::string no_filter(const std::string& name);

// True for attributes that Jinja's sandbox hides: methods that would change the object, and names that begin with "__".
bool is_unsafe_attribute(const Value& value, std::string_view name);

// Formats `now` in the C locale and without time zone, as strftime() of Python's datetime.now() does.
std::string format_time(RenderState& state, std::string_view now, const std::string& format);

// --- The filters for text and the methods of str. Their tables are in builtins_text.cc.
Filter find_text_filter(std::string_view name);
Method find_string_method(std::string_view name);

// --- cycler() and joiner() of Jinja: objects that change with each use. They are stored as namespaces (state.h) whose
// first attribute has a name that no template can write.
bool is_cycler(const RenderState& state, const Value& value);
bool is_joiner(const RenderState& state, const Value& value);
// Returns next, reset or current of a cycler; nullopt for other values and names.
std::optional<Value> cycler_attribute(const RenderState& state, const Value& value, std::string_view name);
// Returns the empty text at the first call, then the separator. REQUIRES: is_joiner(joiner).
Value call_joiner(Evaluator& in, const Value& joiner, const Arguments& args);

// --- AttributeGetter: returns the key of an item, for filters that sort, group or select items by a key:
// attribute='a.b'.
class AttributeGetter {
 public:
  // `attribute` selects the key of an item. nullptr or None: the item itself. An integer: an index. A text: a path of
  // names separated by dots, in which digits are an index. ignore_case: converts keys that are text to lower case.
  AttributeGetter(Evaluator& evaluator, const Value* attribute, bool ignore_case = false,
                  std::optional<Value> fallback = std::nullopt);
  // Returns a list with the key of `item` by each getter ("a,b").
  static Items all(std::vector<AttributeGetter>& getters, const Value& item);

  Value operator()(const Value& item);

 private:
  Evaluator& evaluator_;
  Items parts_;
  bool ignore_case_;
  std::optional<Value> fallback_;
};

// Returns one getter for each part of `attribute` ("a,b"). If `attribute` is nullptr or None, returns one getter, of
// the item itself.
std::vector<AttributeGetter> attribute_getters(Evaluator& evaluator, const Value* attribute, bool ignore_case);

}  // namespace ibid::jinja
