#include "sampling/grammar/regex_classes.h"

#include <array>

#include "base/unicode/unicode.h"

namespace ibid {
namespace {

// In the order of GeneralCategory.
constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
    "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

CodePointSet digits() { return CodePointSet::of('0', '9'); }

CodePointSet word_characters() {
  CodePointSet set = digits();
  set.add('A', 'Z');
  set.add('_');
  set.add('a', 'z');
  return set;
}

// WhiteSpace and LineTerminator of ECMA-262.
CodePointSet spaces() {
  CodePointSet set = CodePointSet::of('\t', '\r');
  for (const uint32_t c : {0x20u, 0xA0u, 0x1680u, 0x2028u, 0x2029u, 0x202Fu, 0x205Fu, 0x3000u, 0xFEFFu}) set.add(c);
  set.add(0x2000, 0x200A);
  return set;
}

}  // namespace

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

std::optional<CodePointSet> class_of_category(std::string_view name) {
  if (name.empty()) return std::nullopt;
  std::array<bool, kCategoryNames.size()> wanted{};
  bool any = false;
  for (size_t i = 0; i < kCategoryNames.size(); ++i) any |= wanted[i] = kCategoryNames[i].starts_with(name);
  if (!any) return std::nullopt;
  CodePointSet set;
  for (uint32_t begin = 0; begin <= kLastCodePoint;) {
    const bool in = wanted[static_cast<size_t>(general_category(begin))];
    uint32_t end = begin + 1;
    while (end <= kLastCodePoint && wanted[static_cast<size_t>(general_category(end))] == in) ++end;
    if (in) set.add(begin, end - 1);
    begin = end;
  }
  return set;
}

CodePointSet class_of_dot() {
  CodePointSet ends = CodePointSet::of('\n');
  ends.add('\r');
  ends.add(0x2028, 0x2029);
  return ends.complement();
}

}  // namespace ibid
