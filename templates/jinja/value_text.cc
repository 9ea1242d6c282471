#include "templates/jinja/operations.h"

#include <algorithm>

#include "base/json_limits.h"
#include "base/utf8.h"
#include "templates/jinja/python_text.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {
namespace {

void append_escape(std::string& out, uint32_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(c >> shift) & 15];
}

// repr() of a str; each character keeps its origin.
void append_string_repr(MarkedText& out, const MarkedText& text) {
  const bool has_single = text.bytes().find('\'') != std::string::npos;
  const char quote = has_single && text.bytes().find('"') == std::string::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1), TextOrigin::kTemplate);
  for (const auto [run, origin] : text.runs()) {
    std::string piece;
    for (size_t i = 0; i < run.size();) {
      const DecodedChar c = utf8_decode(run, i);
      if (c.code_point == static_cast<uint32_t>(quote) || c.code_point == '\\') {
        piece += '\\';
        piece += static_cast<char>(c.code_point);
      } else if (c.code_point == '\n') {
        piece += "\\n";
      } else if (c.code_point == '\r') {
        piece += "\\r";
      } else if (c.code_point == '\t') {
        piece += "\\t";
      } else if (c.valid && !is_printable(c.code_point)) {
        append_escape(piece, c.code_point);
      } else {
        piece += run.substr(i, c.length);
      }
      i += c.length;
    }
    out.append(piece, origin);
  }
  out.append(std::string_view(&quote, 1), TextOrigin::kTemplate);
}

class Printer {
 public:
  Printer(RenderState& state, MarkedText& out) : state_(state), out_(out) {}

  void print_repr(const Value& value) {
    const auto level = state_.meter.enter_node();
    state_.meter.step();
    switch (value.kind()) {
      case Kind::kUndefined: return put("Undefined");
      case Kind::kNone: return put("None");
      case Kind::kBool: return put(value.as_bool() ? "True" : "False");
      case Kind::kInt: return put(std::to_string(value.as_int()));
      case Kind::kFloat: return put(float_text(value.as_double()));
      case Kind::kString:
        state_.meter.create(value.bytes().size());
        if (value.is_markup()) put("Markup(");
        append_string_repr(out_, value.as_string());
        if (value.is_markup()) put(")");
        return;
      case Kind::kMessages: return print_repr(resolve_messages(state_, value));
      case Kind::kDict:
      case Kind::kJsonDict: return print_dict(value);
      case Kind::kJsonList: return print_items(value, "[", "]");
      case Kind::kRange: return print_range(value.range_object());
      case Kind::kSequence: return print_sequence(value);
      case Kind::kNamespace: return print_namespace(value);
      case Kind::kFunction: return put("<function " + value.function_object().name + ">");
      case Kind::kMacro: return put("<Macro '" + value.macro_object().node->name + "'>");
      case Kind::kMethod: return put("<built-in method>");
      case Kind::kLoop: return put("<LoopContext>");
    }
  }

 private:
  void put(std::string_view text) { out_.append(text, TextOrigin::kTemplate); }

  void print_items(const Value& value, std::string_view open, std::string_view close) {
    put(open);
    for (size_t i = 0; i < indexable_size(value); ++i) {
      if (i != 0) put(", ");
      print_repr(element(value, i));
    }
    put(close);
  }

  void print_sequence(const Value& value) {
    const SequenceObject& sequence = value.sequence_object();
    switch (sequence.style) {
      case SequenceStyle::kList: return print_items(value, "[", "]");
      case SequenceStyle::kTuple:
      case SequenceStyle::kGroup: return print_items(value, "(", sequence.items.size() == 1 ? ",)" : ")");
      case SequenceStyle::kGenerator: return put("<generator object>");
      default: break;
    }
    put(type_name(value));
    put("([");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i != 0) put(", ");
      print_repr(sequence.items[i]);
    }
    put("])");
  }

  void print_dict(const Value& value) {
    put("{");
    for (size_t i = 0; i < dict_size(value); ++i) {
      const auto [key, item] = dict_entry(value, i);
      if (i != 0) put(", ");
      print_repr(key);
      put(": ");
      print_repr(item);
    }
    put("}");
  }

  void print_range(const RangeObject& range) {
    put("range(" + std::to_string(range.start) + ", " + std::to_string(range.stop));
    if (range.step != 1) put(", " + std::to_string(range.step));
    put(")");
  }

  void print_namespace(const Value& value) {
    put("<Namespace {");
    const auto attributes = state_.namespaces[value.index()];
    for (size_t i = 0; i < attributes->size(); ++i) {
      const auto& [name, item] = (*attributes)[i];
      if (i != 0) put(", ");
      print_repr(Value::text(name, TextOrigin::kInput));  // kInput, because a request may contain the name
      put(": ");
      print_repr(item);
    }
    put("}>");
  }

  RenderState& state_;
  MarkedText& out_;
};

}  // namespace

MarkedText repr(RenderState& state, const Value& value) {
  MarkedText out;
  Printer(state, out).print_repr(value);
  return out;
}

MarkedText str(RenderState& state, const Value& value) {
  if (value.is_string()) {
    state.meter.scan(value.bytes().size());
    return value.as_string();
  }
  if (value.is_undefined()) return {};
  return repr(state, value);
}

