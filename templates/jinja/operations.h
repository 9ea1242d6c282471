// Operations on values: iterating and looking up, Python's operators, texts of values, and formats. One view of
// lists, dicts and everything that can be iterated, whether they live in JSON or in values. Failures carry Python's
// words.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/marked_text.h"
#include "templates/jinja/ast.h"
#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

// `value`, but messages become a list (which asks for their end).
Value resolve_messages(RenderState& state, const Value& value);

// Python's name of the type, as its error messages have it: "str", "dict", "NoneType".
std::string_view type_name(const Value& value);

// The elements: characters of a string, keys of a dict; none of an undefined value. A generator is used up.
// Fails for what cannot be iterated.
Items iterate(RenderState& state, const Value& value);
bool is_iterable(const Value& value);
// Takes one element out of a generator; nullopt for an empty one and for every other value.
std::optional<Value> next_of_generator(const Value& value);

// len(). Fails for what has none.
size_t length(RenderState& state, const Value& value);

// Element by index of a list, tuple or range. REQUIRES: is_indexable(value), index < indexable_size(value).
bool is_indexable(const Value& value);
size_t indexable_size(const Value& value);
Value element(const Value& value, size_t index);

// --- Dicts. Each REQUIRES value.is_dict().
size_t dict_size(const Value& value);
Entry dict_entry(const Value& value, size_t index);
std::optional<Value> dict_find(RenderState& state, const Value& value, const Value& key);
// The value of a key that is text.
std::optional<Value> dict_find(RenderState& state, const Value& value, std::string_view key);

// The strings in `value` and below: kInput when any is.
TextOrigin origin_of(const Value& value);

// True when `value` is or holds a namespace, a closure or a generator: something that belongs to an
// iteration.
bool holds_reference(const Value& value);

// Builds a dict as Python does: a later equal key replaces the value and keeps the earlier place.
class DictBuilder {
 public:
  explicit DictBuilder(RenderState& state) : state_(state) {}
  // Fails for keys that Python cannot hash.
  void set(const Value& key, Value value);
  Value build() { return Value::dict(std::move(entries_)); }

 private:
  RenderState& state_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> strings_;  // index of each key that is a string
};

// --- Elements and slices of texts, sequences and the messages, as Python has them, and how Jinja speaks of what is
// missing.

// How Jinja calls an object in "... has no attribute".
std::string object_name(const Value& value);
Value no_attribute(const Value& object, const std::string& name);

// object[key] where that is an element; undefined where Python raises LookupError or TypeError.
// REQUIRES: key is integral; object is a string, is_indexable() or the messages.
Value indexed(RenderState& state, const Value& object, const Value& key);
// object[start:stop:step]; None where a bound is not given.
Value slice(RenderState& state, const Value& object, const Value& start, const Value& stop, const Value& step);

// --- Operators.

bool truthy(RenderState& state, const Value& value);
bool equals(RenderState& state, const Value& a, const Value& b);
// a < b; fails for types without an order. `sign` is the operator's text in the message.
bool less(RenderState& state, const Value& a, const Value& b, const char* sign = "<");
bool contains(RenderState& state, const Value& container, const Value& item);
bool compare(RenderState& state, CompareOp op, const Value& a, const Value& b);

// + - * / // % ** ; messages are resolved by the caller.
Value arithmetic(RenderState& state, ExprKind op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

// --- Values as text: Python's str() and repr(), JSON, and HTML escapes. Origins are kept.

MarkedText str(RenderState& state, const Value& value);
MarkedText repr(RenderState& state, const Value& value);

// & < > " ' as markupsafe.escape writes them.
MarkedText escape_html(const MarkedText& text);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level; nullopt: on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// json.dumps. The text counts as input as a whole when any string in `value` is.
MarkedText json_dumps(RenderState& state, const Value& value, const JsonStyle& style);

// --- Python's two ways to format text: '%s' % x and '{}'.format(x). Inserted text keeps its origin; under a format
// that is not all the template's own, everything is input.

class Evaluator;

Value format_percent(RenderState& state, const Value& format, const Value& arguments);
Value format_braces(Evaluator& evaluator, const Value& format, const Arguments& arguments);

// `text` padded with `fill` to `width` characters. align: '<', '>' or '^' (str.center's way of rounding).
MarkedText pad(RenderState& state, const MarkedText& text, int64_t width, char align,
                 std::string_view fill = " ", TextOrigin fill_origin = TextOrigin::kTemplate);

// `text`, formatted by `format`: as it is, or all input when the format has input in it.
MarkedText under_format(const Value& format, MarkedText text);

}  // namespace ibid::jinja
