// Charsmap: SentencePiece's precompiled table of what a text is rewritten to before it is cut: a double array (Yata et
// al. 2007) over UTF-8 with offsets into a list of texts that end in zero bytes. Applied as `tokenizers` does it: a
// grapheme cluster of fewer than six bytes becomes what the table has for the first text that it begins with; of others
// each character does. A space is always a cluster of its own. Immutable and thread-safe.
#pragma once

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

  // Calls replace(begin, end, by) for what the table rewrites, from left to right.
  using Replace = std::function<void(size_t begin, size_t end, std::string_view by)>;
  void apply(std::string_view text, const Replace& replace) const;

  // How much of an open text an append leaves as it is.
  size_t stable_prefix(std::string_view text) const;

 private:
  std::optional<std::string_view> lookup(std::string_view text) const;
  uint32_t unit(size_t index) const { return index < units_.size() ? units_[index] : 0; }

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace ibid
