#include "tokenizer/pattern_compiler.h"

#include <charconv>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace ibid {
namespace {

constexpr uint32_t kMany = UINT32_MAX;

CategorySet category_of(uint8_t property) {
  return CategorySet{1} << (property & unicode_data::kCategoryMask);
}

}  // namespace

Pattern::Pattern(std::string_view expression) { PatternCompiler(expression, *this).compile(); }

void PatternCompiler::compile() {
  alternatives();
  CHECK(rest_.empty()) << "a pattern that goes on with " << rest_;
  out_.program_.push_back({Op::kMatch});
}

bool PatternCompiler::take(std::string_view text) {
  if (!rest_.starts_with(text)) return false;
  rest_.remove_prefix(text.size());
  return true;
}

void PatternCompiler::insert(size_t at, Pattern::Instruction instruction) {
  for (Pattern::Instruction& x : out_.program_) {
    const bool jumps = x.op == Op::kSplit || x.op == Op::kJump;
    if (jumps && x.a > at) ++x.a;
    if ((x.op == Op::kSplit || x.op == Op::kLook) && x.b > at) ++x.b;
  }
  // What jumped to `at` from inside still means the instruction that was there.
  for (size_t i = at; i < out_.program_.size(); ++i) {
    Pattern::Instruction& x = out_.program_[i];
    if ((x.op == Op::kSplit || x.op == Op::kJump) && x.a == at) ++x.a;
    if (x.op == Op::kSplit && x.b == at) ++x.b;
  }
  out_.program_.insert(out_.program_.begin() + static_cast<ptrdiff_t>(at), instruction);
}

void PatternCompiler::alternatives() {
  const size_t begin = here();
  sequence();
  if (!take("|")) return;
  insert(begin, {.op = Op::kSplit, .a = static_cast<uint32_t>(begin + 1)});
  const size_t jump = here();
  out_.program_.push_back({Op::kJump});
  out_.program_[begin].b = static_cast<uint32_t>(here());
  alternatives();
  out_.program_[jump].a = static_cast<uint32_t>(here());
}

void PatternCompiler::sequence() {
  while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
    const size_t begin = here();
    item();
    quantify(begin);
  }
}

void PatternCompiler::group() {
  const bool outer = ignores_case_;
  if (take("?i:")) {
    ignores_case_ = true;
  } else {
    take("?:");
  }
  alternatives();
  ignores_case_ = outer;
  CHECK(take(")"));
}

void PatternCompiler::item() {
  for (const auto& [text, wanted] : {std::pair("(?=", true), std::pair("(?!", false)}) {
    if (!take(text)) continue;
    const size_t look = here();
    out_.program_.push_back({.op = Op::kLook, .wanted = wanted});
    alternatives();
    CHECK(take(")"));
    out_.program_.push_back({Op::kMatch});
    out_.program_[look].b = static_cast<uint32_t>(here());
    return;
  }
  if (take("(")) {
    group();
  } else if (take("\\b")) {
    out_.program_.push_back({Op::kWordBoundary});
  } else if (take("$")) {
    out_.program_.push_back({Op::kLineEnd});
  } else {
    emit_set(set_item());
  }
}

void PatternCompiler::emit_set(CharSet set) {
  out_.sets_.push_back(std::move(set));
  const auto index = static_cast<uint32_t>(out_.sets_.size() - 1);
  out_.program_.push_back({.op = Op::kSet, .a = index});
}

void PatternCompiler::quantify(size_t begin) {
  uint32_t min = 1, max = 1;
  if (take("?")) {
    min = 0;
  } else if (take("*")) {
    min = 0, max = kMany;
  } else if (take("+")) {
    max = kMany;
  } else if (take("{")) {
    const size_t end = rest_.find('}');
    CHECK(end != rest_.npos);
    const char* last = rest_.data() + end;
    const char* at = std::from_chars(rest_.data(), last, min).ptr;
    max = min;
    if (at != last) max = ++at == last ? kMany : (std::from_chars(at, last, max), max);
    rest_.remove_prefix(end + 1);
  } else {
    return;
  }
  const bool possessive = take("+");
  Pattern::Instruction& first = out_.program_[begin];
  if (here() == begin + 1 && first.op == Op::kSet) {
    first = {.op = Op::kRepeat, .possessive = possessive, .a = first.a, .min = min, .max = max};
    return;
  }
  CHECK(!possessive && (max == kMany || (min == 0 && max == 1) || min == max)) << "a quantifier of a group";
  const auto length = static_cast<uint32_t>(here() - begin);
  if (max != kMany && min == max) {
    const std::vector<Pattern::Instruction> body(out_.program_.begin() + static_cast<ptrdiff_t>(begin),
                                                 out_.program_.end());
    for (uint32_t n = 1; n < min; ++n) {
      for (Pattern::Instruction x : body) {
        if (x.op == Op::kSplit || x.op == Op::kJump) x.a += n * length;
        if (x.op == Op::kSplit || x.op == Op::kLook) x.b += n * length;
        out_.program_.push_back(x);
      }
    }
    return;
  }
  if (min == 0) insert(begin, {.op = Op::kSplit, .a = static_cast<uint32_t>(begin + 1)});
  const size_t body = min == 0 ? begin + 1 : begin;
  if (max == kMany) {
    const auto next = static_cast<uint32_t>(here() + 1);
    out_.program_.push_back({.op = Op::kSplit, .a = static_cast<uint32_t>(body), .b = next});
  }
  if (min == 0) out_.program_[begin].b = static_cast<uint32_t>(here());
}

