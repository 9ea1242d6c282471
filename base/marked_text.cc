#include "base/marked_text.h"

#include <algorithm>

#include "base/check.h"

namespace ibid {

void MarkedText::append(std::string_view bytes, TextOrigin origin) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_ = origin;
    cuts_.clear();
  } else if (origin_after(cuts_.size()) != origin) {
    cuts_.push_back(bytes_.size());
  }
  bytes_.append(bytes);
}

void MarkedText::append(const MarkedText& other) {
  if (&other == this) {
    append(MarkedText(other));
    return;
  }
  for (const Run run : other.runs()) append(run.bytes, run.origin);
}

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  DCHECK(begin <= end && &other != this);
  size_t position = 0;
  for (const Run run : other.runs()) {
    const size_t run_end = position + run.bytes.size();
    const size_t from = std::clamp(begin, position, run_end) - position;
    const size_t to = std::clamp(end, position, run_end) - position;
    append(run.bytes.substr(from, to - from), run.origin);
    position = run_end;
  }
}

void MarkedText::remove_prefix(size_t n) {
  DCHECK(n <= size());
  const auto kept = std::upper_bound(cuts_.begin(), cuts_.end(), n);
  first_ = origin_after(static_cast<size_t>(kept - cuts_.begin()));
  cuts_.erase(cuts_.begin(), kept);
  for (size_t& cut : cuts_) cut -= n;
  bytes_.erase(0, n);
}

MarkedText MarkedText::substr(size_t begin, size_t end) const {
  DCHECK(begin <= end && end <= size());
  MarkedText result;
  result.bytes_.assign(bytes_, begin, end - begin);
  auto cut = std::upper_bound(cuts_.begin(), cuts_.end(), begin);
  result.first_ = origin_after(static_cast<size_t>(cut - cuts_.begin()));
  for (; cut != cuts_.end() && *cut < end; ++cut) result.cuts_.push_back(*cut - begin);
  return result;
}

TextOrigin MarkedText::origin_at(size_t offset) const {
  DCHECK(offset < size());
  const auto cut = std::upper_bound(cuts_.begin(), cuts_.end(), offset);
  return origin_after(static_cast<size_t>(cut - cuts_.begin()));
}

TextOrigin MarkedText::safe_origin() const {
  if (empty()) return TextOrigin::kTemplate;
  return cuts_.empty() ? first_ : TextOrigin::kInput;
}

}  // namespace ibid
