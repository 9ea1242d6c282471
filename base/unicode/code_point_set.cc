#include "base/unicode/code_point_set.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

// Splits [first, last], whose UTF-8 forms have equal length, until each part is a product of byte ranges. In such a
// part, if the leading bytes differ, the trailing bytes cover all of 80 to BF.
void add_sequences(uint32_t first, uint32_t last, std::vector<ByteSequence>& out) {
  for (int shift = 6; shift <= 18; shift += 6) {
    const uint32_t mask = (uint32_t{1} << shift) - 1;
    if ((first & ~mask) == (last & ~mask)) break;
    if ((first & mask) != 0) {
      add_sequences(first, first | mask, out);
      return add_sequences((first | mask) + 1, last, out);
    }
    if ((last & mask) != mask) {
      add_sequences(first, (last & ~mask) - 1, out);
      return add_sequences(last & ~mask, last, out);
    }
  }
  std::string low, high;
  utf8_append(low, first);
  utf8_append(high, last);
  ByteSequence sequence;
  for (size_t i = 0; i < low.size(); ++i) {
    sequence.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
  }
  out.push_back(std::move(sequence));
}

// A character is in a class if its category is one of `categories` and, unless `bit` is 0, it has the property `bit`.
struct UnicodeClass {
  std::string_view names;
  CategorySet categories;
  uint8_t bit = 0;
};

using enum GeneralCategory;
constexpr UnicodeClass kUnicodeClasses[] = {
    {"L Letter", kLetters},
    {"LC Cased_Letter", category_set(Lu, Ll, Lt)},
    {"Lu Uppercase_Letter", category_set(Lu)},
    {"Ll Lowercase_Letter", category_set(Ll)},
    {"Lt Titlecase_Letter", category_set(Lt)},
    {"Lm Modifier_Letter", category_set(Lm)},
    {"Lo Other_Letter", category_set(Lo)},
    {"M Mark Combining_Mark", kMarks},
    {"Mn Nonspacing_Mark", category_set(Mn)},
    {"Mc Spacing_Mark", category_set(Mc)},
    {"Me Enclosing_Mark", category_set(Me)},
    {"N Number", kNumberCategories},
    {"Nd Decimal_Number digit", category_set(Nd)},
    {"Nl Letter_Number", category_set(Nl)},
    {"No Other_Number", category_set(No)},
    {"P Punctuation punct", kPunctuation},
    {"Pc Connector_Punctuation", category_set(Pc)},
    {"Pd Dash_Punctuation", category_set(Pd)},
    {"Ps Open_Punctuation", category_set(Ps)},
    {"Pe Close_Punctuation", category_set(Pe)},
    {"Pi Initial_Punctuation", category_set(Pi)},
    {"Pf Final_Punctuation", category_set(Pf)},
    {"Po Other_Punctuation", category_set(Po)},
    {"S Symbol", kSymbols},
    {"Sm Math_Symbol", category_set(Sm)},
    {"Sc Currency_Symbol", category_set(Sc)},
    {"Sk Modifier_Symbol", category_set(Sk)},
    {"So Other_Symbol", category_set(So)},
    {"Z Separator", category_set(Zs, Zl, Zp)},
    {"Zs Space_Separator", category_set(Zs)},
    {"Zl Line_Separator", category_set(Zl)},
    {"Zp Paragraph_Separator", category_set(Zp)},
    {"C Other", category_set(Cc, Cf, Cn, Co, Cs)},
    {"Cc Control cntrl", category_set(Cc)},
    {"Cf Format", category_set(Cf)},
    {"Cn Unassigned", category_set(Cn)},
    {"Co Private_Use", category_set(Co)},
    {"Cs Surrogate", category_set(Cs)},
    {"White_Space", ~CategorySet{0}, unicode_data::kSpaceBit},
    {"Word", ~category_set(Cf), unicode_data::kWordBit},
    {"Han", ~CategorySet{0}, unicode_data::kHanBit},
};

