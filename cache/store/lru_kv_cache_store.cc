#include "cache/store/lru_kv_cache_store.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace ibid {

namespace {

// Estimated index memory of a page: its PrefixNode, and the entries for it in the map of nodes, in its parent and in
// the eviction queue.
constexpr size_t kIndexBytes = sizeof(PrefixNode) + 160;

// Bytes charged for a page: its first part (full-attention layers) and its index memory. Window parts (sliding-window
// layers) are not charged, because the pool itself evicts them.
size_t page_charge(const KvPagePool& pool) { return pool.layout().part_bytes(PagePart::kAll) + kIndexBytes; }
size_t most_pages(const KvPagePool& pool) { return pool.budget_bytes() / pool.layout().part_bytes(PagePart::kAll); }

// Returns a budget for all pages of the pool plus logits (StoreBudget::logits_budget_bytes()).
size_t budget_for(const KvPagePool& pool) {
  const std::optional<size_t> pages = checked_mul(most_pages(pool), page_charge(pool));
  return pages && *pages <= SIZE_MAX / 2 ? *pages + *pages / 15 + 16 : SIZE_MAX;
}

// Copies tree, states and namespaces to a snapshot; the caller adds the budgets and figures of the pool.
StoreSnapshot snapshot_of(const PrefixTree& tree, const StateIndex& states, const StoreSpaces& spaces,
                          const KvPagePool& pool) {
  const auto serials = [](const auto& nodes) {
    std::vector<uint64_t> all;
    all.reserve(nodes.size());
    for (const PrefixNode* node : nodes) all.push_back(node->serial);
    return all;
  };
  StoreSnapshot copy;
  copy.nodes.reserve(tree.size());
  for (const auto& [page, node] : tree.nodes()) {
    std::vector<StoreSnapshot::Logits> logits;
    for (const auto& cached_logits : node->logits.all()) {
      if (cached_logits != nullptr) logits.push_back({cached_logits->n_tokens, cached_logits->charge_bytes()});
    }
    copy.nodes.push_back({node->serial, node->parent->serial, node->space,
                          Tokens(node->tokens().begin(), node->tokens().end()), node->page.data(),
                          node->page.use_count(), node->holds.n_pins(), node->rank.rank(), node->rank.last_used(),
                          serials(node->children), std::move(logits), node->holds.mark_lengths(),
                          pool.layout().window() == 0 || pool.has_window(node->page)});
  }
  for (const StateIndex::KeptState* kept : states.all()) {
    const size_t n_before = kept->longest_prefix == nullptr ? 0 : kept->longest_prefix->ids.size();
    std::vector<Tokens> tails;
    for (const StateIndex::Tail& tail : kept->tails) tails.push_back(tail.ids);
    copy.states.push_back({kept->space, kept->ids, n_before, states.charge(*kept), std::move(tails)});
  }
  copy.states_bytes = states.bytes();
  copy.root_children = serials(tree.root().children);
  copy.queue = serials(tree.leaves());
  for (const auto& [id, space] : spaces.all()) {
    copy.spaces.push_back({id, space.name, space.stats.pages, space.stats.bytes});
  }
  copy.n_pins = tree.holds().n_pins();
  copy.n_marks = tree.holds().n_marks();
  copy.pages = spaces.total().pages;
  copy.charge_bytes = spaces.total().bytes;
  copy.logits_bytes = tree.logits().bytes();
  return copy;
}

std::string random_name() {
  std::string name(32, '\0');
  // getentropy() fills up to 256 bytes completely and is not interrupted.
  CHECK(getentropy(name.data(), name.size()) == 0) << "the system must supply random numbers";
  return name;
}

}  // namespace

LruKvCacheStore::LruKvCacheStore(KvPagePool& pool, size_t budget_bytes, Eviction eviction)
    : pool_(pool),
      spaces_(page_charge(pool)),
      tree_(spaces_, eviction, pool),
      states_(spaces_, pool.layout().state_bytes(), pool.budget_bytes() / 2),
      budget_(budget_bytes, page_charge(pool), spaces_, states_, tree_) {
  reclaimer_ = pool_.add_reclaimer([this](size_t bytes) { return reclaim(bytes); });
}

LruKvCacheStore::LruKvCacheStore(KvPagePool& pool) : LruKvCacheStore(pool, budget_for(pool)) {}

LruKvCacheStore::~LruKvCacheStore() = default;

// Returns the namespace in which to search for `name`: the shared one if no namespace has this name, because every
// namespace can read the shared one.
SpaceId LruKvCacheStore::readable_space(std::string_view name) const {
  const SpaceId space = spaces_.find(name);
  return space == kNoSpace ? kSharedSpace : space;
}

