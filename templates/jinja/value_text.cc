#include "templates/jinja/value_text.h"

#include "base/utf8.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/number_text.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

void append_escape(std::string& out, uint32_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(c >> shift) & 15];
}

// repr() of a str, each character under its own origin.
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
      print_repr(Value::text(name, TextOrigin::kInput));  // it may come from a dict of the caller
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

}  // namespace ibid::jinja
