#include "tokenizer/splitting/pattern_compiler.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace ibid {

void PatternText::fail(std::string_view what) {
  if (!failure_) failure_ = std::string(what);
  rest_ = {};
}

bool PatternText::take(std::string_view text) {
  if (!rest_.starts_with(text)) return false;
  rest_.remove_prefix(text.size());
  return true;
}

char PatternText::take_letter() {
  if (rest_.empty()) {
    fail("a trailing backslash");
    return ' ';
  }
  const char letter = rest_[0];
  rest_.remove_prefix(1);
  return letter;
}

uint32_t PatternText::character() {
  if (rest_.empty()) {
    fail("a set without its ]");
    return ' ';
  }
  const DecodedChar c = utf8_decode(rest_, 0);
  rest_.remove_prefix(c.length);
  return c.code_point;
}

namespace {

CategorySet category_of(uint8_t property) { return CategorySet{1} << (property & unicode_data::kCategoryMask); }

bool is_letter_of_ascii(uint32_t c) { return c < 0x80 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

}  // namespace

CharSet CharSetReader::read() {
  CharSet out;
  if (text_.take("[")) {
    last_folded_ = 0;
    return bracket();
  }
  if (text_.take("\\")) {
    const char letter = text_.take_letter();
    if ((letter | 0x20) == 'w') {
      // Outside brackets, Oniguruma also counts a few Latin-1 numbers as word characters.
      add_class('w', out);
      out.add(0xB2, 0xB3);
      out.add(0xB9, 0xB9);
      out.add(0xBC, 0xBE);
      if (letter == 'W') out.negate();
      return out;
    }
    if (add_class(letter, out)) {
      last_folded_ = 0;
      return out;
    }
    const uint32_t c = escaped(letter);
    add_with_case(c, c, out);
    return out;
  }
  if (text_.take(".")) {
    out.add('\n', '\n');
    out.negate();
    return out;
  }
  const std::string_view rest = text_.rest();
  const bool means_more = !rest.empty() && std::string_view("^*+?{}").find(rest[0]) != std::string_view::npos;
  if (means_more) text_.fail(std::string("a ") + rest[0] + " at an unsupported place");
  if (text_.failed()) return out;
  const uint32_t c = text_.character();
  // Some pairs of letters equal one character in another case, as "ss" equals U+00DF.
  if (ignores_case_) {
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
      const bool is_pair =
          (last_folded_ | 0x20) == static_cast<uint32_t>(pair[0]) && (c | 0x20) == static_cast<uint32_t>(pair[1]);
      if (is_pair) text_.fail("the letters " + std::string(pair) + " after (?i:");
    }
    last_folded_ = c;
  }
  add_with_case(c, c, out);
  return out;
}

// Adds a range of characters; if case is ignored, in both cases.
void CharSetReader::add_with_case(uint32_t first, uint32_t last, CharSet& out) {
  if (first > last) return text_.fail("a range that ends before it begins");
  out.add(first, last);
  if (!ignores_case_) return;
  if (last >= 0x80) return text_.fail("letters beyond ASCII after (?i:");
  for (uint32_t c = first; c <= last; ++c) {
    if (is_letter_of_ascii(c)) out.add(c ^ 0x20, c ^ 0x20);
    if ((c | 0x20) == 's') out.add(0x17F, 0x17F);
    if ((c | 0x20) == 'k') out.add(0x212A, 0x212A);
  }
}

CharSet CharSetReader::bracket() {
  CharSet out;
  const bool negated = text_.take("^");
  if (!text_.enter()) text_.fail("sets nested too deeply");
  if (text_.rest().starts_with(']')) text_.fail("an empty set");
  while (!text_.failed() && !text_.take("]")) {
    if (text_.take("&&")) {
      // Only a negated set is supported on the right side of &&.
      if (!text_.take("[") || !text_.rest().starts_with('^')) {
        text_.fail("&& without [^");
        break;
      }
      if (!out.intersect(bracket())) text_.fail("this kind of set in &&");
      if (!text_.rest().starts_with(']')) text_.fail("more items after the set of &&");
    } else if (text_.rest().starts_with("[:")) {
      text_.fail("a set of the form [:name:]");
    } else if (text_.take("[")) {
      if (!out.unite(bracket())) text_.fail("this kind of set in a set");
    } else {
      add_range(out);
    }
  }
  text_.leave();
  if (negated) out.negate();
  return out;
}