// --- lookup

// Returns the pages that hold the first `length` positions of the path from the root to the node `last`. May throw
// std::bad_alloc.
std::vector<KvPage> LruKvCacheStore::pages_of(const PrefixNode& last, size_t length) {
  std::vector<KvPage> pages(KvLayout::pages_for(length));
  const PrefixNode* node = &last;
  for (size_t i = pages.size(); i > 0; --i, node = node->parent) pages[i - 1] = node->page;
  return pages;
}

PrefixHit LruKvCacheStore::find_longest_prefix(std::string_view name_space, TokenSpan ids) {
  PrefixHit hit{KvCacheEntry(pool_), nullptr};
  const std::lock_guard lock(mutex_);
  const SpaceId space = spaces_.find(name_space);
  spaces_.count(space, &StoreStats::lookups, 1);
  const PrefixTree::Match match = tree_.longest_prefix(readable_space(name_space), ids);
  if (match.node == nullptr) return hit;
  const PrefixNode* last = match.node;
  size_t length = match.length;
  std::vector<KvPage> pages;
  std::vector<StateSnapshot> states;
  try {
    states = states_.find_all(readable_space(name_space), ids.first(length));
    if (states_.used()) length = last_reachable(states);
    for (size_t i = KvLayout::pages_for(match.length); i > KvLayout::pages_for(length); --i) last = last->parent;
    pages = pages_of(*last, length);
  } catch (const std::bad_alloc&) {
    return hit;
  }
  if (!hit.entry.adopt(std::move(pages), ids.first(length), std::move(states)).ok()) return hit;
  hit.misses = {match.length, length};
  if (length == 0) return hit;

  tree_.touch(*match.node, true);
  states_.touch_all(readable_space(name_space), ids, length);
  spaces_.count(space, &StoreStats::hits, 1);
  spaces_.count(space, &StoreStats::reused_tokens, length);
  if (match.cached_logits != nullptr && length == match.length) {
    hit.logits = match.cached_logits->logits;
    tree_.logits().touch(*match.cached_logits);
    spaces_.count(space, &StoreStats::repeats, 1);
  }
  return hit;
}

// --- insertion

Status LruKvCacheStore::insert_or_throw(std::string_view name_space, KvCacheEntry& entry,
                                        const InsertOptions& options) {
  Removed removed(*this);
  std::vector<KvPage> replaced;
  const std::lock_guard lock(mutex_);
  const StoreSpaces::Hold space(spaces_, name_space);
  StoreInsertion insertion(tree_, spaces_, space.id(), entry, options, replaced);
  TRY(insertion.prepare());
  std::unique_ptr<PrefixMark> mark;
  if (options.idle != nullptr && options.idle->store_ == nullptr) mark = std::make_unique<PrefixMark>();
  TRY(budget_.make_room_for(insertion, removed));

  // Nothing below this line can fail.
  PrefixNode& last = insertion.apply(removed.nodes);
  if (options.idle != nullptr) {
    IdleSequence& idle = *options.idle;
    if (mark != nullptr) idle.mark_ = std::move(mark);
    idle.store_ = this;
    idle.space_ = space.id();
    tree_.holds().set_mark(*idle.mark_, insertion.n_known() > 0 ? &last : nullptr, insertion.n_known());
  }
  const bool is_private = options.sharing == Sharing::kPrivate;
  states_.insert_all(is_private ? space.id() : kSharedSpace, entry, insertion.n_known(), options.extent == Extent::kAll,
                     removed.states);
  return {};
}

Status LruKvCacheStore::insert(std::string_view name_space, KvCacheEntry& entry, const InsertOptions& options) {
  Status status = guarded([&] {
    return &entry.pool() == &pool_
               ? insert_or_throw(name_space, entry, options)
               : Status(ErrorCode::kMismatch, "KV cache: the entry's pages belong to another pool than the store's");
  });
  if (!status.ok() && options.idle != nullptr) options.idle->unmark();
  return status;
}

Status LruKvCacheStore::remember(std::string_view name_space, TokenSpan ids, std::unique_ptr<CachedLogits> logits) {
  Removed removed(*this);
  const std::lock_guard lock(mutex_);
  const PrefixTree::Match match = tree_.longest_prefix(readable_space(name_space), ids);
  if (match.node == nullptr || match.length < ids.size()) {
    return {ErrorCode::kNotFound, "KV cache: only " + std::to_string(match.length) + " of the " +
                                      std::to_string(ids.size()) + " positions before the logits are stored"};
  }
  if (match.cached_logits != nullptr) {
    tree_.logits().touch(*match.cached_logits);
    return {};
  }
  TRY(budget_.make_room_for(*logits, *match.node, removed));
  logits->n_tokens = (ids.size() - 1) % kPagePositions + 1;
  tree_.logits().add(*match.node, std::move(logits));
  return {};
}