// The sets of kUnicodeClasses, in one pass over all characters.
std::vector<CodePointSet> sets_of_classes() {
  std::vector<CodePointSet> sets(std::size(kUnicodeClasses));
  for (uint32_t begin = 0; begin <= kLastCodePoint;) {
    const uint8_t property = unicode_property(begin);
    const CategorySet category = category_set(general_category(begin));
    uint32_t end = begin + 1;
    while (end <= kLastCodePoint && unicode_property(end) == property) ++end;
    for (size_t i = 0; i < sets.size(); ++i) {
      const auto& [names, categories, bit] = kUnicodeClasses[i];
      if ((categories & category) != 0 && (property & bit) == bit) sets[i].add(begin, end - 1);
    }
    begin = end;
  }
  return sets;
}

}  // namespace

const CodePointSet* unicode_class(std::string_view name) {
  static const std::vector<CodePointSet> kSets = sets_of_classes();
  const CodePointSet* found = nullptr;
  for (size_t i = 0; i < kSets.size() && found == nullptr; ++i) {
    for_each_piece(kUnicodeClasses[i].names, ' ', [&](std::string_view one) {
      if (one == name) found = &kSets[i];
      return found != nullptr;
    });
  }
  return found;
}

CodePointSet CodePointSet::of(uint32_t first, uint32_t last) {
  CodePointSet set;
  set.add(first, last);
  return set;
}

void CodePointSet::add(uint32_t first, uint32_t last) {
  last = std::min(last, kLastCodePoint);
  if (first > last) return;
  if (first < kFirstSurrogate) add_range({first, std::min(last, kFirstSurrogate - 1)});
  if (last > kLastSurrogate) add_range({std::max(first, kLastSurrogate + 1), last});
}

void CodePointSet::add(const CodePointSet& other) {
  has_invalid_bytes_ |= other.has_invalid_bytes_;
  std::vector<Range> parts;
  std::merge(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(), std::back_inserter(parts),
             [](const Range& a, const Range& b) { return a.first < b.first; });
  ranges_.clear();
  for (const Range& part : parts) {
    if (ranges_.empty() || part.first > ranges_.back().last + 1) {
      ranges_.push_back(part);
    } else {
      ranges_.back().last = std::max(ranges_.back().last, part.last);
    }
  }
}

void CodePointSet::add_range(Range range) {
  const auto begin = std::lower_bound(ranges_.begin(), ranges_.end(), range.first,
                                      [](const Range& r, uint32_t first) { return r.last + 1 < first; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= range.last + 1; ++end) {
    range.first = std::min(range.first, end->first);
    range.last = std::max(range.last, end->last);
  }
  ranges_.insert(ranges_.erase(begin, end), range);
}

bool CodePointSet::has(uint32_t code_point) const {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), code_point,
                                   [](const Range& r, uint32_t c) { return r.last < c; });
  return at != ranges_.end() && at->first <= code_point;
}

CodePointSet CodePointSet::complement() const {
  CodePointSet out;
  out.has_invalid_bytes_ = !has_invalid_bytes_;
  uint32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) out.add(next, range.first - 1);
    next = range.last + 1;
  }
  out.add(next, kLastCodePoint);
  return out;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet out;
  out.has_invalid_bytes_ = has_invalid_bytes_ && other.has_invalid_bytes_;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const Range& a = ranges_[i];
    const Range& b = other.ranges_[j];
    const uint32_t first = std::max(a.first, b.first), last = std::min(a.last, b.last);
    if (first <= last) out.ranges_.push_back({first, last});
    a.last < b.last ? ++i : ++j;
  }
  return out;
}

std::vector<ByteSequence> utf8_sequences(const CodePointSet& set) {
  constexpr uint32_t kLengthEnds[] = {0x7F, 0x7FF, 0xFFFF, kLastCodePoint};
  std::vector<ByteSequence> out;
  for (const CodePointSet::Range& range : set.ranges()) {
    uint32_t first = range.first;
    for (const uint32_t end : kLengthEnds) {
      if (first > range.last || first > end) continue;
      add_sequences(first, std::min(range.last, end), out);
      first = end + 1;
    }
  }
  return out;
}

}  // namespace ibid
