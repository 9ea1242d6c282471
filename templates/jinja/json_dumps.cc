// json.dumps of value_text.h. JSON from outside is written straight from the caller's tree, so numbers beyond
// 64 signed bits come out as they went in.
#include <algorithm>

#include "base/json_limits.h"
#include "base/utf8.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/number_text.h"
#include "templates/jinja/operators.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
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

  // Writes a number that Value can hold only as a double.
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
