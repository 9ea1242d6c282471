// TextCursor: reads characters of a text with the classes that pre-tokenizers test, and records whether it read the end
// of the text. A new one is used for each piece.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {

// Classes of a character, one bit each. The end of the text has no class.
using CharKinds = uint8_t;
inline constexpr CharKinds kLetterKind = 1;         // \p{L}
inline constexpr CharKinds kNumberKind = 2;         // \p{N}
inline constexpr CharKinds kSpaceKind = 4;          // \s
inline constexpr CharKinds kOtherKind = 8;          // [^\s\p{L}\p{N}]
inline constexpr CharKinds kMarkKind = 16;          // \p{M}
inline constexpr CharKinds kUpperKind = 32;         // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
inline constexpr CharKinds kLowerKind = 64;         // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
inline constexpr CharKinds kPunctSymbolKind = 128;  // [\p{P}\p{S}]

namespace char_kinds {

constexpr CharKinds of_property(unsigned property) {
  using enum GeneralCategory;
  const CategorySet category = CategorySet{1} << (property & unicode_data::kCategoryMask);
  const auto in = [category](CategorySet set) { return (category & set) != 0; };
  unsigned kinds = 0;
  if (in(kLetters)) kinds |= kLetterKind;
  if (in(kNumberCategories)) kinds |= kNumberKind;
  if (in(kMarks)) kinds |= kMarkKind;
  if (in(category_set(Lu, Lt, Lm, Lo) | kMarks)) kinds |= kUpperKind;
  if (in(category_set(Ll, Lm, Lo) | kMarks)) kinds |= kLowerKind;
  if (in(kPunctuation | kSymbols)) kinds |= kPunctSymbolKind;
  if ((property & unicode_data::kSpaceBit) != 0) {
    kinds |= kSpaceKind;
  } else if (!in(kLetters | kNumberCategories)) {
    kinds |= kOtherKind;
  }
  return static_cast<CharKinds>(kinds);
}

inline constexpr std::array<CharKinds, 256> kByProperty = [] {
  std::array<CharKinds, 256> out{};
  for (unsigned i = 0; i < 256; ++i) out[i] = of_property(i);
  return out;
}();

constexpr CharKinds of_ascii(unsigned c) {
  if (c >= 'a' && c <= 'z') return kLetterKind | kLowerKind;
  if (c >= 'A' && c <= 'Z') return kLetterKind | kUpperKind;
  if (c >= '0' && c <= '9') return kNumberKind;
  if (c == ' ' || (c >= 9 && c <= 13)) return kSpaceKind;
  return static_cast<CharKinds>(c > 32 && c < 127 ? kOtherKind | kPunctSymbolKind : kOtherKind);
}

inline constexpr std::array<CharKinds, 128> kByAscii = [] {
  std::array<CharKinds, 128> out{};
  for (unsigned i = 0; i < 128; ++i) out[i] = of_ascii(i);
  return out;
}();

}  // namespace char_kinds

struct TextChar {
  uint32_t code_point = 0;
  CharKinds kinds = 0;
  uint8_t length = 0;  // bytes of the character; 0 at the end of the text
};

inline bool is_newline(const TextChar& c) { return c.code_point == '\n' || c.code_point == '\r'; }

// A Barrier is a class of characters at which a pattern's text ends. Some patterns apply inside the pieces of an
// earlier split; the characters that the earlier split isolates are their barrier. Reaching a barrier does not count as
// reading the end of the text.
struct NoBarrier {
  static constexpr CharKinds kKinds = 0;
  static constexpr bool stops_at(uint32_t) { return false; }
};
struct NumberBarrier {
  static constexpr CharKinds kKinds = kNumberKind;
  // True for the numbers of Unicode 17, which the step Digits matches.
  static constexpr bool stops_at(uint32_t c) {
    return (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
  }
};

template <typename Barrier>
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  // Returns the character at `pos`. The character's length is 0 at a barrier and at the end of the text. Records if the
  // end of the text was read.
  TextChar at(size_t pos) {
    const TextChar c = raw(pos);
    return (c.kinds & Barrier::kKinds) != 0 || Barrier::stops_at(c.code_point) ? TextChar{} : c;
  }

  // Returns the character at `pos`, even at a barrier (at() returns length 0 there).
  TextChar raw(size_t pos) {
    if (pos >= text_.size()) {
      touched_end_ = true;
      return {};
    }
    const auto byte = static_cast<unsigned char>(text_[pos]);
    if (byte < 0x80) return {byte, char_kinds::kByAscii[byte], 1};
    return decode(pos);
  }

  // Returns the end of the run of characters that starts at `pos` and has only characters of `kinds`.
  size_t skip(size_t pos, CharKinds kinds) {
    for (TextChar c = at(pos); (c.kinds & kinds) != 0; c = at(pos)) pos += c.length;
    return pos;
  }

  size_t skip_newlines(size_t pos) {
    while (is_newline(at(pos))) ++pos;
    return pos;
  }

  bool touched_end() const { return touched_end_; }

 private:
  TextChar decode(size_t pos) {
    const DecodedChar c = utf8_decode(text_, pos);
    if (!c.valid) {
      if (pos + c.length == text_.size() && utf8_incomplete_tail(text_.substr(pos)) > 0) touched_end_ = true;
      // Bytes that are not UTF-8 are neither letters nor symbols, so return U+FFFF, which has no class.
      return {0xFFFF, kOtherKind, static_cast<uint8_t>(c.length)};
    }
    return {c.code_point, char_kinds::kByProperty[unicode_property(c.code_point)], static_cast<uint8_t>(c.length)};
  }

  std::string_view text_;
  bool touched_end_ = false;
};

}  // namespace ibid
