// CharSet: a set of characters as a pattern writes it: classes of Unicode, ranges, and differences of such sets.
// Constant after it was filled; thread-safe.
#pragma once

#include <bitset>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/unicode/unicode.h"

namespace ibid {

class CharSet {
 public:
  // A byte that is not UTF-8: in no class and in no range, so only in sets that name what they lack.
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;

  void add(uint32_t first, uint32_t last) {
    for (uint32_t c = first; c <= last && c < 0x80; ++c) ascii_[c] = true;
    if (last >= 0x80) ranges_.emplace_back(first, last);
  }
  // Everything whose unicode_property() `member` accepts.
  template <typename Member>
  void add_class(Member member) {
    for (unsigned property = 0; property < 256; ++property) {
      if (member(static_cast<uint8_t>(property))) properties_[property] = true;
    }
    for (uint32_t c = 0; c < 0x80; ++c) ascii_[c] = ascii_[c] || member(unicode_property(c));
  }
  void add_invalid() { invalid_ = true; }
  // False, and nothing done, where a set of this form cannot say it: `other` must name what is taken away, and classes
  // are only taken away from classes.
  bool intersect(const CharSet& other) {
    const bool ranges_meet_classes = !ranges_.empty() && other.properties_.any();
    if (!other.negated_ || !other.holes_.empty() || negated_ || ranges_meet_classes) return false;
    holes_.insert(holes_.end(), other.ranges_.begin(), other.ranges_.end());
    ascii_ &= ~other.ascii_;
    properties_ &= ~other.properties_;
    return true;
  }
  bool unite(const CharSet& other) {
    if (other.negated_ || !other.holes_.empty() || !holes_.empty()) return false;
    ascii_ |= other.ascii_;
    properties_ |= other.properties_;
    invalid_ = invalid_ || other.invalid_;
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
    return true;
  }
  void negate() { negated_ = !negated_; }

  bool contains(uint32_t c) const {
    if (c < 0x80) return ascii_[c] != negated_;
    return (c == kInvalid ? invalid_ : has(c)) != negated_;
  }

 private:
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

  static bool in(const Ranges& ranges, uint32_t c) {
    for (const auto& [first, last] : ranges) {
      if (c >= first && c <= last) return true;
    }
    return false;
  }
  bool has(uint32_t c) const { return (properties_[unicode_property(c)] || in(ranges_, c)) && !in(holes_, c); }

  std::bitset<128> ascii_;
  std::bitset<256> properties_;  // by unicode_property()
  Ranges ranges_, holes_;
  bool invalid_ = false;  // kInvalid is in it
  bool negated_ = false;
};

}  // namespace ibid