// Parses a class, a character, or a range of two characters joined by a hyphen.
void CharSetReader::add_range(CharSet& out) {
  const auto one = [this](CharSet* set) -> std::optional<uint32_t> {
    if (!text_.take("\\")) return text_.character();
    const char letter = text_.take_letter();
    if (set != nullptr && add_class(letter, *set)) return std::nullopt;
    return escaped(letter);
  };
  const std::optional<uint32_t> first = one(&out);
  if (!first) return;
  std::optional<uint32_t> last = first;
  if (text_.rest().size() > 1 && text_.rest()[0] == '-' && text_.rest()[1] != ']') {
    text_.skip(1);
    if (text_.rest().starts_with('[')) return text_.fail("a range that ends in a set");
    last = one(nullptr);
  }
  if (!text_.failed()) add_with_case(*first, *last, out);
}

uint32_t CharSetReader::hexadecimal(size_t n_digits) {
  uint32_t out = 0;
  const std::string_view digits = text_.rest().substr(0, n_digits);
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  const bool whole = !digits.empty() && code == std::errc() && end == digits.data() + digits.size();
  if (!whole || out > 0x10FFFF) text_.fail("an escape that is not a character");
  text_.skip(std::min(n_digits, text_.rest().size()));
  return text_.failed() ? ' ' : out;
}

uint32_t CharSetReader::escaped(char letter) {
  switch (letter) {
    case 'r': return '\r';
    case 'n': return '\n';
    case 't': return '\t';
    case 'v': return '\v';
    case 'f': return '\f';
    case 'u': return hexadecimal(4);
    case 'x': {
      if (!text_.take("{")) {
        const uint32_t c = hexadecimal(2);
        if (c >= 0x80) text_.fail("\\x above 7F");
        return c;
      }
      const uint32_t c = hexadecimal(text_.rest().find('}'));
      if (!text_.take("}")) text_.fail("an escape that is not a character");
      return c;
    }
    default: break;
  }
  const auto byte = static_cast<unsigned char>(letter);
  if (is_letter_of_ascii(byte) || (byte >= '0' && byte <= '9') || byte >= 0x80) {
    text_.fail(std::string("the escape \\") + (byte < 0x80 ? letter : '?'));
  }
  return byte;
}

bool CharSetReader::add_class(char letter, CharSet& out) {
  using namespace unicode_data;
  const bool lacks = letter >= 'A' && letter <= 'Z';
  const auto add = [&out, lacks](auto member) {
    out.add_class([member, lacks](uint8_t property) { return member(property) != lacks; });
    if (lacks) out.add_invalid();
    return true;
  };
  switch (letter | 0x20) {
    case 'p': add_property(lacks, out); return true;
    case 's': return add([](uint8_t property) { return (property & kSpaceBit) != 0; });
    case 'w':  // without Join_Control, the word characters of category Cf
      return add([](uint8_t property) {
        return (property & kWordBit) != 0 && (category_of(property) & category_set(GeneralCategory::Cf)) == 0;
      });
    case 'd':
      return add([](uint8_t property) { return (category_of(property) & category_set(GeneralCategory::Nd)) != 0; });
    default: return false;
  }
}

