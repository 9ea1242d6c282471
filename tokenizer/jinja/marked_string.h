// MarkedString: bytes, and for each byte whether the template or a message wrote it.
//
// Stored as the offsets at which the origin changes, so a string of one origin costs no more than its bytes.
// A value; comparison looks at bytes only, as templates cannot see origins.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace ibid::jinja {

class MarkedString {
 public:
  MarkedString() = default;
  MarkedString(std::string bytes, TextOrigin origin) : bytes_(std::move(bytes)), first_(origin) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  void append(std::string_view bytes, TextOrigin origin);
  void append(const MarkedString& other);
  // Bytes [begin, end). REQUIRES: begin <= end <= size().
  MarkedString substr(size_t begin, size_t end) const;

  // REQUIRES: offset < size().
  TextOrigin origin_at(size_t offset) const;
  // kInput when any byte is: the origin of what cannot be told apart byte by byte.
  TextOrigin safe_origin() const;

  // visit(std::string_view run, TextOrigin) for each run of one origin, in order.
  template <typename Visit>
  void for_each_run(Visit&& visit) const {
    size_t begin = 0;
    TextOrigin origin = first_;
    for (const size_t cut : cuts_) {
      visit(view().substr(begin, cut - begin), origin);
      begin = cut;
      origin = other_origin(origin);
    }
    if (begin < bytes_.size()) visit(view().substr(begin), origin);
  }

 private:
  static TextOrigin other_origin(TextOrigin origin) {
    return origin == TextOrigin::kTemplate ? TextOrigin::kInput : TextOrigin::kTemplate;
  }
  TextOrigin origin_after(size_t n_cuts) const { return n_cuts % 2 == 0 ? first_ : other_origin(first_); }

  std::string bytes_;
  TextOrigin first_ = TextOrigin::kTemplate;
  std::vector<size_t> cuts_;  // ascending, in (0, size()): where the origin changes to the other one
};

}  // namespace ibid::jinja
