// CharSet: a set of Unicode scalar values (no surrogates), as sorted ranges. A value.
#pragma once

#include <cstdint>
#include <vector>

namespace ibid {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

class CharSet {
 public:
  struct Range {
    uint32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CharSet() = default;
  static CharSet of(uint32_t first, uint32_t last);
  static CharSet of(uint32_t code_point) { return of(code_point, code_point); }
  static CharSet all() { return of(0, kLastCodePoint); }

  // Surrogates are left out: no UTF-8 text has them.
  void add(uint32_t first, uint32_t last);
  void add(uint32_t code_point) { add(code_point, code_point); }
  void add(const CharSet& other);

  bool has(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  CharSet complement() const;
  CharSet intersection(const CharSet& other) const;
  CharSet without(const CharSet& other) const { return intersection(other.complement()); }
  bool operator==(const CharSet&) const = default;

 private:
  void add_range(Range range);

  std::vector<Range> ranges_;  // sorted; no two touch
};

// Sequences of byte ranges that spell exactly the characters of a set in UTF-8.
struct ByteRange {
  uint8_t first, last;
  bool operator==(const ByteRange&) const = default;
};
using ByteSequence = std::vector<ByteRange>;  // 1 to 4 of them
std::vector<ByteSequence> utf8_sequences(const CharSet& set);

}  // namespace ibid
