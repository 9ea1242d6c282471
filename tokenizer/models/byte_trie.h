// ByteTrie: finds which of a set of byte strings a text begins with. It is a double array (Aoe 1989; the form with
// XOR of Yata et al. 2007), which takes one load for each byte of the text and no further memory.
//
// A node is a unit, its child by a byte stands at base ^ byte and names its parent. Units come in blocks of 256 that
// differ in their low byte alone, so a child's place needs no check of bounds. Built once, immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ibid/token.h"

namespace ibid {

class ByteTrie {
 public:
  struct Entry {
    std::string_view text;
    TokenId value;  // >= 0
  };
  ByteTrie() : ByteTrie(std::vector<Entry>()) {}
  // REQUIRES: no text is empty, no text is there twice. Memory: O(sum of the texts' bytes).
  explicit ByteTrie(std::vector<Entry> entries);

  // Calls found(length, value) for every entry that text[begin, ...) begins with, the shortest first.
  template <typename Found>
  void for_each_prefix(std::string_view text, size_t begin, Found found) const {
    uint32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const uint32_t child = units_[node].base ^ static_cast<unsigned char>(text[at]);
      const Unit& unit = units_[child];
      if (unit.parent != node) return;
      node = child;
      if (unit.value >= 0) found(at + 1 - begin, unit.value);
    }
  }

  size_t n_units() const { return units_.size(); }

 private:
  class Builder;
  static constexpr uint32_t kFree = UINT32_MAX;

  // A node without children has the base 0; nothing that stands there names it as its parent.
  struct Unit {
    uint32_t base = 0;
    uint32_t parent = kFree;
    TokenId value = -1;
  };
  std::vector<Unit> units_;
};

}  // namespace ibid
