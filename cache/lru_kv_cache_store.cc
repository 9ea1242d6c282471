#include "cache/lru_kv_cache_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ibid {

namespace {

// What the index spends on a page beside the node: its places in the two maps, in its parent and in the
// queue.
constexpr size_t kIndexBytes = sizeof(PrefixNode) + 160;

constexpr SpaceId kNoSpace = ~SpaceId{0};

}  // namespace

// Where an entry's unknown pages will hang.
struct LruKvCacheStore::Plan {
  SpaceId space = kSharedSpace;           // of the new nodes
  PrefixNode* parent = nullptr;           // of the first new node; the pages up to it are known
  PrefixNode* covering = nullptr;         // knows the last, partial page too
  size_t depth = 0;                       // known full pages
  size_t n_pages = 0;                     // pages to be known afterwards
  std::vector<PrefixNode*> private_path;  // known, to be made shared; from the head on
  PrefixNode* grown_leaf = nullptr;       // its ids begin those of the first new page, which takes its place

  size_t n_unknown() const { return n_pages - depth; }
};

PrefixPin::~PrefixPin() {
  if (store_ != nullptr) store_->unpin(pin_);
}

LruKvCacheStore::LruKvCacheStore(KvPagePool& pool, size_t budget_bytes)
    : pool_(pool), budget_bytes_(budget_bytes), page_charge_bytes_(pool.layout().page_bytes() + kIndexBytes) {
  spaces_[kSharedSpace] = {"(shared)", {}};
  pool_.set_reclaim([this](size_t n_pages) { return reclaim(n_pages); });
}

LruKvCacheStore::~LruKvCacheStore() { pool_.set_reclaim({}); }

// --- namespaces and counters

SpaceId LruKvCacheStore::find_space(std::string_view name) const {
  const auto found = space_ids_.find(name);
  return found == space_ids_.end() ? kNoSpace : found->second;
}

SpaceId LruKvCacheStore::add_space(std::string_view name) {
  const SpaceId known = find_space(name);
  if (known != kNoSpace) return known;
  const SpaceId id = ++last_space_;
  spaces_[id] = {std::string(name), {}};
  space_ids_.emplace(name, id);
  emptied_.push_back(id);  // unless pages come
  return id;
}

void LruKvCacheStore::count(SpaceId space, size_t StoreStats::*counter, size_t n) {
  stats_.*counter += n;
  const auto found = spaces_.find(space);
  if (found != spaces_.end()) found->second.stats.*counter += n;
}

void LruKvCacheStore::count_added(SpaceId space) {
  for (StoreStats* stats : {&stats_, &spaces_.at(space).stats}) {
    ++stats->pages;
    stats->peak_pages = std::max(stats->peak_pages, stats->pages);
  }
}

void LruKvCacheStore::count_removed(SpaceId space) {
  StoreStats& stats = spaces_.at(space).stats;
  --stats_.pages;
  if (--stats.pages == 0) emptied_.push_back(space);
}

// Names come from requests: one that holds nothing must not stay.
void LruKvCacheStore::drop_emptied_spaces() {
  for (const SpaceId space : std::exchange(emptied_, {})) {
    const auto found = spaces_.find(space);
    if (space == kSharedSpace || found == spaces_.end() || found->second.stats.pages > 0) continue;
    space_ids_.erase(found->second.name);
    spaces_.erase(found);
  }
}

// --- lookup

PrefixHit LruKvCacheStore::find_longest_prefix(std::string_view name_space, TokenSpan ids) {
  std::vector<KvPage> pages;
  size_t length = 0;
  {
    const std::lock_guard lock(mutex_);
    const SpaceId space = find_space(name_space);
    const PrefixTree::Match match = tree_.longest_prefix(space == kNoSpace ? kSharedSpace : space, ids);
    length = match.length;
    pages.resize(KvLayout::pages_for(length));
    PrefixNode* node = match.node;
    for (size_t i = pages.size(); i > 0; --i, node = node->parent) pages[i - 1] = node->page;
    if (match.node != nullptr) tree_.touch(*match.node);
    count(space, &StoreStats::lookups, 1);
    count(space, &StoreStats::hits, length > 0 ? 1 : 0);
    count(space, &StoreStats::reused_tokens, length);
  }
  PrefixHit hit{KvCacheEntry(pool_)};
  hit.entry.adopt(std::move(pages), ids.first(length));
  return hit;
}

// --- insertion

