#include "grammar/code_point_set.h"

#include <algorithm>

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

}  // namespace

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
  for (const Range& range : other.ranges_) add_range(range);
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
