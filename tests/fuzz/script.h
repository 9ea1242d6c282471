// Script: decodes decisions from the bytes of an input. After the input's end it returns zeros, so every input is
// valid.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace ibid::fuzz {

using Input = std::span<const uint8_t>;

inline std::string_view text_of(Input bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class Script {
 public:
  explicit Script(Input bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  template <typename T>
  T number() {
    T value{};
    const Input taken = take(sizeof(T));
    std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  uint8_t byte() { return number<uint8_t>(); }
  bool flag() { return byte() % 2 != 0; }
  // REQUIRES: 0 < n <= 256.
  size_t below(size_t n) { return byte() % n; }
  template <typename List>
  const auto& pick(const List& list) {
    return list[below(std::size(list))];
  }
  // Reads a length byte, then that many bytes of text.
  std::string text(size_t at_most = 255) {
    const size_t length = std::min<size_t>(byte(), at_most);
    return std::string(text_of(take(length)));
  }
  // Reads up to a zero byte, and skips that byte.
  std::string line() {
    const auto end = std::find(rest_.begin(), rest_.end(), uint8_t{0});
    std::string out(text_of(take(static_cast<size_t>(end - rest_.begin()))));
    take(1);
    return out;
  }
  Input take(size_t n) {
    const Input taken = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  Input rest() { return take(rest_.size()); }

 private:
  Input rest_;
};

}  // namespace ibid::fuzz