Status LruKvCacheStore::remember_logits(std::string_view name_space, TokenSpan ids, std::span<const float> logits) {
  return guarded([&]() -> Status {
    if (logits.empty()) return {ErrorCode::kInvalidArgument, "KV cache: no logits to remember"};
    auto cached_logits = std::make_unique<CachedLogits>();
    cached_logits->logits = std::make_shared<const std::vector<float>>(logits.begin(), logits.end());
    return remember(name_space, ids, std::move(cached_logits));
  });
}

// --- eviction

LruKvCacheStore::Removed::~Removed() {
  const size_t n = nodes.size() + states.size();
  if (n == 0) return;
  nodes.clear();
  states.clear();
  const std::lock_guard lock(store_.mutex_);
  store_.n_freeing_ -= n;
  ++store_.n_freed_;
  store_.pages_freed_.notify_all();
}

// Evicts pages until at least `bytes` are free, or evicts none if that is not possible. Idle window parts count towards
// `bytes`, because the pool can evict them.
bool LruKvCacheStore::reclaim_pages(size_t bytes, Removed& removed) {
  const size_t page_bytes = pool_.layout().part_bytes(PagePart::kAll);
  const size_t window_bytes = pool_.layout().part_bytes(PagePart::kWindow);
  const auto n_for = [&](size_t n) { return n / page_bytes + (n % page_bytes != 0 ? 1 : 0); };
  const size_t by_windows = window_bytes == 0 ? 0 : std::min(bytes, pool_.idle_window_bytes());
  const size_t n_most = tree_.count_evictable(n_for(bytes));
  if (n_most == 0 || n_most < n_for(bytes - by_windows)) return false;
  size_t freed = 0;
  for (size_t n = 0; n < n_most && freed < bytes; ++n) {
    const KvPage& page = budget_.evict_first(removed).page;
    freed += page_bytes + (window_bytes > 0 && pool_.has_window(page) ? window_bytes : 0);
  }
  return true;
}

bool LruKvCacheStore::reclaim(size_t bytes) {
  Removed removed(*this);
  std::unique_lock lock(mutex_);
  if (reclaim_pages(bytes, removed)) return true;
  // Evict only as many states as `bytes` require. If the freed memory does not suffice, the pool calls reclaim() again.
  const size_t state_bytes = std::max<size_t>(pool_.layout().state_bytes(), 1);
  size_t n_states = 0;
  while (n_states * state_bytes < bytes && states_.evict(removed.states)) ++n_states;
  if (n_states > 0) return true;
  // This call evicted nothing. But if another call is about to free pages, wait for these pages before giving up.
  if (n_freeing_ == 0) return false;
  pages_freed_.wait(lock, [this, before = n_freed_] { return n_freed_ != before; });
  return true;
}

size_t LruKvCacheStore::evict(size_t n_pages) {
  Removed removed(*this);
  const std::lock_guard lock(mutex_);
  const size_t n_evicted = tree_.count_evictable(n_pages);
  for (size_t i = 0; i < n_evicted; ++i) budget_.evict_first(removed);
  return n_evicted;
}

void LruKvCacheStore::clear(std::string_view name_space) {
  Removed removed(*this);
  const std::lock_guard lock(mutex_);
  const SpaceId space = spaces_.find(name_space);
  if (space == kNoSpace) return;
  states_.remove_space(space, removed.states);
  tree_.remove_space(space, removed.nodes);
}

void LruKvCacheStore::clear_shared() {
  Removed removed(*this);
  const std::lock_guard lock(mutex_);
  states_.remove_space(kSharedSpace, removed.states);
  tree_.remove_space(kSharedSpace, removed.nodes);
  budget_.remove_unreached(removed);
}

// --- pins

PrefixPin::~PrefixPin() {
  if (store_ != nullptr) store_->unpin(pin_);
}

