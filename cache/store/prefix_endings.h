// PrefixEndings: logits after stored tokens, so that an exact repeat of a prompt needs no forward pass.
//
// An ending belongs to the first n_ids tokens of a node, thus to one token sequence. A node has at most kMaxEndings;
// the least recently used one is replaced. The bytes are charged to the node's namespace. If several siblings begin
// with the same tokens, PrefixTree keeps the ending at the first of them, which is the one that a lookup of exactly
// these tokens returns. Not thread-safe: the store locks.
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

// The caller sets n_ids and logits; PrefixEndings sets the rest.
struct PrefixEnding {
  size_t n_ids = 0;  // of its node; the logits are those after the last of them
  LogitsRow logits;

  size_t charge_bytes() const { return logits->size() * sizeof(float) + sizeof(PrefixEnding); }
  const PrefixEnding* younger() const { return younger_; }  // next one in LRU order, over all nodes

 private:
  friend class PrefixEndings;
  PrefixNode* node_ = nullptr;
  uint64_t last_used_ = 0;
  PrefixEnding* older_ = nullptr;
  PrefixEnding* younger_ = nullptr;
};

inline constexpr size_t kMaxEndings = 4;  // per node

// Member of PrefixNode that is written by PrefixEndings.
class NodeEndings {
 public:
  // In no order; empty slots are null.
  std::span<const std::unique_ptr<PrefixEnding>> all() const { return endings_; }

 private:
  friend class PrefixEndings;
  std::array<std::unique_ptr<PrefixEnding>, kMaxEndings> endings_;
};

class PrefixEndings {
 public:
  explicit PrefixEndings(StoreSpaces& spaces) : spaces_(spaces) {}

  // Returns the ending after the node's first n_ids tokens, or null.
  static PrefixEnding* find(const PrefixNode& node, size_t n_ids);

  // Adds the ending to the node, as most recently used; replaces one of the same length.
  // REQUIRES: 1 <= n_ids <= node.n_ids.
  void add(PrefixNode& node, std::unique_ptr<PrefixEnding> ending);
  void touch(PrefixEnding& ending);
  void drop(PrefixEnding& ending);
  void drop_all(PrefixNode& node);

  // Moves one ending, or all endings of at most n_ids tokens, to another node that begins with the same tokens.
  void move(PrefixNode& from, PrefixNode& to, size_t n_ids);
  void move(PrefixEnding& ending, PrefixNode& to);
  // Moves the charge of the node to another namespace. Call it before `space` of the node changes.
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
