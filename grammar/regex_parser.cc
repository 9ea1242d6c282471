#include "grammar/grammar_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {
namespace {

// In the order of GeneralCategory.
constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
    "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

// Long names from PropertyValueAliases.txt that ECMA-262 supports.
constexpr std::array<std::pair<std::string_view, std::string_view>, 41> kLongNames = {{{"Letter", "L"},
                                                                                       {"Cased_Letter", "LC"},
                                                                                       {"Uppercase_Letter", "Lu"},
                                                                                       {"Lowercase_Letter", "Ll"},
                                                                                       {"Titlecase_Letter", "Lt"},
                                                                                       {"Modifier_Letter", "Lm"},
                                                                                       {"Other_Letter", "Lo"},
                                                                                       {"Mark", "M"},
                                                                                       {"Combining_Mark", "M"},
                                                                                       {"Nonspacing_Mark", "Mn"},
                                                                                       {"Spacing_Mark", "Mc"},
                                                                                       {"Enclosing_Mark", "Me"},
                                                                                       {"Number", "N"},
                                                                                       {"Decimal_Number", "Nd"},
                                                                                       {"digit", "Nd"},
                                                                                       {"Letter_Number", "Nl"},
                                                                                       {"Other_Number", "No"},
                                                                                       {"Punctuation", "P"},
                                                                                       {"punct", "P"},
                                                                                       {"Connector_Punctuation", "Pc"},
                                                                                       {"Dash_Punctuation", "Pd"},
                                                                                       {"Open_Punctuation", "Ps"},
                                                                                       {"Close_Punctuation", "Pe"},
                                                                                       {"Initial_Punctuation", "Pi"},
                                                                                       {"Final_Punctuation", "Pf"},
                                                                                       {"Other_Punctuation", "Po"},
                                                                                       {"Symbol", "S"},
                                                                                       {"Math_Symbol", "Sm"},
                                                                                       {"Currency_Symbol", "Sc"},
                                                                                       {"Modifier_Symbol", "Sk"},
                                                                                       {"Other_Symbol", "So"},
                                                                                       {"Separator", "Z"},
                                                                                       {"Space_Separator", "Zs"},
                                                                                       {"Line_Separator", "Zl"},
                                                                                       {"Paragraph_Separator", "Zp"},
                                                                                       {"Other", "C"},
                                                                                       {"Control", "Cc"},
                                                                                       {"cntrl", "Cc"},
                                                                                       {"Format", "Cf"},
                                                                                       {"Unassigned", "Cn"},
                                                                                       {"Private_Use", "Co"}}};

// Collects the sets of all categories and groups of categories in one pass over all characters.
std::map<std::string_view, CodePointSet> category_sets() {
  std::map<std::string_view, CodePointSet> sets;
  for (uint32_t begin = 0; begin <= kLastCodePoint;) {
    const GeneralCategory category = general_category(begin);
    uint32_t end = begin + 1;
    while (end <= kLastCodePoint && general_category(end) == category) ++end;
    const std::string_view name = kCategoryNames[static_cast<size_t>(category)];
    sets[name].add(begin, end - 1);
    sets[name.substr(0, 1)].add(begin, end - 1);
    if (name == "Lu" || name == "Ll" || name == "Lt") sets["LC"].add(begin, end - 1);
    begin = end;
  }
  return sets;
}

CodePointSet digits() { return CodePointSet::of('0', '9'); }

CodePointSet word_characters() {
  CodePointSet set = digits();
  set.add('A', 'Z');
  set.add('_');
  set.add('a', 'z');
  return set;
}

// Returns WhiteSpace and LineTerminator of ECMA-262.
CodePointSet spaces() {
  CodePointSet set = CodePointSet::of('\t', '\r');
  for (const uint32_t c : {0x20u, 0xA0u, 0x1680u, 0x2028u, 0x2029u, 0x202Fu, 0x205Fu, 0x3000u, 0xFEFFu}) set.add(c);
  set.add(0x2000, 0x200A);
  return set;
}

// Returns the class of \d, \w, \s, \D, \W or \S by its letter; nullopt for other letters.
std::optional<CodePointSet> class_of_letter(char letter) {
  switch (letter) {
    case 'd': return digits();
    case 'D': return digits().complement();
    case 'w': return word_characters();
    case 'W': return word_characters().complement();
    case 's': return spaces();
    case 'S': return spaces().complement();
    default: return std::nullopt;
  }
}

// Returns the characters whose general category has this name or prefix: "Lu", "L". nullopt for other names.
std::optional<CodePointSet> class_of_category(std::string_view name) {
  static const std::map<std::string_view, CodePointSet> kSets = category_sets();
  for (const auto& [long_name, short_name] : kLongNames) {
    if (name == long_name) name = short_name;
  }
  const auto found = kSets.find(name);
  return found == kSets.end() ? std::nullopt : std::optional(found->second);
}

// `.` matches all characters except line terminators.
CodePointSet class_of_dot() {
  CodePointSet ends = CodePointSet::of('\n');
  ends.add('\r');
  ends.add(0x2028, 0x2029);
  return ends.complement();
}

constexpr size_t kMaxGroupDepth = 100;
constexpr size_t kMaxPatternBytes = 100'000;

// A parsed part, and whether it is anchored to the beginning or end of the text.
struct Part {
  ExprId expr = 0;
  bool at_begin = false, at_end = false;
};

class RegexParser {
 public:
  RegexParser(std::string_view pattern, RegexMatch match, const CharWriter& write, GrammarRules& rules)
      : pattern_(pattern), match_(match), write_(write), rules_(rules) {}