Result<PrefixPin> LruKvCacheStore::pin(std::string_view name_space, TokenSpan ids) {
  return guarded([&]() -> Result<PrefixPin> {
    const std::lock_guard lock(mutex_);
    const PrefixTree::Match match = tree_.longest_prefix(readable_space(name_space), ids);
    if (match.node == nullptr || match.length < ids.size()) {
      return Status(ErrorCode::kNotFound, "KV cache: " + std::to_string(match.length) + " of " +
                                              std::to_string(ids.size()) + " positions to pin are stored");
    }
    const uint64_t pin = tree_.holds().pin(*match.node);
    tree_.touch(*match.node, true);
    return PrefixPin(this, pin);
  });
}

// --- idle sequences

void IdleSequence::unmark() noexcept {
  if (store_ != nullptr) store_->unmark(*mark_);
  store_ = nullptr;
  mark_.reset();
}

bool LruKvCacheStore::make_idle(KvCacheEntry& entry, IdleSequence& idle) {
  if (idle.store_ == nullptr) return false;
  {
    const std::lock_guard lock(mutex_);
    PrefixMark& mark = *idle.mark_;
    if (mark.length < entry.length()) return false;
    PrefixNode* node = entry.length() > 0 ? mark.node : nullptr;
    if (node != nullptr) {
      const size_t n_kept = KvLayout::pages_for(entry.length());
      for (size_t i = KvLayout::pages_for(mark.length); i > n_kept; --i) node = node->parent;
    }
    tree_.holds().set_mark(mark, node, entry.length());
  }
  idle.tokens_ = entry.release();
  return true;
}

// Returns the stored pages and states of the idle sequence, up to its last resumable position. May throw
// std::bad_alloc.
LruKvCacheStore::IdlePart LruKvCacheStore::stored_part(const IdleSequence& idle, bool uses) {
  IdlePart found;
  if (idle.store_ == nullptr) return found;
  const std::lock_guard lock(mutex_);
  const size_t marked = std::min(idle.mark_->length, idle.tokens_.size());
  if (marked == 0) return found;
  PrefixNode* node = idle.mark_->node;
  found.states = states_.find_all(idle.space_, TokenSpan(idle.tokens_).first(marked));
  found.length = states_.used() ? last_reachable(found.states) : marked;
  const size_t n_pages = KvLayout::pages_for(found.length);
  const PrefixNode* last = node;
  for (size_t i = KvLayout::pages_for(marked); i > n_pages; --i) last = last->parent;
  found.pages = pages_of(*last, found.length);
  if (uses) tree_.touch(*node, true);
  return found;
}

Status LruKvCacheStore::wake(IdleSequence& idle, KvCacheEntry& entry) {
  return guarded([&] {
    IdlePart found = stored_part(idle, true);
    return entry.take_up(std::move(found.pages), found.length, idle.tokens_, std::move(found.states));
  });
}

Result<KvCacheEntry> LruKvCacheStore::look_at(const IdleSequence& idle) {
  return guarded([&]() -> Result<KvCacheEntry> {
    KvCacheEntry entry(pool_);
    IdlePart found = stored_part(idle, false);
    TRY(entry.adopt(std::move(found.pages), TokenSpan(idle.tokens_).first(found.length), std::move(found.states)));
    return entry;
  });
}

IdleSequence LruKvCacheStore::copy(const IdleSequence& idle) {
  IdleSequence copy;
  copy.tokens_ = idle.tokens_;
  if (idle.store_ == nullptr) return copy;
  copy.mark_ = std::make_unique<PrefixMark>();
  copy.store_ = this;
  copy.space_ = idle.space_;
  const std::lock_guard lock(mutex_);
  tree_.holds().set_mark(*copy.mark_, idle.mark_->node, idle.mark_->length);
  return copy;
}

// --- private namespaces

PrivateNamespace::PrivateNamespace(LruKvCacheStore& store) : store_(store), name_(random_name()) {}

PrivateNamespace::~PrivateNamespace() { store_.clear(name_); }

// --- reports

StoreStats LruKvCacheStore::stats(std::string_view name_space) const {
  const std::lock_guard lock(mutex_);
  const SpaceId space = spaces_.find(name_space);
  return space == kNoSpace ? StoreStats{} : spaces_.at(space).stats;
}

StoreSnapshot LruKvCacheStore::snapshot() const {
  const std::lock_guard lock(mutex_);
  StoreSnapshot copy = snapshot_of(tree_, states_, spaces_, pool_);
  copy.page_charge_bytes = budget_.page_charge_bytes();
  copy.budget_bytes = budget_.budget_bytes();
  copy.logits_budget_bytes = budget_.logits_budget_bytes();
  copy.pool_pages_in_use = pool_.pages_in_use();
  copy.pool_budget_pages = most_pages(pool_);
  return copy;
}

}  // namespace ibid
