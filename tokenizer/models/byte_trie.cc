#include "tokenizer/models/byte_trie.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "base/check.h"
#include "base/checked.h"

namespace ibid {

// Places the children of one node after another. Only the last few blocks are looked at for room: what is left free in
// older ones is given up, so that each node costs a bounded search.
class ByteTrie::Builder {
 public:
  Builder(std::vector<Unit>& units, std::span<const Entry> sorted) : units_(units), sorted_(sorted) {}

  void run() {
    add_block();
    take(0, kFree);  // nothing leads to the root
    std::vector<Node> open{{0, 0, sorted_.size(), 0}};
    while (!open.empty()) {
      const Node node = open.back();
      open.pop_back();
      grow(node, open);
    }
  }

 private:
  static constexpr size_t kBlock = 256, kOpenBlocks = 8;
  struct Node {
    uint32_t unit;
    size_t begin, end;  // of the entries below it
    size_t depth;       // bytes that lead to it
  };
  struct FreeBits {
    std::array<uint64_t, 4> bits;
    bool has(uint8_t place) const { return bits[place / 64] >> (place % 64) & 1; }
  };

  // `node`'s entry, and its children, which are left to be grown in `open`.
  void grow(Node node, std::vector<Node>& open) {
    if (node.begin < node.end && sorted_[node.begin].text.size() == node.depth) {
      units_[node.unit].value = sorted_[node.begin++].value;
    }
    labels_.clear();
    const size_t n_open = open.size();
    for (size_t begin = node.begin, end = begin; begin < node.end; begin = end) {
      const char label = sorted_[begin].text[node.depth];
      while (end < node.end && sorted_[end].text[node.depth] == label) ++end;
      labels_.push_back(static_cast<uint8_t>(label));
      open.push_back({0, begin, end, node.depth + 1});
    }
    if (labels_.empty()) return;
    const uint32_t base = find_base();
    units_[node.unit].base = base;
    for (size_t i = 0; i < labels_.size(); ++i) {
      open[n_open + i].unit = base ^ labels_[i];
      take(base ^ labels_[i], node.unit);
    }
  }

  uint32_t find_base() {
    const size_t n_blocks = free_.size();
    for (size_t block = saturating_sub(n_blocks, kOpenBlocks); block < n_blocks; ++block) {
      for (size_t word = 0; word < 4; ++word) {
        for (uint64_t bits = free_[block].bits[word]; bits != 0; bits &= bits - 1) {
          const auto place = static_cast<uint8_t>(64 * word + static_cast<size_t>(std::countr_zero(bits)));
          const auto low = static_cast<uint8_t>(place ^ labels_[0]);
          const bool fits = std::all_of(labels_.begin(), labels_.end(), [&](uint8_t label) {
            return free_[block].has(static_cast<uint8_t>(low ^ label));
          });
          if (fits) return static_cast<uint32_t>(block * kBlock + low);
        }
      }
    }
    add_block();
    return static_cast<uint32_t>((free_.size() - 1) * kBlock);
  }

  void add_block() {
    CHECK(units_.size() + kBlock < kFree);
    units_.resize(units_.size() + kBlock);
    free_.push_back({{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}}});
  }

  void take(uint32_t unit, uint32_t parent) {
    units_[unit].parent = parent;
    free_[unit / kBlock].bits[unit % kBlock / 64] &= ~(uint64_t{1} << (unit % 64));
  }

  std::vector<Unit>& units_;
  std::span<const Entry> sorted_;
  std::vector<FreeBits> free_;   // by block
  std::vector<uint8_t> labels_;  // scratch: the bytes of a node's children
};

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  Builder(units_, entries).run();
}

}  // namespace ibid
