// Properties of Unicode code points: categories, classes and case mappings (version 16.0), tables for the normal forms
// (version 9.0; see make_unicode_tables.py), and how characters form clusters and terminal columns. Also finds runs of
// white space. Tables are constant; all functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ibid {

// The enumerators have the order of the generated tables.
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

// Grapheme_Cluster_Break (UAX 29), with InCB=Linker split from Extend. The order is that of the generated tables.
enum class ClusterBreak : uint8_t {
  kOther,
  kControl,
  kExtend,
  kZwj,
  kRegional,
  kPrepend,
  kSpacingMark,
  kL,
  kV,
  kT,
  kLv,
  kLvt,
  kLinker
};

// The properties of one code point, each byte a bit field.
struct UnicodeRecord {
  uint8_t property;  // bits: general category (the low five), White_Space, word character, Script=Han
  // 0: a starter that never composes with a character before it; 255: any other starter; else the combining class.
  uint8_t normalization;
  uint8_t classes;  // one bit per class below
  uint8_t cluster;  // bits: ClusterBreak (the low four), Extended_Pictographic, InCB=Consonant, columns
};

// Bits of UnicodeRecord::classes: Numeric_Type, case, and how a character joins its neighbours in a cluster.
inline constexpr uint8_t kDigitClass = 0x01, kNumericClass = 0x02, kLowerClass = 0x04, kUpperClass = 0x08;
inline constexpr uint8_t kCaseIgnorableClass = 0x10, kCasedClass = 0x20;  // kCasedClass: cased, not case-ignorable
inline constexpr uint8_t kJoinsPreviousClass = 0x40, kJoinsNextClass = 0x80, kJoinsNothingClass = 0xC0;

// Every `stride`-th code point of [first, last] maps to itself plus delta.
struct CaseRange {
  uint32_t first, last, stride;
  int32_t delta;
};
// A code point that maps to several code points; `text` is UTF-8.
struct CaseSpecial {
  uint32_t code_point;
  const char* text;
};
// Mappings to one character (`ranges`) and to several characters (`specials`), both sorted by code point.
struct CaseTable {
  std::span<const CaseRange> ranges;
  std::span<const CaseSpecial> specials;
};

namespace unicode_data {  // unicode_tables.cc

inline constexpr uint8_t kCategoryMask = 0x1F, kSpaceBit = 0x20, kWordBit = 0x40, kHanBit = 0x80;

// Two-level lookup table: a block is 32 code points, a group 32 blocks; equal blocks and equal groups are stored once.
extern const uint8_t kRecordGroups[1088];
extern const uint16_t kRecordBlocks[];
extern const uint8_t kRecordNumbers[];
extern const UnicodeRecord kRecords[];
// Full canonical decompositions, without Hangul: kDecomposed[i] becomes
// kDecomposedText[kDecomposedOffset[i] .. kDecomposedOffset[i + 1]).
extern const uint32_t kDecomposed[], kDecomposedText[];
extern const uint16_t kDecomposedOffset[];
extern const size_t kDecomposedSize;
// Full decompositions of the characters that decompose only in NFKC and NFKD.
extern const uint32_t kCompatible[], kCompatibleText[];
extern const uint16_t kCompatibleOffset[];
extern const size_t kCompatibleSize;
// Primary composites: the pair (first << 32 | second) and the character that it composes to, sorted by pair.
extern const uint64_t kComposedPair[];
extern const uint32_t kComposed[];
extern const size_t kComposedSize;

CaseTable to_upper_table();
CaseTable to_lower_table();
CaseTable to_title_table();
CaseTable to_folded_table();

}  // namespace unicode_data

// Returns the properties of a code point. REQUIRES: code_point <= U+10FFFF, as for all functions here.
inline const UnicodeRecord& unicode_record(uint32_t code_point) {
  using namespace unicode_data;
  const size_t block = kRecordBlocks[size_t{kRecordGroups[code_point >> 10]} << 5 | (code_point >> 5 & 31)];
  return kRecords[kRecordNumbers[block << 5 | (code_point & 31)]];
}

inline uint8_t unicode_property(uint32_t code_point) { return unicode_record(code_point).property; }
inline uint8_t normalization_class(uint32_t code_point) { return unicode_record(code_point).normalization; }

// True if the code point has all `classes` (bits).
inline bool in_classes(uint32_t code_point, uint8_t classes) {
  return (unicode_record(code_point).classes & classes) == classes;
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

inline constexpr CategorySet kLetters = category_set(GeneralCategory::Ll, GeneralCategory::Lm, GeneralCategory::Lo,
                                                     GeneralCategory::Lt, GeneralCategory::Lu);
inline constexpr CategorySet kMarks = category_set(GeneralCategory::Mc, GeneralCategory::Me, GeneralCategory::Mn);
inline constexpr CategorySet kNumberCategories =
    category_set(GeneralCategory::Nd, GeneralCategory::Nl, GeneralCategory::No);
inline constexpr CategorySet kPunctuation =
    category_set(GeneralCategory::Pc, GeneralCategory::Pd, GeneralCategory::Pe, GeneralCategory::Pf,
                 GeneralCategory::Pi, GeneralCategory::Po, GeneralCategory::Ps);
inline constexpr CategorySet kSymbols =
    category_set(GeneralCategory::Sc, GeneralCategory::Sk, GeneralCategory::Sm, GeneralCategory::So);

inline bool is_letter(uint32_t code_point) { return in_categories(code_point, kLetters); }
inline bool is_mark(uint32_t code_point) { return in_categories(code_point, kMarks); }
inline bool is_number(uint32_t code_point) { return in_categories(code_point, kNumberCategories); }

// White_Space, the set of \s in regular expressions: 25 code points, including U+0085 and U+2028, excluding U+180E.
inline bool is_space(uint32_t code_point) { return (unicode_property(code_point) & unicode_data::kSpaceBit) != 0; }
// \w of UTS 18: Alphabetic, marks, Nd, Pc, Join_Control.
inline bool is_word(uint32_t code_point) { return (unicode_property(code_point) & unicode_data::kWordBit) != 0; }
inline bool is_han(uint32_t code_point) { return (unicode_property(code_point) & unicode_data::kHanBit) != 0; }

// Appends the mapping of the code point, as UTF-8. If it maps to itself, returns false and appends nothing.
bool append_case_mapping(std::string& out, const CaseTable& table, uint32_t code_point);

// Returns where the white space that ends at text[end - 1] starts, but at least `floor`. Invalid bytes are not white
// space. REQUIRES: floor <= end.
size_t spaces_begin(std::string_view text, size_t end, size_t floor = 0);
// Returns where the white space that starts at text[begin] ends.
size_t spaces_end(std::string_view text, size_t begin);

}  // namespace ibid
