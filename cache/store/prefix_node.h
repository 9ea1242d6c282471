// PrefixNode: one page of LruKvCacheStore's index and the ids of its rows, and PrefixEnding: the logits behind
// one of these. Plain data: PrefixTree, EvictionQueue and PrefixEndings keep the rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/types.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/store/store_spaces.h"

namespace ibid {

// How long inserted pages are to stay when memory is short.
enum class Retention {
  kOrdinary,
  kPrefix,  // a declared prefix, such as a system prompt: goes after the others
};

using LogitsRow = std::shared_ptr<const std::vector<float>>;  // [vocab_size]

struct PrefixNode;

struct PrefixEnding {
  PrefixNode* node = nullptr;
  size_t n_ids = 0;  // of the node; the logits are those of the row behind the last of them
  LogitsRow logits;
  uint64_t last_used = 0;
  PrefixEnding* older = nullptr;  // in the order of use, over all nodes
  PrefixEnding* younger = nullptr;

  size_t charge_bytes() const { return logits->size() * sizeof(float) + sizeof(PrefixEnding); }
};

// Where a sequence at rest stands: the path down to `node` begins with its first `length` ids, the last of which are
// the node's.
struct PrefixMark {
  PrefixNode* node = nullptr;  // null: nothing of the sequence is there
  size_t length = 0;
  PrefixMark* previous = nullptr;  // the marks of the node, in no order
  PrefixMark* next = nullptr;
};

inline constexpr size_t kMaxEndings = 4;  // of one node
inline constexpr size_t kNotQueued = ~size_t{0};

struct PrefixNode {
  uint64_t serial = 0;           // order of creation; the root has 0
  PrefixNode* parent = nullptr;  // null for the root only
  SpaceId space = kSharedSpace;
  size_t n_ids = 0;
  std::array<TokenId, kPagePositions> ids{};
  KvPage page;  // the root has none
  std::vector<PrefixNode*> children;
  std::array<std::unique_ptr<PrefixEnding>, kMaxEndings> endings;  // in no order, null where there is none
  size_t n_pins = 0;
  PrefixMark* marks = nullptr;
  Retention retention = Retention::kOrdinary;
  bool was_reused = false;      // a second sequence, or a second turn, went through it
  uint64_t rank = 0;            // EvictionQueue: the lowest goes first,
  uint64_t last_used = 0;       // of equal ones the one that was not used for the longest time
  size_t place = kNotQueued;    // in the queue
  uint64_t scan = 0;            // scratch of count_evictable(): the scan that visited it last,
  size_t scanned_children = 0;  // and how many children could go in that scan
  std::unique_ptr<PrefixNode> next_removed;
  PrefixNode* next = nullptr;  // scratch: of what a call collects

  TokenSpan tokens() const { return {ids.data(), n_ids}; }
  bool is_full() const { return n_ids == kPagePositions; }
  // True when sequences at rest stand here: the node goes after all nodes where none does.
  bool is_live() const { return marks != nullptr; }
  // True when nobody but the tree holds the page, so that removing the node frees it.
  bool is_idle() const { return n_pins == 0 && page.use_count() == 1; }
};

// Nodes that left the tree. Their pages are zeroed as they are given back, which takes time. So they are given back
// when this object is destroyed, after the store's lock is released.
class RemovedNodes {
 public:
  // Each one that is added is counted in n_total as well.
  explicit RemovedNodes(size_t& n_total) : n_total_(n_total) {}
  RemovedNodes(const RemovedNodes&) = delete;
  RemovedNodes& operator=(const RemovedNodes&) = delete;
  ~RemovedNodes() { clear(); }
  void clear() {
    while (first_ != nullptr) first_ = std::move(first_->next_removed);  // not recursively: they are many
    size_ = 0;
  }
  void add(std::unique_ptr<PrefixNode> node) {
    node->next_removed = std::move(first_);
    first_ = std::move(node);
    ++size_;
    ++n_total_;
  }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<PrefixNode> first_;
  size_t size_ = 0;
  size_t& n_total_;
};

}  // namespace ibid