LruKvCacheStore::Plan LruKvCacheStore::plan_insert(SpaceId space, KvCacheEntry& entry, Sharing sharing) {
  Plan plan;
  plan.space = sharing == Sharing::kShared ? kSharedSpace : space;
  const TokenSpan tokens = entry.tokens();
  const size_t n_full = tokens.size() / kPagePositions;

  // Back from the end to the last page that is in the tree: after a turn that is where the turn began.
  plan.parent = &tree_.root();
  for (plan.depth = n_full; plan.depth > 0; --plan.depth) {
    PrefixNode* node = tree_.holder(entry.pages()[plan.depth - 1]);
    const TokenSpan ids = tokens.subspan((plan.depth - 1) * kPagePositions, kPagePositions);
    if (node != nullptr && (node->space == kSharedSpace || node->space == plan.space) &&
        std::equal(ids.begin(), ids.end(), node->tokens().begin(), node->tokens().end())) {
      plan.parent = node;
      break;
    }
  }
  // Forth over pages that others computed from the same ids: theirs replace the entry's.
  for (; plan.depth < n_full; ++plan.depth) {
    const TokenSpan ids = tokens.subspan(plan.depth * kPagePositions, kPagePositions);
    PrefixTree::Match match = tree_.best_child(*plan.parent, kSharedSpace, ids);
    if (match.length < kPagePositions) match = tree_.best_child(*plan.parent, space, ids);
    if (match.length < kPagePositions) break;
    plan.parent = match.node;
    if (match.node->space != plan.space && plan.space == kSharedSpace)
      plan.private_path.push_back(match.node);
    if (!(match.node->page == entry.pages()[plan.depth])) entry.share_page(plan.depth, match.node->page);
  }

  plan_first_page(space, entry, plan);
  return plan;
}

// The first unknown page: is it known in part, or whole but not full?
void LruKvCacheStore::plan_first_page(SpaceId space, const KvCacheEntry& entry, Plan& plan) {
  plan.n_pages = KvLayout::pages_for(entry.length());
  if (plan.n_unknown() == 0) return;
  const size_t begin = plan.depth * kPagePositions;
  const TokenSpan ids = entry.tokens().subspan(begin, std::min(kPagePositions, entry.length() - begin));
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
    if ((i + 1) * kPagePositions > entry.length()) {
      plan.n_pages = i;
      if (i == plan.depth) plan.grown_leaf = nullptr;
      return {};
    }
    return {ErrorCode::kInvalidArgument, "KV cache: page " + std::to_string(i) +
                                             " of the entry is stored for another namespace or other ids"};
  }
  return {};
}

Status LruKvCacheStore::admit(const Plan& plan) {
  const size_t n_new = plan.n_unknown() - (plan.grown_leaf != nullptr ? 1 : 0);
  const size_t budget_pages = budget_bytes_ / page_charge_bytes_;
  const size_t wanted = tree_.size() + n_new;
  const size_t excess = wanted - std::min(wanted, budget_pages);
  if (excess == 0) return {};
  // What the new pages hang on must survive making room for them.
  for (PrefixNode* node : {plan.parent, plan.grown_leaf}) {
    if (node != nullptr) ++node->n_pins;
  }
  const bool has_room = tree_.can_evict(excess);
  if (has_room) evict_oldest(excess);
  for (PrefixNode* node : {plan.parent, plan.grown_leaf}) {
    if (node != nullptr) --node->n_pins;
  }
  if (has_room) return {};
  return {ErrorCode::kOutOfMemory,
          "KV cache: " + std::to_string(n_new) + " pages more do not fit into a budget of " +
              std::to_string(budget_bytes_) + " bytes, of which " +
              std::to_string(tree_.size() * page_charge_bytes_) + " are used and cannot be evicted"};
}

void LruKvCacheStore::share_path(const Plan& plan) {
  if (plan.space != kSharedSpace) return;
  std::vector<PrefixNode*> path = plan.private_path;
  if (plan.grown_leaf != nullptr) path.push_back(plan.grown_leaf);
  for (PrefixNode* node : path) {
    if (node->space == kSharedSpace) continue;
    const SpaceId before = node->space;
    const size_t size = tree_.size();
    tree_.share(*node);
    // Counted first, so that a leaf which gave way to the node is taken off both.
    count_added(kSharedSpace);
    count_removed(before);
    if (tree_.size() < size) count_removed(kSharedSpace);
  }
}

void LruKvCacheStore::add_pages(const Plan& plan, const KvCacheEntry& entry) {
  PrefixNode* node = plan.parent;
  for (size_t i = plan.depth; i < plan.n_pages; ++i) {
    const size_t begin = i * kPagePositions;
    const TokenSpan ids = entry.tokens().subspan(begin, std::min(kPagePositions, entry.length() - begin));
    if (i == plan.depth && plan.grown_leaf != nullptr) {
      node = plan.grown_leaf;
      if (ids.size() > node->n_ids) tree_.extend(*node, ids, entry.pages()[i]);
    } else {
      node = &tree_.add(*node, plan.space, ids, entry.pages()[i]);
      count_added(plan.space);
    }
    count(plan.space, &StoreStats::inserted_pages, 1);
  }
}

Status LruKvCacheStore::insert(std::string_view name_space, KvCacheEntry& entry, Sharing sharing) {
  const std::lock_guard lock(mutex_);
  CHECK(&entry.layout() == &pool_.layout()) << "an entry of another pool";
  Plan plan = plan_insert(add_space(name_space), entry, sharing);
  Status status = check_pages(entry, plan);
  if (status.ok()) status = admit(plan);
  if (status.ok()) {
    tree_.touch(plan.covering != nullptr ? *plan.covering : *plan.parent);
    share_path(plan);
    add_pages(plan, entry);
  }
  drop_emptied_spaces();
  return status;
}

