#include "tokenizer/splitting/char_set_reader.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace ibid {
namespace {

CategorySet category_of(uint8_t property) {
  return CategorySet{1} << (property & unicode_data::kCategoryMask);
}

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
      // Outside of brackets Oniguruma counts a few numbers of Latin-1 among these.
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
  if (means_more) text_.fail(std::string("a ") + rest[0] + " that stands alone");
  if (text_.failed()) return out;
  const uint32_t c = text_.character();
  // Some pairs of letters are one character in another case, as ss is.
  if (ignores_case_) {
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
      const bool is_pair = (last_folded_ | 0x20) == static_cast<uint32_t>(pair[0]) &&
                           (c | 0x20) == static_cast<uint32_t>(pair[1]);
      if (is_pair) text_.fail("the letters " + std::string(pair) + " behind (?i:");
    }
    last_folded_ = c;
  }
  add_with_case(c, c, out);
  return out;
}

// A range of characters, in both cases where case does not count.
void CharSetReader::add_with_case(uint32_t first, uint32_t last, CharSet& out) {
  if (first > last) return text_.fail("a range that ends before it begins");
  out.add(first, last);
  if (!ignores_case_) return;
  if (last >= 0x80) return text_.fail("letters beyond ASCII behind (?i:");
  for (uint32_t c = first; c <= last; ++c) {
    if (is_letter_of_ascii(c)) out.add(c ^ 0x20, c ^ 0x20);
    if ((c | 0x20) == 's') out.add(0x17F, 0x17F);
    if ((c | 0x20) == 'k') out.add(0x212A, 0x212A);
  }
}

CharSet CharSetReader::bracket() {
  CharSet out;
  const bool negated = text_.take("^");
  if (!text_.enter()) text_.fail("sets in one another");
  if (text_.rest().starts_with(']')) text_.fail("an empty set");
  while (!text_.failed() && !text_.take("]")) {
    if (text_.take("&&")) {
      // Only what the right side takes away can be told of a set.
      if (!text_.take("[") || !text_.rest().starts_with('^')) {
        text_.fail("&& without [^");
        break;
      }
      if (!out.intersect(bracket())) text_.fail("&& of such sets");
      if (!text_.rest().starts_with(']')) text_.fail("what follows && ...");
    } else if (text_.rest().starts_with("[:")) {
      text_.fail("a set of the form [:name:]");
    } else if (text_.take("[")) {
      if (!out.unite(bracket())) text_.fail("such a set in a set");
    } else {
      add_range(out);
    }
  }
  text_.leave();
  if (negated) out.negate();
  return out;
}

// A class, a character, or two of them with a - between.
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
  if (!whole || out > 0x10FFFF) text_.fail("an escape that is no character");
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
        if (c >= 0x80) text_.fail("\\x of a byte");
        return c;
      }
      const uint32_t c = hexadecimal(text_.rest().find('}'));
      if (!text_.take("}")) text_.fail("an escape that is no character");
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
    case 'w':  // without Join_Control, the word characters that are Cf
      return add([](uint8_t property) {
        return (property & kWordBit) != 0 && (category_of(property) & category_set(GeneralCategory::Cf)) == 0;
      });
    case 'd':
      return add([](uint8_t property) {
        return (category_of(property) & category_set(GeneralCategory::Nd)) != 0;
      });
    default: return false;
  }
}

void CharSetReader::add_property(bool lacks, CharSet& out) {
  using enum GeneralCategory;
  struct Named {
    std::string_view name;
    CategorySet categories;
  };
  static constexpr Named kNamed[] = {
      {"L", kLetters},           {"N", kNumbers},           {"M", kMarks},
      {"P", kPunctuation},       {"S", kSymbols},           {"Z", category_set(Zl, Zp, Zs)},
      {"Lu", category_set(Lu)},  {"Ll", category_set(Ll)},  {"Lt", category_set(Lt)},
      {"Lm", category_set(Lm)},  {"Lo", category_set(Lo)},  {"Mn", category_set(Mn)},
      {"Mc", category_set(Mc)},  {"Me", category_set(Me)},  {"Nd", category_set(Nd)},
      {"Nl", category_set(Nl)},  {"No", category_set(No)},  {"Pc", category_set(Pc)},
      {"Pd", category_set(Pd)},  {"Ps", category_set(Ps)},  {"Pe", category_set(Pe)},
      {"Pi", category_set(Pi)},  {"Pf", category_set(Pf)},  {"Po", category_set(Po)},
      {"Sc", category_set(Sc)},  {"Sk", category_set(Sk)},  {"Sm", category_set(Sm)},
      {"So", category_set(So)},  {"Zs", category_set(Zs)},  {"Cc", category_set(Cc)},
      {"Cf", category_set(Cf)},  {"Han", 0}};
  if (ignores_case_) return text_.fail("\\p behind (?i:");
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

}  // namespace ibid
