// str.format of format.h: '{} {0} {name.attribute[key]!r:>8}'.
#include "templates/jinja/collections.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/format.h"
#include "templates/jinja/format_spec.h"
#include "templates/jinja/number_text.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(Evaluator& evaluator, const Value& format, const Arguments& arguments)
      : in_(evaluator), state_(evaluator.state()), format_(format.as_string()), arguments_(arguments) {}

  MarkedText run() {
    const std::string_view text = format_.view();
    state_.meter.scan(text.size());
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t brace = std::min(text.find_first_of("{}", begin), text.size());
      out_.append(format_.substr(begin, brace));
      if (brace == text.size()) break;
      const bool doubled = brace + 1 < text.size() && text[brace + 1] == text[brace];
      if (doubled) {
        out_.append(format_.substr(brace, brace + 1));
        begin = brace + 2;
        continue;
      }
      if (text[brace] == '}') fail("Single '}' encountered in format string");
      const size_t close = text.find('}', brace);
      if (close == std::string_view::npos) fail("expected '}' before end of string");
      field(text.substr(brace + 1, close - brace - 1));
      state_.meter.check_string(out_.size());
      begin = close + 1;
    }
    return std::move(out_);
  }

 private:
  void field(std::string_view text) {
    if (text.find('{') != std::string_view::npos) fail("nested fields in a format are not supported");
    const size_t colon = std::min(text.find(':'), text.size());
    std::string_view name = text.substr(0, colon);
    const FormatSpec spec =
        parse_format_spec(colon < text.size() ? text.substr(colon + 1) : std::string_view());
    char conversion = 0;
    if (const size_t bang = name.rfind('!'); bang != std::string_view::npos) {
      if (bang + 2 != name.size()) fail("expected ':' after conversion specifier");
      conversion = name[bang + 1];
      name = name.substr(0, bang);
    }
    const Value value = resolve(name);
    if (conversion == 0 && value.is_number() && !value.is(Kind::kBool))
      return out_.append(format_number(state_, value, spec));
    if (conversion == 'r' || conversion == 'a')
      return out_.append(format_text(state_, repr(state_, value), spec));
    if (conversion != 0 && conversion != 's')
      fail("Unknown conversion specifier " + std::string(1, conversion));
    out_.append(format_text(state_, str(state_, value), spec));
  }

  // first(.attribute | [key])*
  Value resolve(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first(name.substr(0, end));
    for (size_t i = end; i < name.size();) {
      const bool is_key = name[i] == '[';
      const size_t stop = is_key ? name.find(']', i) : std::min(name.find_first_of(".[", i + 1), name.size());
      if (stop == std::string_view::npos) fail("Missing ']' in format string");
      const std::string part(name.substr(i + 1, stop - i - 1));
      if (part.empty()) fail("Empty attribute in format string");
      const auto index = is_key ? parse_int(part) : std::nullopt;
      value = !is_key ? in_.attribute(value, part)
                      : in_.item(value, index ? Value::integer(*index) : Value::text(part));
      i = is_key ? stop + 1 : stop;
    }
    return value;
  }

  Value first(std::string_view name) {
    const bool is_number = name.empty() || name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_number) {
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      fail("'" + std::string(name) + "'");
    }
    (name.empty() ? automatic_ : manual_) = true;
    if (automatic_ && manual_)
      fail("cannot switch between manual field specification and automatic field numbering");
    const auto given = name.empty() ? std::optional<int64_t>(next_++) : parse_int(name);
    if (!given || *given >= static_cast<int64_t>(arguments_.positional.size())) {
      fail("Replacement index out of range for positional args tuple");
    }
    return arguments_.positional[static_cast<size_t>(*given)];
  }

  Evaluator& in_;
  RenderState& state_;
  const MarkedText& format_;
  const Arguments& arguments_;
  int64_t next_ = 0;
  bool automatic_ = false, manual_ = false;  // {} and {0} were seen
  MarkedText out_;
};

}  // namespace

Value format_braces(Evaluator& evaluator, const Value& format, const Arguments& arguments) {
  MarkedText text = BraceFormatter(evaluator, format, arguments).run();
  return Value::string(under_format(format, std::move(text)), format.is_markup());
}

}  // namespace ibid::jinja
