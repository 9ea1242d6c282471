// Charsmap: SentencePiece's precompiled table, which says what a text is rewritten to before it is cut. It is a
// double array (Yata et al. 2007) over UTF-8, with offsets into a list of texts that end in zero bytes. It is
// applied as `tokenizers` does it. A grapheme cluster of fewer than six bytes becomes what the table has for the
// first text that it begins with; in longer clusters each character does. A space is always a cluster of its own.
// Immutable and thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

class Charsmap {
 public:
  // Nothing when `bytes` are no such table.
  static std::optional<Charsmap> parse(std::string_view bytes);
  // What parse() read.
  std::string bytes() const;

  // Calls replace(begin, end, by) for what the table rewrites, from left to right.
  using Replace = std::function<void(size_t begin, size_t end, std::string_view by)>;
  void apply(std::string_view text, const Replace& replace) const;

  // How much of an open text an append leaves as it is.
  size_t stable_prefix(std::string_view text) const;

 private:
  std::optional<std::string_view> lookup(std::string_view text) const;
  uint32_t unit(size_t index) const { return index < units_.size() ? units_[index] : 0; }

  // Whether a character of one byte stays when such another follows, or nothing does: most of most texts.
  bool stays(std::string_view text, size_t at) const {
    const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
    return byte(at) < 0x80 && ascii_stays_[byte(at)] && (at + 1 == text.size() || byte(at + 1) < 0x80);
  }

  std::vector<uint32_t> units_;
  std::string texts_;
  std::array<bool, 0x80> ascii_stays_{};  // by character; CR may be half of a cluster
};

}  // namespace ibid
