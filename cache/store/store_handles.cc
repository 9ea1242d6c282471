// The calls of LruKvCacheStore for its handles: pins, idle sequences and private namespaces.
#include "cache/store/store_handles.h"

#include <unistd.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "cache/store/lru_kv_cache_store.h"

namespace ibid {

PrefixPin::~PrefixPin() {
  if (store_ != nullptr) store_->unpin(pin_);
}

Result<PrefixPin> LruKvCacheStore::pin(std::string_view name_space, TokenSpan ids) try {
  const std::lock_guard lock(mutex_);
  const PrefixTree::Match match = tree_.longest_prefix(readable_space(name_space), ids);
  if (match.node == nullptr || match.length < ids.size()) {
    return Status(ErrorCode::kNotFound, "KV cache: " + std::to_string(match.length) + " of " +
                                            std::to_string(ids.size()) + " positions to pin are stored");
  }
  const uint64_t pin = tree_.holds().pin(*match.node);
  tree_.touch(*match.node, true);
  return PrefixPin(this, pin);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

void LruKvCacheStore::unpin(uint64_t pin) {
  const std::lock_guard lock(mutex_);
  tree_.holds().unpin(pin);
}

// --- idle sequences

void IdleSequence::unmark() noexcept {
  if (store_ != nullptr) store_->unmark(*mark_);
  store_ = nullptr;
  mark_.reset();
}

void LruKvCacheStore::unmark(PrefixMark& mark) {
  const std::lock_guard lock(mutex_);
  tree_.holds().set_mark(mark, nullptr, 0);
}

bool LruKvCacheStore::make_idle(KvCacheEntry& entry, IdleSequence& rest) {
  if (rest.store_ == nullptr) return false;
  {
    const std::lock_guard lock(mutex_);
    PrefixMark& mark = *rest.mark_;
    if (mark.length < entry.length()) return false;
    PrefixNode* node = entry.length() > 0 ? mark.node : nullptr;
    if (node != nullptr) {
      const size_t n_kept = KvLayout::pages_for(entry.length());
      for (size_t i = KvLayout::pages_for(mark.length); i > n_kept; --i) node = node->parent;
    }
    tree_.holds().set_mark(mark, node, entry.length());
  }
  rest.tokens_ = entry.release();
  return true;
}

// Returns the stored pages and states of the idle sequence, up to its last resumable position. May throw
// std::bad_alloc.
LruKvCacheStore::AtRest LruKvCacheStore::at_rest(const IdleSequence& rest, bool uses) {
  AtRest found;
  if (rest.store_ == nullptr) return found;
  const std::lock_guard lock(mutex_);
  const size_t marked = std::min(rest.mark_->length, rest.tokens_.size());
  if (marked == 0) return found;
  PrefixNode* node = rest.mark_->node;
  found.states = states_.find_all(rest.space_, TokenSpan(rest.tokens_).first(marked));
  found.length = states_.used() ? deepest(found.states) : marked;
  const size_t n_pages = KvLayout::pages_for(found.length);
  const PrefixNode* last = node;
  for (size_t i = KvLayout::pages_for(marked); i > n_pages; --i) last = last->parent;
  found.pages = pages_of(*last, found.length);
  if (uses) tree_.touch(*node, true);
  return found;
}

Status LruKvCacheStore::wake(IdleSequence& rest, KvCacheEntry& entry) try {
  AtRest found = at_rest(rest, true);
  return entry.take_up(std::move(found.pages), found.length, rest.tokens_, std::move(found.states));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<KvCacheEntry> LruKvCacheStore::look_at(const IdleSequence& rest) try {
  KvCacheEntry entry(pool_);
  AtRest found = at_rest(rest, false);
  TRY(entry.adopt(std::move(found.pages), TokenSpan(rest.tokens_).first(found.length), std::move(found.states)));
  return entry;
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

IdleSequence LruKvCacheStore::copy(const IdleSequence& rest) {
  IdleSequence copy;
  copy.tokens_ = rest.tokens_;
  if (rest.store_ == nullptr) return copy;
  copy.mark_ = std::make_unique<PrefixMark>();
  copy.store_ = this;
  copy.space_ = rest.space_;
  const std::lock_guard lock(mutex_);
  tree_.holds().set_mark(*copy.mark_, rest.mark_->node, rest.mark_->length);
  return copy;
}

namespace {

std::string random_name() {
  std::string name(32, '\0');
  // getentropy() fills up to 256 bytes completely and is not interrupted.
  CHECK(getentropy(name.data(), name.size()) == 0) << "the system must supply random numbers";
  return name;
}

}  // namespace

PrivateNamespace::PrivateNamespace(LruKvCacheStore& store) : store_(store), name_(random_name()) {}

PrivateNamespace::~PrivateNamespace() { store_.clear(name_); }

}  // namespace ibid
