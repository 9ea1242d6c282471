// PatternText: an expression as it is read, from front to back, and the first thing in it that is not known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ibid {

class PatternText {
 public:
  static constexpr size_t kMaxDepth = 200;  // of groups, alternatives and sets

  explicit PatternText(std::string_view expression) : rest_(expression) {}

  std::string_view rest() const { return rest_; }
  // REQUIRES: n <= rest().size()
  void skip(size_t n) { rest_.remove_prefix(n); }
  // Goes on behind `text` if it comes next, and says whether it did.
  bool take(std::string_view text);
  // What follows a backslash; the end of the expression is an error.
  char take_letter();
  // One character of a set; the end of the expression is an error.
  uint32_t character();

  // One level deeper. False: deeper than kMaxDepth.
  bool enter() { return ++depth_ <= kMaxDepth; }
  void leave() { --depth_; }

  // Only the first call counts. It drops the rest of the expression, which ends every loop over it.
  void fail(std::string_view what);
  bool failed() const { return failure_.has_value(); }
  const std::optional<std::string>& failure() const { return failure_; }

 private:
  std::string_view rest_;
  size_t depth_ = 0;
  std::optional<std::string> failure_;
};

}  // namespace ibid
