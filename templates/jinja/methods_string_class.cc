// str.isdigit() and its kin: questions about every character of a string.
#include "base/utf8.h"
#include "templates/jinja/arguments.h"
#include "templates/jinja/methods.h"
#include "templates/jinja/unicode_text.h"

namespace ibid::jinja {
namespace {

bool is_ascii(uint32_t c) { return c < 0x80; }

// True when `text` is not empty (or kEmpty) and every character is of the class.
template <bool (*kClass)(uint32_t), bool kEmpty = false>
Value all_of(Evaluator&, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "str method", {});
  const std::string_view text = self.bytes();
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = utf8_decode(text, i);
    if (!c.valid || !kClass(c.code_point)) return Value::boolean(false);
    i += c.length;
  }
  return Value::boolean(kEmpty || !text.empty());
}

// islower, isupper: at least one letter of that case and none of another.
template <bool (*kWanted)(uint32_t), bool (*kUnwanted)(uint32_t)>
Value has_case(Evaluator&, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "str method", {});
  const std::string_view text = self.bytes();
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = utf8_decode(text, i);
    if (kUnwanted(c.code_point) || is_title(c.code_point)) return Value::boolean(false);
    any |= kWanted(c.code_point);
    i += c.length;
  }
  return Value::boolean(any);
}

Value istitle(Evaluator&, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "istitle", {});
  const std::string_view text = self.bytes();
  bool any = false, previous_cased = false;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = utf8_decode(text, i);
    const bool upper = is_upper(c.code_point) || is_title(c.code_point), lower = is_lower(c.code_point);
    if ((upper && previous_cased) || (lower && !previous_cased)) return Value::boolean(false);
    previous_cased = upper || lower;
    any |= previous_cased;
    i += c.length;
  }
  return Value::boolean(any);
}

// isidentifier: UAX 31's XID_Start and XID_Continue, as categories with what differs from them.
Value isidentifier(Evaluator&, const Value& self, const Arguments& args) {
  const Parameters parameters(args, "isidentifier", {});
  const std::string_view text = self.bytes();
  bool first = true;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = utf8_decode(text, i);
    if (!c.valid || !may_be_in_identifier(c.code_point, first)) return Value::boolean(false);
    first = false;
    i += c.length;
  }
  return Value::boolean(!first);
}

}  // namespace

Method find_string_class_method(std::string_view name) {
  if (name == "isalnum") return all_of<is_alnum>;
  if (name == "isalpha") return all_of<is_alpha>;
  if (name == "isascii") return all_of<is_ascii, true>;
  if (name == "isidentifier") return isidentifier;
  if (name == "isdecimal") return all_of<is_decimal>;
  if (name == "isdigit") return all_of<is_digit>;
  if (name == "isnumeric") return all_of<is_numeric>;
  if (name == "isprintable") return all_of<is_printable, true>;
  if (name == "isspace") return all_of<is_space>;
  if (name == "islower") return has_case<is_lower, is_upper>;
  if (name == "isupper") return has_case<is_upper, is_lower>;
  if (name == "istitle") return istitle;
  return nullptr;
}

}  // namespace ibid::jinja