MarkedText escape_html(const MarkedText& text) {
  MarkedText out;
  for (const auto [run, origin] : text.runs()) {
    std::string piece;
    for (const char c : run) {
      switch (c) {
        case '&': piece += "&amp;"; break;
        case '<': piece += "&lt;"; break;
        case '>': piece += "&gt;"; break;
        case '"': piece += "&#34;"; break;
        case '\'': piece += "&#39;"; break;
        default: piece += c;
      }
    }
    out.append(piece, origin);
  }
  return out;
}

// --- json.dumps. Writes the caller's JSON directly, so that numbers beyond 64 signed bits are unchanged.

namespace {

void append_u16(std::string& out, uint32_t unit) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(unit >> shift) & 15];
}

void append_json_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      const DecodedChar c = utf8_decode(text, i);
      if (!ensure_ascii || !c.valid) {
        out += text.substr(i, c.length);
      } else if (c.code_point < 0x10000) {
        append_u16(out, c.code_point);
      } else {
        append_u16(out, 0xD800 + ((c.code_point - 0x10000) >> 10));
        append_u16(out, 0xDC00 + ((c.code_point - 0x10000) & 0x3FF));
      }
      i += c.length;
      continue;
    }
    switch (byte) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\f': out += "\\f"; break;
      case '\b': out += "\\b"; break;
      default:
        if (byte < 0x20 || (byte == 0x7F && ensure_ascii)) {
          append_u16(out, byte);
        } else {
          out += text[i];
        }
    }
    ++i;
  }
  out += '"';
}

class Dumper {
 public:
  Dumper(RenderState& state, const JsonStyle& style) : state_(state), style_(style) {}

  void dump(const Value& value, size_t level) {
    const auto guard = state_.meter.enter_node();
    state_.meter.step();
    switch (value.kind()) {
      case Kind::kNone: out_ += "null"; return;
      case Kind::kBool: out_ += value.as_bool() ? "true" : "false"; return;
      case Kind::kInt: out_ += std::to_string(value.as_int()); return;
      case Kind::kFloat: out_ += float_json(value.as_double()); return;
      case Kind::kString:
        state_.meter.create(value.bytes().size());
        append_json_string(out_, value.bytes(), style_.ensure_ascii);
        return;
      case Kind::kDict:
      case Kind::kJsonDict: return dump_dict(value, level);
      case Kind::kMessages: return dump(resolve_messages(state_, value), level);
      case Kind::kJsonList: return dump_list(value, level);
      case Kind::kSequence:
        if (value.is_list() || value.is_tuple()) return dump_list(value, level);
        break;
      default: break;
    }
    fail("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
  }

  std::string take() { return std::move(out_); }

 private:
  void new_line(size_t level) {
    if (!style_.indent) return;
    state_.meter.check_string(style_.indent->size() * level);
    state_.meter.create(style_.indent->size() * level + 1);
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void dump_list(const Value& value, size_t level) {
    const size_t size = indexable_size(value);
    if (size == 0) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < size; ++i) {
      if (i != 0) separate();
      new_line(level + 1);
      if (value.is(Kind::kJsonList) && big_number(value.json_value()[i])) continue;
      dump(element(value, i), level + 1);
    }
    new_line(level);
    out_ += ']';
  }

  void dump_dict(const Value& value, size_t level) {
    const size_t size = dict_size(value);
    if (size == 0) {
      out_ += "{}";
      return;
    }
    std::vector<size_t> order(size);
    for (size_t i = 0; i < size; ++i) order[i] = i;
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        state_.meter.step();
        return less(state_, dict_entry(value, a).first, dict_entry(value, b).first);
      });
    }
    out_ += '{';
    bool first = true;
    for (const size_t i : order) {
      if (!first) separate();
      first = false;
      new_line(level + 1);
      const auto [key, item] = dict_entry(value, i);
      append_json_string(out_, key_text(key), style_.ensure_ascii);
      out_ += style_.key_separator;
      if (value.is(Kind::kJsonDict)) {
        const auto& object = value.json_value().get_ref<const Json::object_t&>();
        if (big_number((object.begin() + static_cast<ptrdiff_t>(i))->second)) continue;
      }
      dump(item, level + 1);
    }
    new_line(level);
    out_ += '}';
  }

  void separate() {
    state_.meter.create(style_.item_separator.size() + style_.key_separator.size());
    out_ += style_.item_separator;
  }

  // Writes a number that a Value can only hold as a double. Returns false for other values.
  bool big_number(const Json& json) {
    if (!json.is_number_unsigned() || json.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) return false;
    out_ += std::to_string(json.get<uint64_t>());
    return true;
  }

  static std::string key_text(const Value& key) {
    switch (key.kind()) {
      case Kind::kString: return key.bytes();
      case Kind::kNone: return "null";
      case Kind::kBool: return key.as_bool() ? "true" : "false";
      case Kind::kInt: return std::to_string(key.as_int());
      case Kind::kFloat: return float_json(key.as_double());
      default: fail("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
  }

  RenderState& state_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

MarkedText json_dumps(RenderState& state, const Value& value, const JsonStyle& style) {
  Dumper dumper(state, style);
  dumper.dump(value, 0);
  return MarkedText(dumper.take(), origin_of(value));
}

}  // namespace ibid::jinja
