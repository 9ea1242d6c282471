// PrefixNode: one page of LruKvCacheStore's index and the ids of its rows. The tree's own fields stand here; what the
// other parts of the store keep of a node is a class of theirs, which they alone can change and everybody may read.
// The lock of the store guards all of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/pages/kv_page_pool.h"
#include "cache/store/eviction_queue.h"
#include "cache/store/node_list.h"
#include "cache/store/prefix_endings.h"
#include "cache/store/prefix_holds.h"
#include "cache/store/store_spaces.h"
#include "ibid/token.h"

namespace ibid {

struct PrefixNode {
  // PrefixTree's: which page this is, of which ids, and where it stands.
  uint64_t serial = 0;           // order of creation; the root has 0
  PrefixNode* parent = nullptr;  // null for the root only
  SpaceId space = kSharedSpace;
  size_t n_ids = 0;
  std::array<TokenId, kPagePositions> ids{};
  KvPage page;  // the root has none
  std::vector<PrefixNode*> children;

  NodeRank rank;         // when it goes
  NodeHolds holds;       // who wants it to stay
  NodeEndings endings;   // the logits behind its ids
  NodeLink link;         // of the list that a call collects it in

  TokenSpan tokens() const { return {ids.data(), n_ids}; }
  bool is_full() const { return n_ids == kPagePositions; }
  // True when sequences at rest stand here: the node goes after all nodes where none does.
  bool is_live() const { return holds.has_marks(); }
  // True when nobody but the tree holds the page, so that removing the node frees it.
  bool is_idle() const { return holds.n_pins() == 0 && page.use_count() == 1; }
};

}  // namespace ibid