void CharSetReader::add_property(bool lacks, CharSet& out) {
  using enum GeneralCategory;
  struct Named {
    std::string_view name;
    CategorySet categories;
  };
  static constexpr Named kNamed[] = {{"L", kLetters},
                                     {"N", kNumberCategories},
                                     {"M", kMarks},
                                     {"P", kPunctuation},
                                     {"S", kSymbols},
                                     {"Z", category_set(Zl, Zp, Zs)},
                                     {"Lu", category_set(Lu)},
                                     {"Ll", category_set(Ll)},
                                     {"Lt", category_set(Lt)},
                                     {"Lm", category_set(Lm)},
                                     {"Lo", category_set(Lo)},
                                     {"Mn", category_set(Mn)},
                                     {"Mc", category_set(Mc)},
                                     {"Me", category_set(Me)},
                                     {"Nd", category_set(Nd)},
                                     {"Nl", category_set(Nl)},
                                     {"No", category_set(No)},
                                     {"Pc", category_set(Pc)},
                                     {"Pd", category_set(Pd)},
                                     {"Ps", category_set(Ps)},
                                     {"Pe", category_set(Pe)},
                                     {"Pi", category_set(Pi)},
                                     {"Pf", category_set(Pf)},
                                     {"Po", category_set(Po)},
                                     {"Sc", category_set(Sc)},
                                     {"Sk", category_set(Sk)},
                                     {"Sm", category_set(Sm)},
                                     {"So", category_set(So)},
                                     {"Zs", category_set(Zs)},
                                     {"Cc", category_set(Cc)},
                                     {"Cf", category_set(Cf)},
                                     {"Han", 0}};
  if (ignores_case_) return text_.fail("\\p after (?i:");
  const size_t end = text_.rest().find('}');
  if (!text_.take("{") || end == text_.rest().npos) return text_.fail("\\p without its name in braces");
  if (text_.take("^")) lacks = !lacks;
  const std::string_view name = text_.rest().substr(0, text_.rest().find('}'));
  const auto found = std::find_if(std::begin(kNamed), std::end(kNamed), [&](const auto& n) { return n.name == name; });
  if (found == std::end(kNamed)) return text_.fail("the class \\p{" + std::string(name.substr(0, 40)) + "}");
  text_.skip(name.size() + 1);
  out.add_class([&](uint8_t property) {
    const bool in = found->categories == 0 ? (property & unicode_data::kHanBit) != 0
                                           : (category_of(property) & found->categories) != 0;
    return in != lacks;
  });
  if (lacks) out.add_invalid();
}

Result<Pattern> Pattern::parse(std::string_view expression) {
  Pattern out;
  if (expression.size() > kMaxExpressionBytes) {
    return {ErrorCode::kUnsupported, "more than " + std::to_string(kMaxExpressionBytes) + " bytes"};
  }
  if (std::optional<std::string> failure = PatternCompiler(expression, out).compile()) {
    return {ErrorCode::kUnsupported, *std::move(failure)};
  }
  return out;
}

Pattern::Pattern(std::string_view expression) {
  const std::optional<std::string> failure = PatternCompiler(expression, *this).compile();
  CHECK(!failure) << expression << ": " << *failure;
}

std::optional<std::string> PatternCompiler::compile() {
  if (!utf8_is_valid(text_.rest())) text_.fail("invalid UTF-8");
  alternatives();
  if (!text_.rest().empty()) text_.fail("a ) without its (");
  out_.program_.push_back({Op::kMatch});
  for (Pattern::Instruction& x : out_.program_) {
    if (x.op == Op::kSplit) x.choice = out_.n_splits_++;
  }
  if (out_.n_splits_ > Pattern::kMaxSplits) text_.fail("more than " + std::to_string(Pattern::kMaxSplits) + " choices");
  if (text_.failed()) return text_.failure();
  out_.may_match_nothing_ = may_be_empty(0, here() - 1, out_.looks_behind_);
  return std::nullopt;
}

void PatternCompiler::emit(Pattern::Instruction instruction) {
  if (here() >= Pattern::kMaxInstructions) {
    text_.fail("more than " + std::to_string(Pattern::kMaxInstructions) + " instructions");
    return;
  }
  out_.program_.push_back(instruction);
}

void PatternCompiler::insert(size_t at, Pattern::Instruction instruction) {
  for (Pattern::Instruction& x : out_.program_) {
    const bool jumps = x.op == Op::kSplit || x.op == Op::kJump;
    if (jumps && x.a > at) ++x.a;
    if ((x.op == Op::kSplit || x.op == Op::kLook) && x.b > at) ++x.b;
  }
  // Jumps to `at` from the instructions after it still refer to the instruction that was there.
  for (size_t i = at; i < out_.program_.size(); ++i) {
    Pattern::Instruction& x = out_.program_[i];
    if ((x.op == Op::kSplit || x.op == Op::kJump) && x.a == at) ++x.a;
    if (x.op == Op::kSplit && x.b == at) ++x.b;
  }
  out_.program_.insert(out_.program_.begin() + static_cast<ptrdiff_t>(at), instruction);
}

