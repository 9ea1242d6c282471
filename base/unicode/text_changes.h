// TextChanges: maps the places of a text to those of the text that it was rewritten to, and back. A value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace ibid {

class TextChanges {
 public:
  // raw [raw_begin, raw_end) became text [begin, end).
  struct Change {
    size_t raw_begin, raw_end, begin, end;
  };

  // REQUIRES: `change` lies behind all before it.
  void add(const Change& change) { changes_.push_back(change); }
  bool empty() const { return changes_.empty(); }

  // The place in the raw text that corresponds to a place in the new one; nothing inside of what was changed.
  std::optional<size_t> raw_position(size_t position) const {
    const auto next = std::upper_bound(changes_.begin(), changes_.end(), position,
                                       [](size_t p, const Change& change) { return p < change.begin; });
    if (next == changes_.begin()) return position;
    const Change& last = *(next - 1);
    if (position == last.begin) return last.raw_begin;
    if (position < last.end) return std::nullopt;
    return last.raw_end + (position - last.end);
  }

  // The first place in the new text that does not come from raw[0, raw_position).
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
