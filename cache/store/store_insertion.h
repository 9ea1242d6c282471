// StoreInsertion: one insertion of an entry's pages into the tree of LruKvCacheStore. First everything that can fail, a
// plan and its memory; then, when the store has made room, what cannot.
//
// It lives within one call and under the store's lock. Pages that nobody needs any more are left to the caller, because
// zeroing them takes time: they go when the lock is free.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/store/prefix_tree.h"
#include "ibid/token.h"

namespace ibid {

class KvAtRest;

enum class Sharing {
  kPrivate,  // found by the same namespace only
  kShared,   // found by every namespace: its ids can be probed by anybody, so only for what is no secret
};

enum class Extent {
  kAll,
  kFullPages,  // leaves out the partial last page: an entry that goes on growing need not copy it then
};

struct InsertOptions {
  Sharing sharing = Sharing::kPrivate;
  Extent extent = Extent::kAll;
  Retention retention = Retention::kOrdinary;
  // If set, it marks the entry's rows after the call, all of them or as many as can be found; after an error none.
  // It may mark other rows before.
  KvAtRest* rest = nullptr;
};

class StoreInsertion {
 public:
  // Of the entry, which belongs to the namespace `space`. Pages that are replaced are added to `replaced`.
  StoreInsertion(PrefixTree& tree, StoreSpaces& spaces, SpaceId space, KvCacheEntry& entry,
                 const InsertOptions& options, std::vector<KvPage>& replaced);

  // Finds what is known, and takes the memory for what is not. Error: kInvalidArgument when the pages belong to another
  // namespace. May throw std::bad_alloc.
  Status prepare();
  // How many pages the tree will have more.
  size_t n_new() const { return n_unknown() - (grown_leaf_ != nullptr ? 1 : 0); }
  // The nodes below which the new pages will hang: they must survive while room is made.
  PrefixHolds::Kept keep() const { return {parent_, grown_leaf_}; }
  // Inserts. Returns the last node of the entry's path that is known now. Cannot fail. REQUIRES: prepare().
  PrefixNode& apply(RemovedNodes& removed);
  // Positions whose pages are known afterwards: all, but for a last page that is left out.
  size_t n_known() const;

 private:
  void find_known_pages();
  void find_first_page();
  Status check_pages();
  void share_known_pages();
  void share_page(PrefixNode& node, size_t index);
  bool regain_window(PrefixNode& node, size_t index);
  size_t n_unknown() const { return n_pages_ - depth_; }
  TokenSpan page_ids(size_t page) const;

  PrefixTree& tree_;
  StoreSpaces& spaces_;
  KvCacheEntry& entry_;
  const SpaceId own_space_;                // of the entry
  const SpaceId space_;                    // of the new nodes
  const Retention retention_;
  const size_t length_;                    // positions to be known afterwards
  std::vector<KvPage>& replaced_;
  PrefixNode* parent_ = nullptr;           // of the first new node; the pages up to it are known
  PrefixNode* covering_ = nullptr;         // knows the last, partial page too
  size_t own_depth_ = 0;                   // full pages that are known by the entry's own pages
  size_t depth_ = 0;                       // known full pages
  size_t n_pages_ = 0;                     // pages to be known afterwards
  std::vector<PrefixNode*> private_path_;  // known, to be made shared; from the head on
  PrefixNode* grown_leaf_ = nullptr;       // its ids begin those of the first new page, which takes its place
  PrefixTree::NodeMap prepared_;           // the new nodes
};

}  // namespace ibid