// --- eviction

bool LruKvCacheStore::reclaim(size_t n_pages) {
  const std::lock_guard lock(mutex_);
  if (!tree_.can_evict(n_pages)) return false;
  evict_oldest(n_pages);
  drop_emptied_spaces();
  return true;
}

size_t LruKvCacheStore::evict(size_t n_pages) {
  const std::lock_guard lock(mutex_);
  size_t n_evicted = 0;
  for (; n_evicted < n_pages && tree_.can_evict(1); ++n_evicted) evict_oldest(1);
  drop_emptied_spaces();
  return n_evicted;
}

void LruKvCacheStore::evict_oldest(size_t n_pages) {
  for (size_t i = 0; i < n_pages; ++i) {
    PrefixNode& leaf = tree_.oldest_idle_leaf();
    count(leaf.space, &StoreStats::evicted_pages, 1);
    count_removed(leaf.space);
    tree_.remove(leaf);
  }
}

void LruKvCacheStore::remove_space(SpaceId space) {
  // Parents before children, then removed from the back.
  std::vector<PrefixNode*> doomed;
  for (PrefixNode* node : tree_.nodes()) {
    const bool is_top = node->parent == &tree_.root() || node->parent->space != space;
    if (node->space == space && is_top) doomed.push_back(node);
  }
  for (size_t i = 0; i < doomed.size(); ++i) {
    const std::vector<PrefixNode*>& children = doomed[i]->children;
    doomed.insert(doomed.end(), children.begin(), children.end());
  }
  for (size_t i = doomed.size(); i > 0; --i) {
    count_removed(doomed[i - 1]->space);
    tree_.remove(*doomed[i - 1]);
  }
  drop_emptied_spaces();
}

void LruKvCacheStore::clear(std::string_view name_space) {
  {
    const std::lock_guard lock(mutex_);
    const SpaceId space = find_space(name_space);
    if (space != kNoSpace) remove_space(space);
  }
  pool_.scrub_free_pages();
}

void LruKvCacheStore::clear_shared() {
  {
    const std::lock_guard lock(mutex_);
    remove_space(kSharedSpace);
  }
  pool_.scrub_free_pages();
}

// --- pins

Result<PrefixPin> LruKvCacheStore::pin(std::string_view name_space, TokenSpan ids) {
  const std::lock_guard lock(mutex_);
  const SpaceId space = find_space(name_space);
  const PrefixTree::Match match = tree_.longest_prefix(space == kNoSpace ? kSharedSpace : space, ids);
  if (match.node == nullptr || match.length < ids.size()) {
    return Status(ErrorCode::kNotFound, "KV cache: " + std::to_string(match.length) + " of " +
                                            std::to_string(ids.size()) + " positions to pin are stored");
  }
  tree_.touch(*match.node);
  return PrefixPin(this, tree_.pin(*match.node));
}

void LruKvCacheStore::unpin(uint64_t pin) {
  const std::lock_guard lock(mutex_);
  tree_.unpin(pin);
}

// --- reports

size_t LruKvCacheStore::charge_bytes() const {
  const std::lock_guard lock(mutex_);
  return tree_.size() * page_charge_bytes_;
}

StoreStats LruKvCacheStore::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

StoreStats LruKvCacheStore::stats(std::string_view name_space) const {
  const std::lock_guard lock(mutex_);
  const auto found = spaces_.find(find_space(name_space));
  return found == spaces_.end() ? StoreStats{} : found->second.stats;
}

StoreStats LruKvCacheStore::shared_stats() const {
  const std::lock_guard lock(mutex_);
  return spaces_.at(kSharedSpace).stats;
}

PrefixTree::Work LruKvCacheStore::work() const {
  const std::lock_guard lock(mutex_);
  return tree_.work();
}

StoreSnapshot LruKvCacheStore::snapshot() const {
  const auto serials = [](const auto& nodes) {
    std::vector<uint64_t> all;
    for (const PrefixNode* node : nodes) all.push_back(node->serial);
    return all;
  };
  const std::lock_guard lock(mutex_);
  StoreSnapshot copy;
  for (const PrefixNode* node : tree_.nodes()) {
    copy.nodes.push_back({node->serial, node->parent->serial, node->space,
                          Tokens(node->tokens().begin(), node->tokens().end()), node->page.data(),
                          node->page.use_count(), node->n_pins, node->last_used, serials(node->children)});
  }
  copy.root_children = serials(tree_.root().children);
  copy.leaves = serials(tree_.leaves());
  for (const auto& [id, space] : spaces_) copy.spaces.push_back({id, space.name, space.stats.pages});
  copy.n_pins = tree_.n_pins();
  copy.pages = stats_.pages;
  copy.charge_bytes = tree_.size() * page_charge_bytes_;
  copy.page_charge_bytes = page_charge_bytes_;
  copy.budget_bytes = budget_bytes_;
  copy.pool_pages_in_use = pool_.pages_in_use();
  copy.pool_budget_pages = pool_.budget_pages();
  return copy;
}

}  // namespace ibid
