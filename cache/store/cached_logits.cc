#include "cache/store/cached_logits.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cache/store/prefix_node.h"

namespace ibid {

CachedLogits* CachedLogitsIndex::find(const PrefixNode& node, size_t n_tokens) {
  for (const std::unique_ptr<CachedLogits>& ending : node.endings.endings_) {
    if (ending != nullptr && ending->n_tokens == n_tokens) return ending.get();
  }
  return nullptr;
}

void CachedLogitsIndex::link(CachedLogits& ending) {
  ending.last_used_ = ++tick_;
  ending.older_ = std::exchange(youngest_, &ending);
  ending.younger_ = nullptr;
  (ending.older_ != nullptr ? ending.older_->younger_ : oldest_) = &ending;
}

void CachedLogitsIndex::unlink(CachedLogits& ending) {
  (ending.older_ != nullptr ? ending.older_->younger_ : oldest_) = ending.younger_;
  (ending.younger_ != nullptr ? ending.younger_->older_ : youngest_) = ending.older_;
}

void CachedLogitsIndex::add(PrefixNode& node, std::unique_ptr<CachedLogits> ending) {
  CHECK(ending->n_tokens >= 1 && ending->n_tokens <= node.n_tokens);
  if (CachedLogits* same = find(node, ending->n_tokens)) drop(*same);
  auto& slots = node.endings.endings_;
  auto slot = std::find(slots.begin(), slots.end(), nullptr);
  if (slot == slots.end()) {
    slot = std::min_element(slots.begin(), slots.end(),
                            [](const auto& a, const auto& b) { return a->last_used_ < b->last_used_; });
    drop(**slot);
  }
  ending->node_ = &node;
  link(*ending);
  ++size_;
  bytes_ += ending->charge_bytes();
  spaces_.bytes_added(node.space, ending->charge_bytes());
  *slot = std::move(ending);
}

void CachedLogitsIndex::touch(CachedLogits& ending) {
  unlink(ending);
  link(ending);
}

std::unique_ptr<CachedLogits> CachedLogitsIndex::take(CachedLogits& ending) {
  unlink(ending);
  --size_;
  bytes_ -= ending.charge_bytes();
  spaces_.bytes_removed(ending.node_->space, ending.charge_bytes());
  for (std::unique_ptr<CachedLogits>& slot : ending.node_->endings.endings_) {
    if (slot.get() == &ending) return std::move(slot);
  }
  CHECK(false) << "logits must be in the list of their node";
  return nullptr;
}

void CachedLogitsIndex::drop(CachedLogits& ending) { take(ending); }

void CachedLogitsIndex::drop_all(PrefixNode& node) {
  for (const std::unique_ptr<CachedLogits>& ending : node.endings.endings_) {
    if (ending != nullptr) drop(*ending);
  }
}

void CachedLogitsIndex::move(PrefixNode& from, PrefixNode& to, size_t n_tokens) {
  for (const std::unique_ptr<CachedLogits>& ending : from.endings.endings_) {
    if (ending != nullptr && ending->n_tokens <= n_tokens) move(*ending, to);
  }
}

void CachedLogitsIndex::move(CachedLogits& ending, PrefixNode& to) { add(to, take(ending)); }

void CachedLogitsIndex::recharge(const PrefixNode& node, SpaceId space) {
  for (const std::unique_ptr<CachedLogits>& ending : node.endings.endings_) {
    if (ending == nullptr) continue;
    spaces_.bytes_removed(node.space, ending->charge_bytes());
    spaces_.bytes_added(space, ending->charge_bytes());
  }
}

}  // namespace ibid
