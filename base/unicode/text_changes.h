// TextChanges: maps positions of a rewritten text to those of its raw form, and back. A value type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace ibid {

class TextChanges {
 public:
  // raw [raw_begin, raw_end) was replaced by new text [begin, end).
  struct Change {
    size_t raw_begin, raw_end, begin, end;
  };

  // REQUIRES: `change` is after all earlier changes.
  void add(const Change& change) { changes_.push_back(change); }
  bool empty() const { return changes_.empty(); }

  // The position in the raw text that corresponds to a position in the new text; nullopt inside a changed part.
  std::optional<size_t> raw_position(size_t position) const {
    const auto next = std::upper_bound(changes_.begin(), changes_.end(), position,
                                       [](size_t p, const Change& change) { return p < change.begin; });
    if (next == changes_.begin()) return position;
    const Change& last = *(next - 1);
    if (position == last.begin) return last.raw_begin;
    if (position < last.end) return std::nullopt;
    return last.raw_end + (position - last.end);
  }

  // The first position in the new text that does not come from raw[0, raw_position).
  size_t position_of(size_t raw_position) const {
    const auto next = std::upper_bound(changes_.begin(), changes_.end(), raw_position,
                                       [](size_t p, const Change& change) { return p < change.raw_begin; });
    if (next == changes_.begin()) return raw_position;
    const Change& last = *(next - 1);
    if (raw_position == last.raw_begin) return last.begin;
    return raw_position < last.raw_end ? last.end : last.end + (raw_position - last.raw_end);
  }

 private:
  std::vector<Change> changes_;
};

}  // namespace ibid