void PatternCompiler::copy(const Program& body, size_t distance) {
  const auto moved = static_cast<uint32_t>(distance);
  for (Pattern::Instruction x : body) {
    if (x.op == Op::kSplit || x.op == Op::kJump) x.a += moved;
    if (x.op == Op::kSplit || x.op == Op::kLook) x.b += moved;
    emit(x);
  }
}

void PatternCompiler::alternatives() {
  if (!text_.enter()) {
    text_.fail("more than " + std::to_string(PatternText::kMaxDepth) + " nested groups and alternatives");
  }
  const size_t begin = here();
  sequence();
  sets_.forget_last();
  if (text_.take("|")) {
    insert(begin, {.op = Op::kSplit, .a = static_cast<uint32_t>(begin + 1)});
    const size_t jump = here();
    emit({Op::kJump});
    out_.program_[begin].b = static_cast<uint32_t>(here());
    alternatives();
    if (jump < here()) out_.program_[jump].a = static_cast<uint32_t>(here());
  }
  text_.leave();
}

void PatternCompiler::sequence() {
  while (!text_.rest().empty() && text_.rest()[0] != '|' && text_.rest()[0] != ')') {
    const size_t begin = here();
    item();
    quantify(begin);
  }
}

void PatternCompiler::group() {
  const bool outer = sets_.ignores_case();
  if (text_.take("?i:")) {
    sets_.set_ignores_case(true);
  } else if (!text_.take("?:") && text_.rest().starts_with('?')) {
    return text_.fail("a group that begins with (" + std::string(text_.rest().substr(0, 2)));
  }
  sets_.forget_last();
  alternatives();
  sets_.set_ignores_case(outer);
  if (!text_.take(")")) text_.fail("a ( without its )");
}

void PatternCompiler::item() {
  for (const auto& [text, wanted] : {std::pair("(?=", true), std::pair("(?!", false)}) {
    if (!text_.take(text)) continue;
    const size_t look = here();
    emit({.op = Op::kLook, .wanted = wanted});
    alternatives();
    if (!text_.take(")")) return text_.fail("a ( without its )");
    emit({Op::kMatch});
    if (look < here()) out_.program_[look].b = static_cast<uint32_t>(here());
    return;
  }
  if (text_.take("(")) {
    group();
  } else if (text_.take("\\b")) {
    emit({Op::kWordBoundary});
  } else if (text_.take("$")) {
    emit({Op::kLineEnd});
  } else {
    emit_set(sets_.read());
  }
}

void PatternCompiler::emit_set(CharSet set) {
  out_.sets_.push_back(std::move(set));
  emit({.op = Op::kSet, .a = static_cast<uint32_t>(out_.sets_.size() - 1)});
}

