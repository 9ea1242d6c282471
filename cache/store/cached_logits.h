// CachedLogitsIndex: logits after stored tokens, so that an exact repeat of a prompt needs no forward pass.
//
// A CachedLogits belongs to the first n_tokens tokens of a node, and so to one token sequence. A node has at
// most kMaxCachedLogits; when there are more, the least recently used one is dropped. Their bytes are charged to the
// node's namespace. If several siblings begin with the same tokens, PrefixTree keeps the logits at the first sibling,
// which a lookup of exactly these tokens returns. Not thread-safe: called under the store's lock.
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

// The caller sets n_tokens and logits; CachedLogitsIndex sets the other members.
struct CachedLogits {
  size_t n_tokens = 0;  // `logits` belong to the position after the first n_tokens tokens of the node
  LogitsRow logits;

  size_t charge_bytes() const { return logits->size() * sizeof(float) + sizeof(CachedLogits); }
  const CachedLogits* younger() const { return younger_; }  // next CachedLogits in LRU order, over all nodes

 private:
  friend class CachedLogitsIndex;
  PrefixNode* node_ = nullptr;
  uint64_t last_used_ = 0;
  CachedLogits* older_ = nullptr;
  CachedLogits* younger_ = nullptr;
};

inline constexpr size_t kMaxCachedLogits = 4;  // maximum number of CachedLogits of a node

// Member of PrefixNode that only CachedLogitsIndex writes: the logits of the node.
class NodeLogits {
 public:
  // All CachedLogits of the node, in no particular order; empty slots are null.
  std::span<const std::unique_ptr<CachedLogits>> all() const { return logits_; }

 private:
  friend class CachedLogitsIndex;
  std::array<std::unique_ptr<CachedLogits>, kMaxCachedLogits> logits_;
};

class CachedLogitsIndex {
 public:
  explicit CachedLogitsIndex(StoreSpaces& spaces) : spaces_(spaces) {}

  // Returns the logits after the node's first n_tokens tokens, or null.
  static CachedLogits* find(const PrefixNode& node, size_t n_tokens);

  // Adds logits to the node, as most recently used. Replaces logits of the node after the same number of tokens.
  void add(PrefixNode& node, std::unique_ptr<CachedLogits> cached_logits);
  void touch(CachedLogits& cached_logits);
  void drop(CachedLogits& cached_logits);
  void drop_all(PrefixNode& node);

  // Both functions move CachedLogits from one node to another that begins with the same tokens. move() moves all that
  // follow at most n_tokens tokens, the other function only `ending`.
  void move(PrefixNode& from, PrefixNode& to, size_t n_tokens);
  void move(CachedLogits& cached_logits, PrefixNode& to);
  // Moves the charge for the node's logits to another namespace. Call it before node.space changes.
  void recharge(const PrefixNode& node, SpaceId space);

  CachedLogits* oldest() const { return oldest_; }
  size_t size() const { return size_; }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<CachedLogits> take(CachedLogits& cached_logits);
  void link(CachedLogits& cached_logits);
  void unlink(CachedLogits& cached_logits);

  StoreSpaces& spaces_;
  CachedLogits* oldest_ = nullptr;
  CachedLogits* youngest_ = nullptr;
  uint64_t tick_ = 0;
  size_t size_ = 0;
  size_t bytes_ = 0;
};

}  // namespace ibid
