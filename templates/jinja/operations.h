// Operations on values: iteration, look-up, Python's operators, conversion to text, and formats. Lists, dicts and
// iterables behave alike whether they come from JSON or the template built them. Error texts are Python's.
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

// Returns `value`; if it is the messages, as a list, which counts as a read of the end of the messages (state.h).
Value resolve_messages(RenderState& state, const Value& value);

// Returns Python's name of the type, as in its error messages: "str", "dict", "NoneType".
std::string_view type_name(const Value& value);

// Returns the elements: characters of a string, keys of a dict; an undefined value has none. Consumes a generator.
// Fails if `value` is not iterable.
Items iterate(RenderState& state, const Value& value);
bool is_iterable(const Value& value);
// Takes one element from a generator; nullopt if the generator is exhausted or `value` is not a generator.
std::optional<Value> next_of_generator(const Value& value);

// Returns len(value). Fails for values without a length.
size_t length(RenderState& state, const Value& value);

// True for lists, tuples and ranges; REQUIRED by the functions below. element() REQUIRES index < indexable_size(value).
bool is_indexable(const Value& value);
size_t indexable_size(const Value& value);
Value element(const Value& value, size_t index);

// --- Dicts. Each function REQUIRES value.is_dict().
size_t dict_size(const Value& value);
Entry dict_entry(const Value& value, size_t index);
std::optional<Value> dict_find(RenderState& state, const Value& value, const Value& key);
// As dict_find() for a key that is text.
std::optional<Value> dict_find(RenderState& state, const Value& value, std::string_view key);

// Returns kInput if any string in `value`, at any depth, is kInput.
TextOrigin origin_of(const Value& value);

// True if `value` is or contains a namespace, a closure or a generator: an object that belongs to one iteration of a
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
  std::unordered_map<std::string, size_t> strings_;  // by key, for keys that are strings: index of the entry
};

// --- Elements and slices of texts, sequences and the messages, as in Python. Errors for missing elements are Jinja's.

// Returns the name of an object for Jinja's error "... has no attribute".
std::string object_name(const Value& value);
Value no_attribute(const Value& object, const std::string& name);

// Returns object[key]; undefined if Python would raise LookupError or TypeError. REQUIRES: key is integral; object is a
// string, is_indexable() or the messages.
Value indexed(RenderState& state, const Value& object, const Value& key);
// Returns object[start:stop:step]. None stands for a bound that is not given.
Value slice(RenderState& state, const Value& object, const Value& start, const Value& stop, const Value& step);

bool truthy(RenderState& state, const Value& value);
bool equals(RenderState& state, const Value& a, const Value& b);
// Returns a < b. Fails for types without an order; the message names the operator `sign`.
bool less(RenderState& state, const Value& a, const Value& b, const char* sign = "<");
bool contains(RenderState& state, const Value& container, const Value& item);
bool compare(RenderState& state, CompareOp op, const Value& a, const Value& b);

// Computes + - * / // % **. REQUIRES: neither operand is the messages: call resolve_messages() first.
Value arithmetic(RenderState& state, ExprKind op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);

// --- Conversion of values to text: Python's str() and repr(), JSON, and HTML escapes. Origins are kept.

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
// Returns json.dumps(value). If any string in `value` is input, all of the text counts as input.
MarkedText json_dumps(RenderState& state, const Value& value, const JsonStyle& style);

// --- Python's two ways to format text: '%s' % x and '{}'.format(x). Inserted text keeps its origin; if any part of the
// format is input, all of the result is input.

class Evaluator;

Value format_percent(RenderState& state, const Value& format, const Value& arguments);
Value format_braces(Evaluator& evaluator, const Value& format, const Arguments& arguments);

// Pads `text` with `fill` to `width` characters. align: '<', '>' or '^'. If '^' needs an odd number of fill characters,
// the extra one is on the side where str.center has it.
MarkedText pad(RenderState& state, const MarkedText& text, int64_t width, char align, std::string_view fill = " ",
               TextOrigin fill_origin = TextOrigin::kTemplate);

// Returns `text`, which was made from the format string `format`. If the format contains input, all of the text counts
// as input.
MarkedText under_format(const Value& format, MarkedText text);

}  // namespace ibid::jinja