  Result<ExprId> parse() {
    if (pattern_.size() > kMaxPatternBytes) return {ErrorCode::kLimitExceeded, "the pattern is too long"};
    if (!utf8_is_valid(pattern_)) return {ErrorCode::kInvalidArgument, "the pattern is not UTF-8"};
    const Part all = alternatives(0);
    if (status_.ok() && at_ < pattern_.size()) fail("a closing parenthesis without an opening one");
    TRY(status_);
    return all.expr;
  }

 private:
  bool done() const { return !status_.ok() || at_ >= pattern_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool take(std::string_view text) {
    if (!pattern_.substr(std::min(at_, pattern_.size())).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  void fail(std::string_view what, ErrorCode code = ErrorCode::kInvalidArgument) {
    if (status_.ok()) status_ = {code, std::string(what) + " at byte " + std::to_string(at_) + " of the pattern"};
  }
  void refuse(std::string_view what) { fail(std::string(what) + ", which is not supported,", ErrorCode::kUnsupported); }
  uint32_t take_char() {
    const DecodedChar c = utf8_decode(pattern_, at_);
    at_ += c.length;
    return c.code_point;
  }

  Part alternatives(size_t depth);
  Part sequence(size_t depth);
  Part atom(size_t depth);
  Part group(size_t depth);
  void quantify(Part& part);
  bool take_counts(uint32_t& min, uint32_t& max);
  CodePointSet char_class();
  // Parses one character of a class, or a class within it.
  bool class_member(CodePointSet& set, uint32_t& code_point);
  CodePointSet escape(bool in_class);
  std::optional<uint32_t> hex(size_t n_digits);
  uint32_t unicode_escape();
  CodePointSet property(bool negated);

  const std::string_view pattern_;
  const RegexMatch match_;
  const CharWriter& write_;
  GrammarRules& rules_;
  size_t at_ = 0;
  Status status_;
};

// At the outermost level each alternative may have any text before and after it, unless it is anchored.
Part RegexParser::alternatives(size_t depth) {
  std::vector<Part> parts;
  do {
    parts.push_back(sequence(depth));
  } while (status_.ok() && take("|"));
  std::vector<ExprId> exprs;
  for (const Part& part : parts) {
    ExprId expr = part.expr;
    if (depth == 0 && match_ == RegexMatch::kSearch) {
      const ExprId any = rules_.repeat(write_(CodePointSet::all()), 0, kUnbounded);
      expr = rules_.sequence({part.at_begin ? rules_.empty() : any, expr, part.at_end ? rules_.empty() : any});
    }
    if (depth > 0 && (part.at_begin != parts[0].at_begin || part.at_end != parts[0].at_end)) {
      refuse("a group with an anchor in some of its alternatives only");
    }
    exprs.push_back(expr);
  }
  return {rules_.choice(exprs), parts[0].at_begin, parts[0].at_end};
}

Part RegexParser::sequence(size_t depth) {
  Part all;
  std::vector<ExprId> exprs;
  bool ended = false;  // an anchor for the end was parsed
  while (!done() && peek() != '|' && peek() != ')') {
    if (take("^")) {
      if (!exprs.empty()) refuse("an anchor in the middle");
      all.at_begin = true;
      continue;
    }
    if (take("$")) {
      ended = true;
      continue;
    }
    if (ended) refuse("an anchor in the middle");
    Part part = atom(depth);
    if (status_.ok()) quantify(part);
    if (part.at_begin && !exprs.empty()) refuse("an anchor in the middle");
    all.at_begin |= part.at_begin;
    ended |= part.at_end;
    exprs.push_back(part.expr);
  }
  all.at_end = ended;
  all.expr = rules_.sequence(exprs);
  return all;
}

Part RegexParser::atom(size_t depth) {
  const char c = peek();
  if (c == '(') return group(depth);
  if (c == '[') return {write_(char_class())};
  if (c == '\\') return {write_(escape(false))};
  if (take(".")) return {write_(class_of_dot())};
  if (c == '*' || c == '+' || c == '?') return fail("a quantifier with nothing before it"), Part();
  return {write_(CodePointSet::of(take_char()))};
}

Part RegexParser::group(size_t depth) {
  if (depth >= kMaxGroupDepth) return fail("groups that are nested too deeply", ErrorCode::kLimitExceeded), Part();
  take("(");
  if (take("?")) {
    if (peek() == '=' || peek() == '!') return refuse("a lookahead"), Part();
    if (peek() == '<' && (peek(1) == '=' || peek(1) == '!')) return refuse("a lookbehind"), Part();
    if (take("<") || take("P<")) {
      while (!done() && peek() != '>') ++at_;
      if (!take(">")) return fail("the name of a group without an end"), Part();
    } else if (!take(":")) {
      return refuse("a group with flags, a condition or a comment"), Part();
    }
  }
  const Part part = alternatives(depth + 1);
  if (status_.ok() && !take(")")) fail("a group without an end");
  return part;
}

void RegexParser::quantify(Part& part) {
  uint32_t min = 0, max = kUnbounded;
  for (bool first = true;; first = false) {
    if (take("*")) {
      min = 0, max = kUnbounded;
    } else if (take("+")) {
      min = 1, max = kUnbounded;
    } else if (take("?")) {
      min = 0, max = 1;
    } else if (!take_counts(min, max)) {
      return;
    }
    if (!status_.ok()) return;
    if (!first) return fail("a quantifier after a quantifier");
    if (part.at_begin || part.at_end) return refuse("an anchor that is repeated");
    part.expr = rules_.repeat(part.expr, min, max);
    take("?");  // a lazy quantifier matches the same texts
    if (peek() == '+') return refuse("a possessive quantifier");
  }
}

// Parses {m}, {m,} or {m,n}. Returns false if the brace is a literal.
bool RegexParser::take_counts(uint32_t& min, uint32_t& max) {
  if (peek() != '{') return false;
  size_t end = at_ + 1;
  const auto number = [&](uint32_t& out) {
    const size_t begin = end;
    uint64_t value = 0;
    for (; end < pattern_.size() && pattern_[end] >= '0' && pattern_[end] <= '9'; ++end) {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(pattern_[end] - '0'), kUnbounded - 1);
    }
    out = static_cast<uint32_t>(value);
    return end > begin;
  };
  const auto next = [&] { return end < pattern_.size() ? pattern_[end] : '\0'; };
  if (!number(min)) return false;
  max = min;
  if (next() == ',') {
    ++end;
    if (next() == '}') {
      max = kUnbounded;
    } else if (!number(max)) {
      return false;
    }
  }
  if (next() != '}') return false;
  if (min > kMaxRepetition || (max != kUnbounded && max > kMaxRepetition)) {
    fail("a count above " + std::to_string(kMaxRepetition), ErrorCode::kLimitExceeded);
  } else if (max < min) {
    fail("a repetition whose maximum is below its minimum");
  }
  at_ = end + 1;
  return true;
}

CodePointSet RegexParser::char_class() {
  take("[");
  const bool negated = take("^");
  CodePointSet set;
  while (!done() && peek() != ']') {
    uint32_t first = 0, last = 0;
    if (!class_member(set, first)) {
      if (peek() == '-' && peek(1) != ']') fail("a range that begins with a class");
      continue;
    }
    if (peek() == '-' && peek(1) != ']' && at_ + 1 < pattern_.size()) {
      take("-");
      CodePointSet ignored;
      if (!class_member(ignored, last)) {
        fail("a range that ends with a class");
      } else if (last < first) {
        fail("a range whose end is below its beginning");
      }
      set.add(first, last);
    } else {
      set.add(first);
    }
  }
  if (status_.ok() && !take("]")) fail("a class without an end");
  return negated ? set.complement() : set;
}

bool RegexParser::class_member(CodePointSet& set, uint32_t& code_point) {
  if (peek() != '\\') return code_point = take_char(), true;
  const CodePointSet found = escape(true);
  if (found.ranges().size() == 1 && found.ranges()[0].first == found.ranges()[0].last) {
    return code_point = found.ranges()[0].first, true;
  }
  set.add(found);
  return false;
}

CodePointSet RegexParser::escape(bool in_class) {
  take("\\");
  if (done()) return fail("a backslash with nothing after it"), CodePointSet();
  const char c = peek();
  if (c >= '1' && c <= '9') return refuse("a back-reference"), CodePointSet();
  if (!in_class && (c == 'b' || c == 'B')) return refuse("a word boundary"), CodePointSet();
  if (!in_class && c == 'k') return refuse("a back-reference"), CodePointSet();
  if (std::optional<CodePointSet> known = class_of_letter(c)) return ++at_, *std::move(known);
  if (take("p")) return property(false);
  if (take("P")) return property(true);
  if (take("u")) return CodePointSet::of(unicode_escape());
  if (take("x")) {
    const auto value = hex(2);
    if (!value) fail("\\x without two hexadecimal digits");
    return CodePointSet::of(value.value_or(0));
  }
  if (take("c")) {
    const char letter = static_cast<char>(peek() & ~0x20);
    if (letter < 'A' || letter > 'Z') return fail("\\c without a letter"), CodePointSet();
    return ++at_, CodePointSet::of(static_cast<uint32_t>(letter - '@'));
  }
  constexpr std::string_view kNames = "fnrtv0b", kValues("\f\n\r\t\v\0\b", 7);
  if (const size_t i = kNames.find(c); i != kNames.npos) {
    return ++at_, CodePointSet::of(static_cast<uint8_t>(kValues[i]));
  }
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return refuse(std::string("\\") + c), CodePointSet();
  return CodePointSet::of(take_char());
}

std::optional<uint32_t> RegexParser::hex(size_t n_digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < n_digits; ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const char c = peek(i);
    const size_t digit = kDigits.find(static_cast<char>(c >= 'A' && c <= 'F' ? c | 0x20 : c));
    if (c == '\0' || digit == kDigits.npos) return std::nullopt;
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  at_ += n_digits;
  return value;
}

// Parses what follows \u: four digits, four digits twice for a surrogate pair, or up to six digits in braces.
uint32_t RegexParser::unicode_escape() {
  const size_t begin = at_;
  std::optional<uint32_t> value;
  if (take("{")) {
    size_t n = 0;
    while (peek(n) != '}' && peek(n) != '\0') ++n;
    if (n > 0 && n <= 6) value = hex(n);
    if (value && !take("}")) value.reset();
  } else {
    value = hex(4);
    if (value && *value >= 0xD800 && *value < 0xDC00 && take("\\u")) {
      const auto low = hex(4);
      value = low && *low >= 0xDC00 && *low < 0xE000
                  ? std::optional(0x10000 + ((*value - 0xD800) << 10) + (*low - 0xDC00))
                  : std::nullopt;
    }
  }
  if (value && *value <= kLastCodePoint && (*value < 0xD800 || *value > 0xDFFF)) return *value;
  at_ = begin;
  fail("\\u that is not a character");
  return 0;
}

CodePointSet RegexParser::property(bool negated) {
  std::string_view name;
  if (take("{")) {
    const size_t end = pattern_.find('}', at_);
    if (end != pattern_.npos) name = pattern_.substr(at_, end - at_);
  }
  for (const std::string_view prefix : {"General_Category=", "gc="}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size()), at_ += prefix.size();
  }
  const auto set = class_of_category(name);
  if (!set) return refuse("\\p with anything but the name of a general category"), CodePointSet();
  at_ += name.size() + 1;
  return negated ? set->complement() : *set;
}

}  // namespace

Result<ExprId> parse_regex(std::string_view pattern, RegexMatch match, const CharWriter& write, GrammarRules& rules) {
  return RegexParser(pattern, match, write, rules).parse();
}

}  // namespace ibid