// Parses {n}, {n,}, {,m} or {n,m} after the opening brace.
bool PatternCompiler::bounds(uint32_t& min, uint32_t& max) {
  const size_t end = text_.rest().find('}');
  const auto number = [](std::string_view digits, uint32_t& out) {
    const auto [at, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return code == std::errc() && at == digits.data() + digits.size() && out <= Pattern::kMaxRepeats;
  };
  if (end == text_.rest().npos) return false;
  const std::string_view inside = text_.rest().substr(0, end);
  const size_t comma = std::min(inside.find(','), inside.size());
  const std::string_view first = inside.substr(0, comma);
  if (first.empty() ? comma == inside.size() : !number(first, min)) return false;
  if (first.empty()) min = 0;
  max = min;
  if (comma < inside.size()) {
    const std::string_view second = inside.substr(comma + 1);
    max = Pattern::kMany;
    if (second.empty() ? first.empty() : !number(second, max)) return false;
  }
  text_.skip(end + 1);
  return min <= max && max > 0;
}

void PatternCompiler::quantify(size_t begin) {
  uint32_t min = 1, max = 1;
  bool counted = false;
  if (text_.take("?")) {
    min = 0;
  } else if (text_.take("*")) {
    min = 0, max = Pattern::kMany;
  } else if (text_.take("+")) {
    max = Pattern::kMany;
  } else if (text_.take("{")) {
    counted = true;
    if (!bounds(min, max)) return text_.fail("a { that is not a count up to " + std::to_string(Pattern::kMaxRepeats));
  } else {
    return;
  }
  sets_.forget_last();
  if (text_.rest().starts_with('?')) return text_.fail("a lazy quantifier");
  // After {n,m}, a + repeats the counted expression; it does not make the count possessive.
  const bool possessive = !counted && text_.take("+");
  if (text_.failed() || begin >= here()) return text_.fail("a quantifier without an item");
  Pattern::Instruction& first = out_.program_[begin];
  if (here() == begin + 1 && first.op == Op::kSet) {
    first = {.op = Op::kRepeat, .possessive = possessive, .a = first.a, .min = min, .max = max};
  } else if (possessive) {
    return text_.fail("a possessive quantifier of a group");
  } else {
    repeat_group(begin, min, max);
  }
  if (counted && text_.rest().starts_with('+')) return quantify(begin);
  if (!text_.rest().empty() && std::string_view("*+{").find(text_.rest()[0]) != std::string_view::npos) {
    text_.fail("a quantifier of a quantifier");
  }
}

void PatternCompiler::repeat_group(size_t begin, uint32_t min, uint32_t max) {
  bool boundary = false;
  if (max == Pattern::kMany && may_be_empty(begin, here(), boundary)) {
    return text_.fail("a repetition of an item that may be empty");
  }
  const Program body(out_.program_.begin() + static_cast<ptrdiff_t>(begin), out_.program_.end());
  out_.program_.resize(begin);
  const auto add_body = [&] { copy(body, here() - begin); };
  size_t last = begin;
  for (uint32_t n = 0; n < min && !text_.failed(); ++n) {
    last = here();
    add_body();
  }
  if (max == Pattern::kMany && min > 0) {
    emit({.op = Op::kSplit, .a = static_cast<uint32_t>(last), .b = static_cast<uint32_t>(here() + 1)});
    return;
  }
  std::vector<size_t> ways_out;
  for (uint32_t n = min; n < (max == Pattern::kMany ? 1 : max) && !text_.failed(); ++n) {
    ways_out.push_back(here());
    emit({.op = Op::kSplit, .a = static_cast<uint32_t>(here() + 1)});
    add_body();
  }
  if (max == Pattern::kMany) emit({.op = Op::kJump, .a = static_cast<uint32_t>(begin)});
  for (const size_t way : ways_out) {
    if (way < here()) out_.program_[way].b = static_cast<uint32_t>(here());
  }
}

bool PatternCompiler::may_be_empty(size_t begin, size_t end, bool& boundary) const {
  std::vector<bool> seen(end - begin + 1);
  std::vector<size_t> todo{begin};
  bool empty = false;
  while (!todo.empty()) {
    const size_t pc = todo.back();
    todo.pop_back();
    if (pc == end) empty = true;
    if (pc < begin || pc >= end || seen[pc - begin]) continue;
    seen[pc - begin] = true;
    const Pattern::Instruction& x = out_.program_[pc];
    switch (x.op) {
      case Op::kSet:
      case Op::kMatch: break;
      case Op::kRepeat:
        if (x.min == 0) todo.push_back(pc + 1);
        break;
      case Op::kSplit: todo.insert(todo.end(), {x.a, x.b}); break;
      case Op::kJump: todo.push_back(x.a); break;
      case Op::kLook: todo.insert(todo.end(), {pc + 1, size_t{x.b}}); break;
      case Op::kWordBoundary: boundary = true; [[fallthrough]];
      case Op::kLineEnd: todo.push_back(pc + 1); break;
    }
  }
  return empty;
}

}  // namespace ibid
