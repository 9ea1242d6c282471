// PrefixEndings: the logits behind stored ids, so that an exact repeat of a prompt needs no forward pass.
//
// An ending belongs to a node and to the first n_ids of its ids, that is to one sequence of ids. A node has at most
// kMaxEndings of them; the least recently used gives way. Their memory is charged to the node's namespace. If
// several siblings begin with the same ids, PrefixTree keeps the ending at the first of them, because a lookup of
// just these ids arrives there. Not thread-safe: the store locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/store/store_spaces.h"

namespace ibid {

struct PrefixNode;

using LogitsRow = std::shared_ptr<const std::vector<float>>;  // [vocab_size]

// Whoever makes one sets n_ids and logits; the rest is PrefixEndings's.
struct PrefixEnding {
  size_t n_ids = 0;  // of its node; the logits are those of the row behind the last of them
  LogitsRow logits;

  size_t charge_bytes() const { return logits->size() * sizeof(float) + sizeof(PrefixEnding); }
  const PrefixEnding* younger() const { return younger_; }  // the next one in the order of use, over all nodes

 private:
  friend class PrefixEndings;
  PrefixNode* node_ = nullptr;
  uint64_t last_used_ = 0;
  PrefixEnding* older_ = nullptr;
  PrefixEnding* younger_ = nullptr;
};

inline constexpr size_t kMaxEndings = 4;  // of one node

// What PrefixEndings keeps of a node.
class NodeEndings {
 public:
  // In no order, null where there is none.
  std::span<const std::unique_ptr<PrefixEnding>> all() const { return endings_; }

 private:
  friend class PrefixEndings;
  std::array<std::unique_ptr<PrefixEnding>, kMaxEndings> endings_;
};

class PrefixEndings {
 public:
  explicit PrefixEndings(StoreSpaces& spaces) : spaces_(spaces) {}

  // The ending behind the node's first n_ids ids, or null.
  static PrefixEnding* find(const PrefixNode& node, size_t n_ids);

  // Adds the ending to the node, as the youngest. An ending of the same length is replaced. REQUIRES: 1 <= n_ids <=
  // node.n_ids.
  void add(PrefixNode& node, std::unique_ptr<PrefixEnding> ending);
  void touch(PrefixEnding& ending);
  void drop(PrefixEnding& ending);
  void drop_all(PrefixNode& node);

  // Moves one ending, or all endings of at most n_ids ids, from one node to another, which has these ids too.
  void move(PrefixNode& from, PrefixNode& to, size_t n_ids);
  void move(PrefixEnding& ending, PrefixNode& to);
  // The node goes from one namespace to another. Called before its `space` changes.
  void recharge(const PrefixNode& node, SpaceId space);

  PrefixEnding* oldest() const { return oldest_; }
  size_t size() const { return size_; }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<PrefixEnding> take(PrefixEnding& ending);
  void link(PrefixEnding& ending);
  void unlink(PrefixEnding& ending);

  StoreSpaces& spaces_;
  PrefixEnding* oldest_ = nullptr;
  PrefixEnding* youngest_ = nullptr;
  uint64_t tick_ = 0;
  size_t size_ = 0;
  size_t bytes_ = 0;
};

}  // namespace ibid
