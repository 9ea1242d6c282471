// CodePointSet: a set of Unicode scalar values (no surrogates), as sorted ranges. A value. Bytes that are not UTF-8
// count as one more member, which is in complements only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ibid {

inline constexpr uint32_t kLastCodePoint = 0x10FFFF;

class CodePointSet {
 public:
  struct Range {
    uint32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CodePointSet() = default;
  static CodePointSet of(uint32_t first, uint32_t last);
  static CodePointSet of(uint32_t code_point) { return of(code_point, code_point); }
  static CodePointSet all() { return of(0, kLastCodePoint); }

  // Skips surrogates, because UTF-8 cannot contain them.
  void add(uint32_t first, uint32_t last);
  void add(uint32_t code_point) { add(code_point, code_point); }
  void add(const CodePointSet& other);

  bool has(uint32_t code_point) const;
  bool has_invalid_bytes() const { return has_invalid_bytes_; }
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  CodePointSet complement() const;
  CodePointSet intersection(const CodePointSet& other) const;
  CodePointSet without(const CodePointSet& other) const { return intersection(other.complement()); }
  bool operator==(const CodePointSet&) const = default;

 private:
  void add_range(Range range);

  std::vector<Range> ranges_;  // sorted, disjoint and not adjacent
  bool has_invalid_bytes_ = false;
};

// The characters with a property, by its name in \p{..}: a general category ("Lu", "Uppercase_Letter", "L") as in
// PropertyValueAliases.txt, "White_Space", "Han", or "Word" (\w of UTS 18 without Join_Control). nullptr for other
// names.
const CodePointSet* unicode_class(std::string_view name);

// utf8_sequences() returns sequences of byte ranges that match exactly the UTF-8 forms of a set.
struct ByteRange {
  uint8_t first, last;
  bool operator==(const ByteRange&) const = default;
};
using ByteSequence = std::vector<ByteRange>;  // 1 to 4 byte ranges
std::vector<ByteSequence> utf8_sequences(const CodePointSet& set);

}  // namespace ibid
