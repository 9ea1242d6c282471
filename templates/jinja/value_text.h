// Values as text: Python's str() and repr(), JSON, and HTML escapes. Origins are kept.
#pragma once

#include <optional>
#include <string>

#include "base/marked_text.h"
#include "templates/jinja/state.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

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

}  // namespace ibid::jinja
