#include "tokenizer/jinja/marked_string.h"

#include <algorithm>

#include "base/check.h"

namespace ibid::jinja {

void MarkedString::append(std::string_view bytes, TextOrigin origin) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_ = origin;
    cuts_.clear();
  } else if (origin_after(cuts_.size()) != origin) {
    cuts_.push_back(bytes_.size());
  }
  bytes_.append(bytes);
}

void MarkedString::append(const MarkedString& other) {
  if (&other == this) {
    append(MarkedString(other));
    return;
  }
  other.for_each_run([this](std::string_view run, TextOrigin origin) { append(run, origin); });
}

MarkedString MarkedString::substr(size_t begin, size_t end) const {
  DCHECK(begin <= end && end <= size());
  MarkedString result;
  result.bytes_.assign(bytes_, begin, end - begin);
  auto cut = std::upper_bound(cuts_.begin(), cuts_.end(), begin);
  result.first_ = origin_after(static_cast<size_t>(cut - cuts_.begin()));
  for (; cut != cuts_.end() && *cut < end; ++cut) result.cuts_.push_back(*cut - begin);
  return result;
}

TextOrigin MarkedString::origin_at(size_t offset) const {
  DCHECK(offset < size());
  const auto cut = std::upper_bound(cuts_.begin(), cuts_.end(), offset);
  return origin_after(static_cast<size_t>(cut - cuts_.begin()));
}

TextOrigin MarkedString::safe_origin() const {
  if (empty()) return TextOrigin::kTemplate;
  return cuts_.empty() ? first_ : TextOrigin::kInput;
}

}  // namespace ibid::jinja
