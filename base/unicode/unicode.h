// Properties of Unicode code points: what pre-tokenizers ask for (version 16.0) and the normal forms
// NFC and NFKC (version 9.0; make_unicode_tables.py says why).
// Not a text library: no case mapping, no segmentation. Tables are constant; everything is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ibid {

// In the order of the generated tables.
enum class GeneralCategory : uint8_t {
  Cn,
  Cc,
  Cf,
  Co,
  Cs,
  Ll,
  Lm,
  Lo,
  Lt,
  Lu,
  Mc,
  Me,
  Mn,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Pe,
  Pf,
  Pi,
  Po,
  Ps,
  Sc,
  Sk,
  Sm,
  So,
  Zl,
  Zp,
  Zs,
};

namespace unicode_data {  // unicode_tables.cc; blocks of 256 code points, equal blocks stored once

inline constexpr uint8_t kCategoryMask = 0x1F, kSpaceBit = 0x20, kWordBit = 0x40, kHanBit = 0x80;

extern const uint8_t kPropertyIndex[4352];
extern const uint8_t kPropertyBlocks[];
// 0: a starter that never composes with what stands before it (a border for NFC); 255: any other starter;
// else the canonical combining class.
extern const uint8_t kNormalizationIndex[4352];
extern const uint8_t kNormalizationBlocks[];
// Full canonical decompositions, without Hangul: kDecomposed[i] becomes
// kDecomposition[kDecompositionOffset[i] .. kDecompositionOffset[i + 1]).
extern const uint32_t kDecomposed[];
extern const uint16_t kDecompositionOffset[];
extern const uint32_t kDecomposition[];
extern const size_t kDecomposedSize;
// Full decompositions of the characters that only the forms NFKC and NFKD decompose.
extern const uint32_t kCompatible[];
extern const uint16_t kCompatibleOffset[];
extern const uint32_t kCompatibleText[];
extern const size_t kCompatibleSize;
// Ranges (first, last, first, last, ...) of the classes of Grapheme_Cluster_Break: what joins what stands before it
// (Extend, SpacingMark, ZWJ), what joins what follows it (Prepend), and what joins nothing (Control, CR, LF).
extern const uint32_t kGraphemeExtend[], kGraphemePrepend[], kGraphemeControl[];
extern const size_t kGraphemeExtendSize, kGraphemePrependSize, kGraphemeControlSize;
// Primary composites: (first << 32 | second) -> composite, sorted by pair.
extern const uint64_t kComposedPair[];
extern const uint32_t kComposed[];
extern const size_t kComposedSize;

}  // namespace unicode_data

// General category in the low five bits, then White_Space, word character, Script=Han.
// REQUIRES: code_point <= U+10FFFF, as for all functions here.
inline uint8_t unicode_property(uint32_t code_point) {
  using namespace unicode_data;
  return kPropertyBlocks[size_t{kPropertyIndex[code_point >> 8]} << 8 | (code_point & 0xFF)];
}

inline uint8_t normalization_class(uint32_t code_point) {
  using namespace unicode_data;
  return kNormalizationBlocks[size_t{kNormalizationIndex[code_point >> 8]} << 8 | (code_point & 0xFF)];
}

inline GeneralCategory general_category(uint32_t code_point) {
  return static_cast<GeneralCategory>(unicode_property(code_point) & unicode_data::kCategoryMask);
}

// A set of general categories, one bit each.
using CategorySet = uint32_t;
constexpr CategorySet category_set() { return 0; }
template <typename... Rest>
constexpr CategorySet category_set(GeneralCategory first, Rest... rest) {
  return CategorySet{1} << static_cast<unsigned>(first) | category_set(rest...);
}
inline bool in_categories(uint32_t code_point, CategorySet set) {
  return (set >> static_cast<unsigned>(general_category(code_point)) & 1u) != 0;
}

inline constexpr CategorySet kLetters = category_set(
    GeneralCategory::Ll, GeneralCategory::Lm, GeneralCategory::Lo, GeneralCategory::Lt, GeneralCategory::Lu);
inline constexpr CategorySet kMarks =
    category_set(GeneralCategory::Mc, GeneralCategory::Me, GeneralCategory::Mn);
inline constexpr CategorySet kNumbers =
    category_set(GeneralCategory::Nd, GeneralCategory::Nl, GeneralCategory::No);
inline constexpr CategorySet kPunctuation =
    category_set(GeneralCategory::Pc, GeneralCategory::Pd, GeneralCategory::Pe, GeneralCategory::Pf,
                 GeneralCategory::Pi, GeneralCategory::Po, GeneralCategory::Ps);
inline constexpr CategorySet kSymbols =
    category_set(GeneralCategory::Sc, GeneralCategory::Sk, GeneralCategory::Sm, GeneralCategory::So);

inline bool is_letter(uint32_t code_point) { return in_categories(code_point, kLetters); }
inline bool is_mark(uint32_t code_point) { return in_categories(code_point, kMarks); }
inline bool is_number(uint32_t code_point) { return in_categories(code_point, kNumbers); }

// White_Space, which is what \s means: 25 code points, U+0085 and U+2028 among them, U+180E not.
inline bool is_space(uint32_t code_point) {
  return (unicode_property(code_point) & unicode_data::kSpaceBit) != 0;
}
// \w of UTS 18: Alphabetic, marks, Nd, Pc, Join_Control.
inline bool is_word(uint32_t code_point) {
  return (unicode_property(code_point) & unicode_data::kWordBit) != 0;
}
inline bool is_han(uint32_t code_point) {
  return (unicode_property(code_point) & unicode_data::kHanBit) != 0;
}

}  // namespace ibid
