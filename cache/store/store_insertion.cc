// How LruKvCacheStore learns what an entry and a prompt's end hold: first everything that can fail, a plan and its
// memory, then what cannot.
#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "cache/store/lru_kv_cache_store.h"

namespace ibid {

namespace {

// Pins the nodes that must survive while room is made.
class Kept {
 public:
  Kept(PrefixNode* a, PrefixNode* b) : nodes_{a, b} {
    for (PrefixNode* node : nodes_) {
      if (node != nullptr) ++node->n_pins;
    }
  }
  ~Kept() {
    for (PrefixNode* node : nodes_) {
      if (node != nullptr) --node->n_pins;
    }
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

 private:
  PrefixNode* nodes_[2];
};

size_t above(size_t wanted, size_t limit) { return wanted - std::min(wanted, limit); }

size_t divide_up(size_t a, size_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

// Where an entry's unknown pages will hang.
struct LruKvCacheStore::Plan {
  SpaceId space = kSharedSpace;           // of the new nodes
  size_t length = 0;                      // positions to be known afterwards
  PrefixNode* parent = nullptr;           // of the first new node; the pages up to it are known
  PrefixNode* covering = nullptr;         // knows the last, partial page too
  size_t own_depth = 0;                   // full pages that are known by the entry's own pages
  size_t depth = 0;                       // known full pages
  size_t n_pages = 0;                     // pages to be known afterwards
  std::vector<PrefixNode*> private_path;  // known, to be made shared; from the head on
  PrefixNode* grown_leaf = nullptr;       // its ids begin those of the first new page, which takes its place
  PrefixTree::NodeMap prepared;           // the new nodes
  std::vector<KvPage> replaced;           // pages that nobody may need any more

  size_t n_unknown() const { return n_pages - depth; }
  // Positions whose pages are known afterwards: all, but for a last page that is left out.
  size_t n_known() const { return covering != nullptr ? length : std::min(length, n_pages * kPagePositions); }
  size_t n_new() const { return n_unknown() - (grown_leaf != nullptr ? 1 : 0); }
  TokenSpan ids(const KvCacheEntry& entry, size_t page) const {
    const size_t begin = page * kPagePositions;
    return entry.tokens().subspan(begin, std::min(kPagePositions, length - begin));
  }
};

LruKvCacheStore::Plan LruKvCacheStore::plan_insert(SpaceId space, const KvCacheEntry& entry,
                                                   const InsertOptions& options) {
  Plan plan;
  plan.space = options.sharing == Sharing::kShared ? kSharedSpace : space;
  const size_t n_full = entry.length() / kPagePositions;
  plan.length = options.extent == Extent::kFullPages ? n_full * kPagePositions : entry.length();

  // Back from the end to the last page that is in the tree: after a turn that is where the turn began.
  plan.parent = &tree_.root();
  for (plan.depth = n_full; plan.depth > 0; --plan.depth) {
    PrefixNode* node = tree_.holder(entry.pages()[plan.depth - 1]);
    const TokenSpan ids = plan.ids(entry, plan.depth - 1);
    if (node != nullptr && (node->space == kSharedSpace || node->space == plan.space) &&
        std::equal(ids.begin(), ids.end(), node->tokens().begin(), node->tokens().end())) {
      plan.parent = node;
      break;
    }
  }
  plan.own_depth = plan.depth;
  // Forth over pages that others computed from the same ids: theirs replace the entry's.
  for (; plan.depth < n_full; ++plan.depth) {
    const TokenSpan ids = plan.ids(entry, plan.depth);
    PrefixTree::Match match = tree_.best_child(*plan.parent, kSharedSpace, ids);
    if (match.length < kPagePositions) match = tree_.best_child(*plan.parent, space, ids);
    if (match.length < kPagePositions) break;
    plan.parent = match.node;
    if (match.node->space != plan.space && plan.space == kSharedSpace) {
      plan.private_path.push_back(match.node);
    }
  }
  plan_first_page(space, entry, plan);
  return plan;
}

// The first unknown page: is it known in part, or whole but not full?
void LruKvCacheStore::plan_first_page(SpaceId space, const KvCacheEntry& entry, Plan& plan) {
  plan.n_pages = KvLayout::pages_for(plan.length);
  if (plan.n_unknown() == 0) return;
  const TokenSpan ids = plan.ids(entry, plan.depth);
  const PrefixTree::Match shared = tree_.best_child(*plan.parent, kSharedSpace, ids);
  const PrefixTree::Match own = tree_.best_child(*plan.parent, space, ids);
  const auto begins_ids = [](const PrefixTree::Match& match) {
    return match.node != nullptr && match.length == match.node->n_ids;
  };
  if (shared.length == ids.size() || (plan.space == space && own.length == ids.size())) {
    plan.n_pages = plan.depth;  // only a last, partial page can be covered and not followed
    plan.covering = shared.length == ids.size() ? shared.node : own.node;
  } else if (begins_ids(own) && (plan.space == space || own.length >= shared.length)) {
    plan.grown_leaf = own.node;
  } else if (begins_ids(shared) && plan.space == kSharedSpace) {
    plan.grown_leaf = shared.node;
  }
}

// A page is in one node. A last, partial page that another one holds is left out: that node knows more ids.
Status LruKvCacheStore::check_pages(const KvCacheEntry& entry, Plan& plan) {
  for (size_t i = plan.depth; i < plan.n_pages; ++i) {
    const PrefixNode* node = tree_.holder(entry.pages()[i]);
    if (node == nullptr || (i == plan.depth && node == plan.grown_leaf)) continue;
    if ((i + 1) * kPagePositions > plan.length) {
      plan.n_pages = i;
      if (i == plan.depth) plan.grown_leaf = nullptr;
      return {};
    }
    return {ErrorCode::kInvalidArgument, "KV cache: page " + std::to_string(i) +
                                             " of the entry is stored for another namespace or other ids"};
  }
  return {};
}

// Makes room for the new pages: from others, and where these do not suffice from remembered logits.
Status LruKvCacheStore::admit(const Plan& plan, RemovedNodes& removed) {
  const size_t wanted = charge() + plan.n_new() * page_charge_bytes_;
  const auto excess_pages = [&](size_t bytes) {
    return divide_up(above(bytes, budget_bytes_), page_charge_bytes_);
  };
  if (wanted <= budget_bytes_) return {};
  // The nodes below which the new pages will hang must survive.
  const Kept kept(plan.parent, plan.grown_leaf);
  const size_t n_evictable = tree_.count_evictable(excess_pages(wanted));
  if (n_evictable < excess_pages(wanted - tree_.endings().bytes())) {
    return {ErrorCode::kOutOfMemory,
            "KV cache: " + std::to_string(plan.n_new()) + " pages more do not fit into a budget of " +
                std::to_string(budget_bytes_) + " bytes, of which " + std::to_string(charge()) +
                " are used and cannot be evicted"};
  }
  while (excess_pages(charge() + plan.n_new() * page_charge_bytes_) > n_evictable) {
    tree_.endings().drop(*tree_.endings().oldest());
  }
  while (charge() + plan.n_new() * page_charge_bytes_ > budget_bytes_) tree_.evict_first(removed);
  return {};
}

void LruKvCacheStore::share_known_pages(Plan& plan, KvCacheEntry& entry) {
  PrefixNode* node = plan.parent;
  for (size_t i = plan.depth; i > plan.own_depth; --i, node = node->parent) {
    if (node->page == entry.pages()[i - 1]) continue;
    plan.replaced.push_back(entry.share_page(i - 1, node->page));
  }
}

// Returns the last node of the entry's path.
PrefixNode& LruKvCacheStore::add_pages(Plan& plan, const KvCacheEntry& entry, RemovedNodes& removed) {
  for (PrefixNode* known : plan.private_path) tree_.share(*known, removed);
  PrefixNode* node = plan.parent;
  for (size_t i = plan.depth; i < plan.n_pages; ++i) {
    const TokenSpan ids = plan.ids(entry, i);
    if (i == plan.depth && plan.grown_leaf != nullptr) {
      node = plan.grown_leaf;
      if (ids.size() > node->n_ids) {
        plan.replaced.push_back(tree_.extend(*node, ids, entry.pages()[i]));
      }
      // The leaf is shared after it has grown, not before. A shared page may begin with all ids that the leaf had,
      // which share() does not allow; none begins with all ids that it has now.
      if (plan.space == kSharedSpace) tree_.share(*node, removed);
    } else {
      node = &tree_.add(*node, plan.space, ids, entry.pages()[i], plan.prepared);
    }
    spaces_.count(plan.space, &StoreStats::inserted_pages, 1);
  }
  return plan.covering != nullptr ? *plan.covering : *node;
}

Status LruKvCacheStore::insert_or_throw(std::string_view name_space, KvCacheEntry& entry,
                                        const InsertOptions& options) {
  Removed removed(*this);
  Plan plan;  // goes after the lock, and the replaced pages with it
  const std::lock_guard lock(mutex_);
  const StoreSpaces::Hold space(spaces_, name_space);
  plan = plan_insert(space.id(), entry, options);
  TRY(check_pages(entry, plan));
  const size_t n_grown = plan.grown_leaf != nullptr ? 1 : 0;
  plan.replaced.reserve(plan.depth - plan.own_depth + n_grown);
  PrefixNode& first_parent = n_grown > 0 ? *plan.grown_leaf : *plan.parent;
  plan.prepared = tree_.prepare(first_parent, entry.pages().subspan(plan.depth + n_grown, plan.n_new()));
  std::unique_ptr<PrefixMark> mark;
  if (options.rest != nullptr && options.rest->store_ == nullptr) mark = std::make_unique<PrefixMark>();
  TRY(admit(plan, removed.nodes));

  // Nothing below fails.
  const bool is_known = plan.parent != &tree_.root();
  if (plan.covering != nullptr || is_known) {
    tree_.touch(plan.covering != nullptr ? *plan.covering : *plan.parent, is_known && plan.n_unknown() > 0);
  }
  share_known_pages(plan, entry);
  PrefixNode& last = add_pages(plan, entry, removed.nodes);
  if (options.retention == Retention::kPrefix) tree_.declare_prefix(last);
  if (options.rest != nullptr) {
    KvAtRest& rest = *options.rest;
    if (mark != nullptr) rest.mark_ = std::move(mark);
    rest.store_ = this;
    tree_.set_mark(*rest.mark_, plan.n_known() > 0 ? &last : nullptr, plan.n_known());
  }
  return {};
}

Status LruKvCacheStore::insert(std::string_view name_space, KvCacheEntry& entry, const InsertOptions& options) {
  Status status;
  try {
    status = &entry.pool() == &pool_
                 ? insert_or_throw(name_space, entry, options)
                 : Status(ErrorCode::kMismatch, "KV cache: the entry's pages belong to another pool than the store's");
  } catch (const std::bad_alloc&) {
    status = {ErrorCode::kOutOfMemory, "no heap memory"};  // short enough to need none
  }
  if (!status.ok() && options.rest != nullptr) options.rest->unmark();
  return status;
}

// --- logits

Status LruKvCacheStore::remember(std::string_view name_space, TokenSpan ids,
                                 std::unique_ptr<PrefixEnding> ending) {
  Removed removed(*this);
  const std::lock_guard lock(mutex_);
  const PrefixTree::Match match = tree_.longest_prefix(readable_space(name_space), ids);
  if (match.node == nullptr || match.length < ids.size()) {
    return {ErrorCode::kNotFound, "KV cache: " + std::to_string(match.length) + " of " +
                                      std::to_string(ids.size()) + " positions before the logits are stored"};
  }
  PrefixEndings& endings = tree_.endings();
  if (match.ending != nullptr) {
    endings.touch(*match.ending);
    return {};
  }
  const size_t bytes = ending->charge_bytes();
  size_t dropped = 0;
  for (const PrefixEnding* old = endings.oldest();
       old != nullptr && endings.bytes() - dropped + bytes > endings_budget(); old = old->younger) {
    dropped += old->charge_bytes();
  }
  const size_t wanted = charge() - dropped + bytes;
  const size_t n_evicted = divide_up(above(wanted, budget_bytes_), page_charge_bytes_);
  const Kept kept(match.node, nullptr);
  if (bytes > endings_budget() || tree_.count_evictable(n_evicted) < n_evicted) {
    return {ErrorCode::kOutOfMemory, "KV cache: logits of " + std::to_string(bytes) +
                                         " bytes do not fit into a budget of " +
                                         std::to_string(budget_bytes_) + " bytes"};
  }
  while (endings.bytes() + bytes > endings_budget()) endings.drop(*endings.oldest());
  while (charge() + bytes > budget_bytes_) tree_.evict_first(removed.nodes);
  ending->n_ids = (ids.size() - 1) % kPagePositions + 1;
  endings.add(*match.node, std::move(ending));
  return {};
}

Status LruKvCacheStore::remember_logits(std::string_view name_space, TokenSpan ids,
                                        std::span<const float> logits) {
  try {
    if (logits.empty()) return {ErrorCode::kInvalidArgument, "KV cache: no logits to remember"};
    auto ending = std::make_unique<PrefixEnding>();
    ending->logits = std::make_shared<const std::vector<float>>(logits.begin(), logits.end());
    return remember(name_space, ids, std::move(ending));
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "no heap memory"};  // short enough to need none
  }
}

}  // namespace ibid
