#include "cache/store/cached_logits.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cache/store/prefix_node.h"

namespace ibid {

CachedLogits* CachedLogitsIndex::find(const PrefixNode& node, size_t n_tokens) {
  for (const std::unique_ptr<CachedLogits>& cached_logits : node.logits.logits_) {
    if (cached_logits != nullptr && cached_logits->n_tokens == n_tokens) return cached_logits.get();
  }
  return nullptr;
}

void CachedLogitsIndex::link(CachedLogits& cached_logits) {
  cached_logits.last_used_ = ++tick_;
  cached_logits.older_ = std::exchange(youngest_, &cached_logits);
  cached_logits.younger_ = nullptr;
  (cached_logits.older_ != nullptr ? cached_logits.older_->younger_ : oldest_) = &cached_logits;
}

void CachedLogitsIndex::unlink(CachedLogits& cached_logits) {
  (cached_logits.older_ != nullptr ? cached_logits.older_->younger_ : oldest_) = cached_logits.younger_;
  (cached_logits.younger_ != nullptr ? cached_logits.younger_->older_ : youngest_) = cached_logits.older_;
}

void CachedLogitsIndex::add(PrefixNode& node, std::unique_ptr<CachedLogits> cached_logits) {
  CHECK(cached_logits->n_tokens >= 1 && cached_logits->n_tokens <= node.n_tokens);
  if (CachedLogits* same = find(node, cached_logits->n_tokens)) drop(*same);
  auto& slots = node.logits.logits_;
  auto slot = std::find(slots.begin(), slots.end(), nullptr);
  if (slot == slots.end()) {
    slot = std::min_element(slots.begin(), slots.end(),
                            [](const auto& a, const auto& b) { return a->last_used_ < b->last_used_; });
    drop(**slot);
  }
  cached_logits->node_ = &node;
  link(*cached_logits);
  ++size_;
  bytes_ += cached_logits->charge_bytes();
  spaces_.bytes_added(node.space, cached_logits->charge_bytes());
  *slot = std::move(cached_logits);
}

void CachedLogitsIndex::touch(CachedLogits& cached_logits) {
  unlink(cached_logits);
  link(cached_logits);
}

std::unique_ptr<CachedLogits> CachedLogitsIndex::take(CachedLogits& cached_logits) {
  unlink(cached_logits);
  --size_;
  bytes_ -= cached_logits.charge_bytes();
  spaces_.bytes_removed(cached_logits.node_->space, cached_logits.charge_bytes());
  for (std::unique_ptr<CachedLogits>& slot : cached_logits.node_->logits.logits_) {
    if (slot.get() == &cached_logits) return std::move(slot);
  }
  CHECK(false) << "logits must be in the list of their node";
  return nullptr;
}

void CachedLogitsIndex::drop(CachedLogits& cached_logits) { take(cached_logits); }

void CachedLogitsIndex::drop_all(PrefixNode& node) {
  for (const std::unique_ptr<CachedLogits>& cached_logits : node.logits.logits_) {
    if (cached_logits != nullptr) drop(*cached_logits);
  }
}

void CachedLogitsIndex::move(PrefixNode& from, PrefixNode& to, size_t n_tokens) {
  for (const std::unique_ptr<CachedLogits>& cached_logits : from.logits.logits_) {
    if (cached_logits != nullptr && cached_logits->n_tokens <= n_tokens) move(*cached_logits, to);
  }
}

void CachedLogitsIndex::move(CachedLogits& cached_logits, PrefixNode& to) { add(to, take(cached_logits)); }

void CachedLogitsIndex::recharge(const PrefixNode& node, SpaceId space) {
  for (const std::unique_ptr<CachedLogits>& cached_logits : node.logits.logits_) {
    if (cached_logits == nullptr) continue;
    spaces_.bytes_removed(node.space, cached_logits->charge_bytes());
    spaces_.bytes_added(space, cached_logits->charge_bytes());
  }
}

}  // namespace ibid
