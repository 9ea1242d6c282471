#include "base/regex/regex.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace ibid {
namespace {

using Kind = RegexNode::Kind;
using Mode = RegexNode::Mode;

bool is_ascii_letter(uint32_t c) { return c < 0x80 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

class RegexParser {
 public:
  RegexParser(std::string_view pattern, RegexDialect dialect)
      : pattern_(pattern), oniguruma_(dialect == RegexDialect::kOniguruma) {}

  Result<RegexNode> parse() {
    if (pattern_.size() > kMaxRegexBytes) return {ErrorCode::kLimitExceeded, "the pattern is too long"};
    if (!utf8_is_valid(pattern_)) return {ErrorCode::kInvalidArgument, "the pattern is not UTF-8"};
    RegexNode all = choice(0);
    if (status_.ok() && at_ < pattern_.size()) fail("a closing parenthesis ) without its (");
    TRY(status_);
    return all;
  }

 private:
  // --- The cursor, and the first error. An error ends every loop.

  bool done() const { return !status_.ok() || at_ >= pattern_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool take(std::string_view text) {
    if (!pattern_.substr(std::min(at_, pattern_.size())).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  uint32_t take_char() {
    const DecodedChar c = utf8_decode(pattern_, at_);
    at_ += c.length;
    return c.code_point;
  }
  void fail(std::string_view what, ErrorCode code = ErrorCode::kInvalidArgument) {
    if (status_.ok()) status_ = regex_error(code, what, at_);
  }
  void refuse(std::string_view what) { fail(what, ErrorCode::kUnsupported); }
  RegexNode leaf(Kind kind) const { return {.kind = kind, .at = at_}; }

  RegexNode choice(size_t depth);
  RegexNode sequence(size_t depth);
  RegexNode group(size_t depth);
  void group_name();
  RegexNode atom(size_t depth);
  bool quantify(RegexNode& item);
  bool take_bounds(RegexNode& repeat);
  bool take_counts(RegexNode& repeat);

  // --- Sets of characters.

  CodePointSet one_character(size_t depth);
  CodePointSet bracket(size_t depth);
  void add_range(CodePointSet& set);
  void add_with_case(uint32_t first, uint32_t last, CodePointSet& set);
  // Parses an escape, after its backslash. If it denotes one character, returns it; if it denotes a class, adds the
  // class to `set` and returns nullopt.
  std::optional<uint32_t> escape(bool in_bracket, CodePointSet& set);
  CodePointSet class_of(char letter, bool in_bracket) const;
  uint32_t coded_character(size_t n_digits, bool may_have_braces);
  std::optional<uint32_t> hexadecimal(size_t n_digits);
  CodePointSet property(bool negated);
  void refuse_pair(uint32_t first, uint32_t second);

  const std::string_view pattern_;
  const bool oniguruma_;
  size_t at_ = 0;
  Status status_;
  bool ignores_case_ = false;
  uint32_t literal_ = 0;  // the last atom (the part that a quantifier would repeat) if it is a single character; else 0
  size_t n_ranges_ = 0;
};

RegexNode RegexParser::choice(size_t depth) {
  RegexNode out = leaf(Kind::kChoice);
  do {
    out.parts.push_back(sequence(depth));
  } while (status_.ok() && take("|"));
  return out.parts.size() == 1 ? std::move(out.parts[0]) : std::move(out);
}

RegexNode RegexParser::sequence(size_t depth) {
  RegexNode out = leaf(Kind::kSequence);
  uint32_t previous = 0;
  while (!done() && peek() != '|' && peek() != ')') {
    RegexNode item = atom(depth);
    if (ignores_case_) refuse_pair(previous, literal_);
    previous = literal_;
    if (quantify(item)) previous = 0;
    if (item.kind != Kind::kEmpty) out.parts.push_back(std::move(item));
  }
  if (out.parts.empty()) out.kind = Kind::kEmpty;
  return out.parts.size() == 1 ? std::move(out.parts[0]) : std::move(out);
}

RegexNode RegexParser::group(size_t depth) {
  RegexNode look = leaf(Kind::kLook);
  if (depth >= kMaxRegexDepth) return fail("groups that are nested too deeply", ErrorCode::kLimitExceeded), look;
  take("(");
  const bool outer = ignores_case_;
  const bool looks = take("?=") || take("?!");
  if (looks) {
    look.wanted = pattern_[at_ - 1] == '=';
  } else if (oniguruma_ && take("?i:")) {
    ignores_case_ = true;
  } else if (!take("?:") && peek() == '?') {
    group_name();
  }
  RegexNode inside = choice(depth + 1);
  ignores_case_ = outer;
  literal_ = 0;
  if (status_.ok() && !take(")")) fail("a ( without its )");
  if (!looks) return inside;
  look.parts.push_back(std::move(inside));
  return look;
}

// Parses (?<name> and (?P<name>, which ECMAScript has; everything else after (? is an error.
void RegexParser::group_name() {
  const bool looks_behind = peek(1) == '<' && (peek(2) == '=' || peek(2) == '!');
  if (oniguruma_ || looks_behind || !(take("?<") || take("?P<"))) {
    return refuse("a group that begins with " + in_quotes(pattern_.substr(at_ - 1, 3)) +
                  (looks_behind ? " (a lookbehind)" : " (flags, a name, a condition or the like)"));
  }
  while (!done() && peek() != '>') ++at_;
  if (!take(">")) fail("the name of a group without an end");
}

RegexNode RegexParser::atom(size_t depth) {
  literal_ = 0;
  RegexNode out = leaf(Kind::kSet);
  if (peek() == '(') return group(depth);
  if (take("^")) {
    out.kind = Kind::kBegin;
  } else if (take("$")) {
    out.kind = Kind::kEnd;
  } else if (take("\\b")) {
    out.kind = Kind::kWordBoundary;
  } else {
    out.set = one_character(depth);
    n_ranges_ += out.set.ranges().size();
    if (n_ranges_ > kMaxRegexRanges) fail("sets of too many characters", ErrorCode::kLimitExceeded);
  }
  return out;
}

// Returns whether the item has a quantifier.
bool RegexParser::quantify(RegexNode& item) {
  bool quantified = false, counted = false;
  for (;; quantified = true) {
    RegexNode repeat = leaf(Kind::kRepeat);
    const char sign = peek();
    if (!status_.ok() || !take_bounds(repeat) || !status_.ok()) return quantified;
    if (quantified && !(counted && sign == '+')) return fail("a quantifier of a quantifier"), true;
    counted = oniguruma_ && sign == '{';
    if (take("?")) {
      repeat.mode = Mode::kLazy;
    } else if (!counted && take("+")) {
      repeat.mode = Mode::kPossessive;
    }
    if (item.kind == Kind::kEmpty) continue;
    if (repeat.max > 0) {
      repeat.parts.push_back(std::move(item));
    } else {
      repeat.kind = Kind::kEmpty;
    }
    item = std::move(repeat);
  }
}

bool RegexParser::take_bounds(RegexNode& repeat) {
  repeat.max = RegexNode::kUnbounded;
  if (take("*")) return true;
  if (take("+")) return repeat.min = 1, true;
  if (take("?")) return repeat.max = 1, true;
  return peek() == '{' && take_counts(repeat);
}

// Parses counts of a repetition: {m}, {m,}, {m,n}; for Oniguruma also {,n}. Other braces are literals or errors.
bool RegexParser::take_counts(RegexNode& repeat) {
  size_t end = at_ + 1;
  const auto next = [&] { return end < pattern_.size() ? pattern_[end] : '\0'; };
  const auto number = [&](uint32_t& out) {
    const size_t begin = end;
    uint64_t value = 0;
    for (; is_decimal_digit(next()); ++end) {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(next() - '0'), RegexNode::kUnbounded - 1);
    }
    if (end > begin) out = static_cast<uint32_t>(value);
    return end > begin;
  };
  bool valid = number(repeat.min);
  if (next() != ',') {
    repeat.max = repeat.min;
  } else {
    ++end;
    valid |= number(repeat.max) && oniguruma_;
  }
  if (!valid || next() != '}') {
    if (oniguruma_) fail("a { that is not a count");
    return false;
  }
  const uint32_t most = oniguruma_ ? kMaxOnigurumaCount : kMaxRegexCount;
  if (repeat.min > most || (repeat.max != RegexNode::kUnbounded && repeat.max > most)) {
    fail("a count above " + std::to_string(most), ErrorCode::kLimitExceeded);
  } else if (repeat.max < repeat.min) {
    fail("a count whose maximum is below its minimum");
  }
  at_ = end + 1;
  return true;
}

// Parses a character, an escape, a class, a bracket or a dot.
CodePointSet RegexParser::one_character(size_t depth) {
  CodePointSet set;
  if (take("[")) return bracket(depth);
  if (take(".")) {
    set.add('\n');
    if (!oniguruma_) set.add('\r'), set.add(0x2028, 0x2029);
    return set.complement();
  }
  std::optional<uint32_t> c;
  if (take("\\")) {
    c = escape(false, set);
  } else if (const char sign = peek();
             std::string_view("*+?").find(sign) != std::string_view::npos || (oniguruma_ && sign == '{')) {
    fail("the quantifier " + std::string(1, sign) + " at an unsupported place, with nothing before it");
  } else {
    c = take_char();
  }
  if (!c) return set;
  literal_ = *c;
  add_with_case(*c, *c, set);
  return set;
}

// Parses a bracket expression such as [a-z], from after its [ to its end.
CodePointSet RegexParser::bracket(size_t depth) {
  if (depth >= kMaxRegexDepth)
    return fail("sets that are nested too deeply", ErrorCode::kLimitExceeded), CodePointSet();
  const bool negated = take("^");
  CodePointSet set;
  if (oniguruma_ && peek() == ']') refuse("an empty set");
  while (!done() && peek() != ']') {
    if (oniguruma_ && take("&&")) {
      if (!take("[") || peek() != '^') refuse("&& without [^");
      set = set.intersection(bracket(depth + 1));
      if (peek() != ']') refuse("an item after the set of &&");
    } else if (oniguruma_ && peek() == '[' && peek(1) == ':') {
      refuse("a set of the form [:name:]");
    } else if (oniguruma_ && take("[")) {
      set.add(bracket(depth + 1));
    } else {
      add_range(set);
    }
  }
  if (status_.ok() && !take("]")) fail("a class without an end ]");
  return negated ? set.complement() : set;
}

// Parses a class, a character, or two characters with a hyphen between them.
void RegexParser::add_range(CodePointSet& set) {
  const auto one = [&](CodePointSet& out) -> std::optional<uint32_t> {
    return take("\\") ? escape(true, out) : take_char();
  };
  const std::optional<uint32_t> first = one(set);
  const bool ranges = peek() == '-' && at_ + 1 < pattern_.size() && peek(1) != ']';
  if (!first) {
    if (ranges && !oniguruma_) fail("a range that begins with a class");
    return;
  }
  std::optional<uint32_t> last = first;
  if (ranges) {
    take("-");
    if (oniguruma_ && peek() == '[') return refuse("a range that ends in a set");
    CodePointSet ignored;
    last = one(ignored);
  }
  if (!last) return fail("a range that ends with a class");
  if (*last < *first) return fail("a range whose end is below its beginning");
  add_with_case(*first, *last, set);
}

// Adds the characters [first, last]. After (?i: also adds the other case of each letter, and the characters that
// Unicode folds to them.
void RegexParser::add_with_case(uint32_t first, uint32_t last, CodePointSet& set) {
  set.add(first, last);
  if (!ignores_case_ || !status_.ok()) return;
  if (last >= 0x80) return refuse("a letter beyond ASCII after (?i:");
  for (uint32_t c = first; c <= last; ++c) {
    if (is_ascii_letter(c)) set.add(c ^ 0x20);
    if ((c | 0x20) == 's') set.add(0x17F);
    if ((c | 0x20) == 'k') set.add(0x212A);
  }
}

// Refuses two letters that equal one character if case is ignored: "ss" equals U+00DF.
void RegexParser::refuse_pair(uint32_t first, uint32_t second) {
  for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
    const bool is_pair =
        (first | 0x20) == static_cast<uint32_t>(pair[0]) && (second | 0x20) == static_cast<uint32_t>(pair[1]);
    if (is_pair) refuse("the letters " + std::string(pair) + " after (?i:");
  }
}

std::optional<uint32_t> RegexParser::escape(bool in_bracket, CodePointSet& set) {
  if (done()) return fail("a trailing backslash"), 0u;
  const char c = peek();
  if ((c >= '1' && c <= '9') || (c == 'k' && !in_bracket)) return refuse(std::string("a back-reference \\") + c), 0u;
  if (std::string_view("dDsSwW").find(c) != std::string_view::npos) {
    ++at_;
    set.add(class_of(c, in_bracket));
    return std::nullopt;
  }
  if (take("p") || take("P")) {
    set.add(property(c == 'P'));
    return std::nullopt;
  }
  if (take("u")) return coded_character(4, !oniguruma_);
  if (take("x")) {
    const bool is_byte = oniguruma_ && peek() != '{';
    const uint32_t value = coded_character(2, oniguruma_);
    if (is_byte && value >= 0x80) refuse("\\x above 7F");
    return value;
  }
  if (take("c")) {
    if (!is_ascii_letter(static_cast<uint8_t>(peek()))) return fail("\\c without a letter"), 0u;
    return static_cast<uint32_t>(upper_ascii(pattern_[at_++]) - '@');
  }
  constexpr std::string_view kNames = "fnrtvb0", kValues("\f\n\r\t\v\b\0", 7);
  if (const size_t i = kNames.find(c); i != kNames.npos && !(oniguruma_ && c == '0')) {
    return ++at_, static_cast<uint8_t>(kValues[i]);
  }
  if (is_ascii_letter(static_cast<uint8_t>(c)) || c == '0') return refuse(std::string("\\") + c), 0u;
  return take_char();
}

// Returns the class of an escape: d, w, s or D, W, S.
CodePointSet RegexParser::class_of(char letter, bool in_bracket) const {
  CodePointSet set;
  switch (lower_ascii(letter)) {
    case 'd': set = oniguruma_ ? *unicode_class("Nd") : CodePointSet::of('0', '9'); break;
    case 'w':
      if (oniguruma_) {
        set = *unicode_class("Word");
        // Outside of brackets Oniguruma counts superscripts and fractions of Latin-1 as word characters.
        if (!in_bracket) set.add(0xB2, 0xB3), set.add(0xB9), set.add(0xBC, 0xBE);
      } else {
        set.add('0', '9'), set.add('A', 'Z'), set.add('_'), set.add('a', 'z');
      }
      break;
    default:
      set = *unicode_class("White_Space");
      // WhiteSpace and LineTerminator of ECMA-262.
      if (!oniguruma_) {
        set.add(0xFEFF);
        set = set.without(CodePointSet::of(0x85));
      }
  }
  return letter >= 'A' && letter <= 'Z' ? set.complement() : set;
}

// After \u or \x: parses hexadecimal digits, either in braces or n_digits of them; \uD83D\uDE00 is one character.
uint32_t RegexParser::coded_character(size_t n_digits, bool may_have_braces) {
  const size_t begin = at_;
  const bool braces = may_have_braces && take("{");
  std::optional<uint32_t> value = hexadecimal(braces ? pattern_.find('}', at_) - at_ : n_digits);
  if (value && braces) take("}");
  if (value && *value >= 0xD800 && *value < 0xDC00 && take("\\u")) {
    const std::optional<uint32_t> low = hexadecimal(4);
    const bool pairs = low && *low >= 0xDC00 && *low < 0xE000;
    value = pairs ? std::optional(0x10000 + ((*value - 0xD800) << 10) + (*low - 0xDC00)) : std::nullopt;
  }
  if (value && *value <= kLastCodePoint && (*value < 0xD800 || *value > 0xDFFF)) return *value;
  at_ = begin;
  return fail("an escape that is not a character"), 0u;
}

// Parses n_digits hexadecimal digits, 1 to 8; else returns nullopt.
std::optional<uint32_t> RegexParser::hexadecimal(size_t n_digits) {
  if (n_digits == 0 || n_digits > 8) return std::nullopt;
  uint32_t value = 0;
  for (size_t i = 0; i < n_digits; ++i) {
    const int digit = hex_digit(peek(i));
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  at_ += n_digits;
  return value;
}

// Parses the property after \p or \P.
CodePointSet RegexParser::property(bool negated) {
  if (ignores_case_) return refuse("\\p after (?i:"), CodePointSet();
  const size_t end = pattern_.find('}', at_);
  if (end == pattern_.npos || !take("{")) return fail("\\p without a name in braces"), CodePointSet();
  if (oniguruma_ && take("^")) negated = !negated;
  if (!oniguruma_ && !take("General_Category=")) take("gc=");
  const std::string_view name = pattern_.substr(at_, end - at_);
  const CodePointSet* known = unicode_class(name);
  if (known == nullptr)
    return refuse("the class " + in_quotes("\\p{" + std::string(name.substr(0, 80)) + '}')), CodePointSet();
  at_ = end + 1;
  return negated ? known->complement() : *known;
}

}  // namespace

Result<RegexNode> parse_regex(std::string_view pattern, RegexDialect dialect) {
  return RegexParser(pattern, dialect).parse();
}

Status regex_error(ErrorCode code, std::string_view what, size_t at) {
  return {code, std::string(what) + (code == ErrorCode::kUnsupported ? ", which is not supported," : "") + " at byte " +
                    std::to_string(at) + " of the pattern"};
}

}  // namespace ibid