uint32_t PatternCompiler::character() {
  const DecodedChar c = utf8_decode(rest_, 0);
  rest_.remove_prefix(c.length);
  return c.code_point;
}

// One character of a pattern: itself, a class, or a set in brackets.
CharSet PatternCompiler::set_item() {
  CharSet out;
  if (take("[")) return bracket();
  if (take("\\")) {
    const char letter = rest_[0];
    rest_.remove_prefix(1);
    const bool lacks = letter == 'S' || letter == 'D';
    add_escape(lacks ? static_cast<char>(letter | 0x20) : letter, out);
    if (lacks) out.negate();
    return out;
  }
  const uint32_t c = character();
  out.add(c, c);
  if (!ignores_case_) return out;
  CHECK(c < 0x80) << "letter case beyond ASCII";
  const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  if (letter) out.add(c ^ 0x20, c ^ 0x20);
  if ((c | 0x20) == 's') out.add(0x17F, 0x17F);
  if ((c | 0x20) == 'k') out.add(0x212A, 0x212A);
  return out;
}

CharSet PatternCompiler::bracket() {
  CharSet out;
  const bool negated = take("^");
  while (!take("]")) {
    if (take("&&")) {
      CHECK(take("["));
      out.intersect(bracket());
      continue;
    }
    if (take("\\")) {
      const char letter = rest_[0];
      rest_.remove_prefix(1);
      if (std::string_view("psdwrnt").find(letter) != std::string_view::npos) {
        add_escape(letter, out);
        continue;
      }
      rest_ = {rest_.data() - 1, rest_.size() + 1};
    }
    const uint32_t first = character();
    uint32_t last = first;
    if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
      rest_.remove_prefix(1);
      take("\\");
      last = character();
    }
    CHECK(first <= last);
    if (!ignores_case_) {
      out.add(first, last);
      continue;
    }
    CHECK(first == last && first < 0x80);
    out.add(first | 0x20, first | 0x20);
    out.add(first & ~0x20u, first & ~0x20u);
    if ((first | 0x20) == 's') out.add(0x17F, 0x17F);
  }
  if (negated) out.negate();
  return out;
}

void PatternCompiler::add_escape(char letter, CharSet& out) {
  using namespace unicode_data;
  const auto space = [](uint8_t property) { return (property & kSpaceBit) != 0; };
  const auto digit = [](uint8_t property) {
    return (category_of(property) & category_set(GeneralCategory::Nd)) != 0;
  };
  switch (letter) {
    case 'p': add_property(out); break;
    case 's': out.add_class(space); break;
    case 'd': out.add_class(digit); break;
    case 'w': out.add_class([](uint8_t property) { return (property & kWordBit) != 0; }); break;
    case 'r': out.add('\r', '\r'); break;
    case 'n': out.add('\n', '\n'); break;
    case 't': out.add('\t', '\t'); break;
    default:
      CHECK((letter | 0x20) < 'a' || (letter | 0x20) > 'z') << "the escape " << letter;
      out.add(static_cast<unsigned char>(letter), static_cast<unsigned char>(letter));
  }
}

void PatternCompiler::add_property(CharSet& out) {
  using enum GeneralCategory;
  struct Named {
    std::string_view name;
    CategorySet categories;
  };
  static constexpr Named kNamed[] = {
      {"{L}", kLetters},          {"{N}", kNumbers},          {"{M}", kMarks},           {"{P}", kPunctuation},
      {"{S}", kSymbols},          {"{Lu}", category_set(Lu)}, {"{Ll}", category_set(Ll)}, {"{Lt}", category_set(Lt)},
      {"{Lm}", category_set(Lm)}, {"{Lo}", category_set(Lo)}, {"{Han}", 0}};
  for (const Named& named : kNamed) {
    if (!take(named.name)) continue;
    out.add_class([&](uint8_t property) {
      return named.categories == 0 ? (property & unicode_data::kHanBit) != 0
                                   : (category_of(property) & named.categories) != 0;
    });
    return;
  }
  CHECK(false) << "the class " << rest_.substr(0, 8);
}

}  // namespace ibid
