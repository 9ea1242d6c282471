// Operations on values: iteration and look-up, Python's operators, text of values, and formats. Lists, dicts and
// iterables are treated alike whether they come from JSON or were built by the template. Error texts are Python's.
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

// Returns `value`; if it is the messages, as a list, which counts as a read of their end (state.h).
Value resolve_messages(RenderState& state, const Value& value);

// Python's name of the type, as in its error messages: "str", "dict", "NoneType".
std::string_view type_name(const Value& value);

// Returns the elements: characters of a string, keys of a dict; none for an undefined value. Consumes a generator.
// Fails if `value` is not iterable.
Items iterate(RenderState& state, const Value& value);
bool is_iterable(const Value& value);
// Takes one element from a generator; nullopt if the generator is exhausted or `value` is no generator.
std::optional<Value> next_of_generator(const Value& value);

// len(). Fails for values without a length.
size_t length(RenderState& state, const Value& value);

// Returns an element of a list, tuple or range. REQUIRES: is_indexable(value), index < indexable_size(value).
bool is_indexable(const Value& value);
size_t indexable_size(const Value& value);
Value element(const Value& value, size_t index);

// --- Dicts. Each REQUIRES value.is_dict().
size_t dict_size(const Value& value);
Entry dict_entry(const Value& value, size_t index);
std::optional<Value> dict_find(RenderState& state, const Value& value, const Value& key);
// As dict_find() for a key that is text.
std::optional<Value> dict_find(RenderState& state, const Value& value, std::string_view key);

// kInput if any string in `value`, at any depth, is kInput.
TextOrigin origin_of(const Value& value);

// True if `value` is or contains a namespace, a closure or a generator. Such an object belongs to one iteration of a
// loop.
bool holds_reference(const Value& value);

// Builds a dict as Python does: setting an equal key again replaces the value and keeps the key's position.
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

// --- Elements and slices of texts, sequences and the messages, as in Python. Errors for missing elements are Jinja's.

// Describes an object as Jinja does in "... has no attribute".
std::string object_name(const Value& value);
Value no_attribute(const Value& object, const std::string& name);

// object[key]; undefined if Python would raise LookupError or TypeError. REQUIRES: key is integral; object is a string,
// is_indexable() or the messages.
Value indexed(RenderState& state, const Value& object, const Value& key);
// object[start:stop:step]; None for an omitted bound.
Value slice(RenderState& state, const Value& object, const Value& start, const Value& stop, const Value& step);

bool truthy(RenderState& state, const Value& value);
bool equals(RenderState& state, const Value& a, const Value& b);
// a < b; fails for types without an order. `sign` is the operator in the message.
bool less(RenderState& state, const Value& a, const Value& b, const char* sign = "<");
bool contains(RenderState& state, const Value& container, const Value& item);
bool compare(RenderState& state, CompareOp op, const Value& a, const Value& b);

// + - * / // % **. REQUIRES: neither operand is the messages: call resolve_messages() first.
Value arithmetic(RenderState& state, ExprKind op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

// --- Values as text: Python's str() and repr(), JSON, and HTML escapes. Origins are kept.

MarkedText str(RenderState& state, const Value& value);
MarkedText repr(RenderState& state, const Value& value);

// Escapes & < > " ' as markupsafe.escape does.
MarkedText escape_html(const MarkedText& text);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // text for each level of indentation; nullopt: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
// json.dumps. All of the text counts as input if any string in `value` does.
MarkedText json_dumps(RenderState& state, const Value& value, const JsonStyle& style);

// --- Python's two ways to format text: '%s' % x and '{}'.format(x). Inserted text keeps its origin; if any of the
// format is input, all of the result is.

class Evaluator;

Value format_percent(RenderState& state, const Value& format, const Value& arguments);
Value format_braces(Evaluator& evaluator, const Value& format, const Arguments& arguments);

// Pads `text` with `fill` to `width` characters. align: '<', '>' or '^' (an odd character goes where str.center puts
// it).
MarkedText pad(RenderState& state, const MarkedText& text, int64_t width, char align, std::string_view fill = " ",
               TextOrigin fill_origin = TextOrigin::kTemplate);

// Returns `text`; if the format contains input, all of `text` counts as input.
MarkedText under_format(const Value& format, MarkedText text);

}  // namespace ibid::jinja
