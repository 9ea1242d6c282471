#include "grammar/regex_classes.h"

#include <array>
#include <map>
#include <utility>

#include "base/unicode/unicode.h"

namespace ibid {
namespace {

// In the order of GeneralCategory.
constexpr std::array<std::string_view, 30> kCategoryNames = {
    "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
    "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

// Of PropertyValueAliases.txt, as ECMA-262 has them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 41> kLongNames = {{
    {"Letter", "L"}, {"Cased_Letter", "LC"}, {"Uppercase_Letter", "Lu"}, {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"}, {"Modifier_Letter", "Lm"}, {"Other_Letter", "Lo"}, {"Mark", "M"},
    {"Combining_Mark", "M"}, {"Nonspacing_Mark", "Mn"}, {"Spacing_Mark", "Mc"}, {"Enclosing_Mark", "Me"},
    {"Number", "N"}, {"Decimal_Number", "Nd"}, {"digit", "Nd"}, {"Letter_Number", "Nl"}, {"Other_Number", "No"},
    {"Punctuation", "P"}, {"punct", "P"}, {"Connector_Punctuation", "Pc"}, {"Dash_Punctuation", "Pd"},
    {"Open_Punctuation", "Ps"}, {"Close_Punctuation", "Pe"}, {"Initial_Punctuation", "Pi"},
    {"Final_Punctuation", "Pf"}, {"Other_Punctuation", "Po"}, {"Symbol", "S"}, {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"}, {"Modifier_Symbol", "Sk"}, {"Other_Symbol", "So"}, {"Separator", "Z"},
    {"Space_Separator", "Zs"}, {"Line_Separator", "Zl"}, {"Paragraph_Separator", "Zp"}, {"Other", "C"},
    {"Control", "Cc"}, {"cntrl", "Cc"}, {"Format", "Cf"}, {"Unassigned", "Cn"}, {"Private_Use", "Co"}}};

// One walk over all characters, for all categories and the groups of them.
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
  static const std::map<std::string_view, CodePointSet> kSets = category_sets();
  for (const auto& [long_name, short_name] : kLongNames) {
    if (name == long_name) name = short_name;
  }
  const auto found = kSets.find(name);
  return found == kSets.end() ? std::nullopt : std::optional(found->second);
}

CodePointSet class_of_dot() {
  CodePointSet ends = CodePointSet::of('\n');
  ends.add('\r');
  ends.add(0x2028, 0x2029);
  return ends.complement();
}

}  // namespace ibid
