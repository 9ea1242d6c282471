#include "cache/store/prefix_endings.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace ibid {

PrefixEnding* PrefixEndings::find(const PrefixNode& node, size_t n_ids) {
  for (const std::unique_ptr<PrefixEnding>& ending : node.endings) {
    if (ending != nullptr && ending->n_ids == n_ids) return ending.get();
  }
  return nullptr;
}

void PrefixEndings::link(PrefixEnding& ending) {
  ending.last_used = ++tick_;
  ending.older = std::exchange(youngest_, &ending);
  ending.younger = nullptr;
  (ending.older != nullptr ? ending.older->younger : oldest_) = &ending;
}

void PrefixEndings::unlink(PrefixEnding& ending) {
  (ending.older != nullptr ? ending.older->younger : oldest_) = ending.younger;
  (ending.younger != nullptr ? ending.younger->older : youngest_) = ending.older;
}

void PrefixEndings::add(PrefixNode& node, std::unique_ptr<PrefixEnding> ending) {
  CHECK(ending->n_ids >= 1 && ending->n_ids <= node.n_ids);
  if (PrefixEnding* same = find(node, ending->n_ids)) drop(*same);
  auto slot = std::find(node.endings.begin(), node.endings.end(), nullptr);
  if (slot == node.endings.end()) {
    slot = std::min_element(node.endings.begin(), node.endings.end(),
                            [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
    drop(**slot);
  }
  ending->node = &node;
  link(*ending);
  ++size_;
  bytes_ += ending->charge_bytes();
  spaces_.bytes_added(node.space, ending->charge_bytes());
  *slot = std::move(ending);
}

void PrefixEndings::touch(PrefixEnding& ending) {
  unlink(ending);
  link(ending);
}

std::unique_ptr<PrefixEnding> PrefixEndings::take(PrefixEnding& ending) {
  unlink(ending);
  --size_;
  bytes_ -= ending.charge_bytes();
  spaces_.bytes_removed(ending.node->space, ending.charge_bytes());
  for (std::unique_ptr<PrefixEnding>& slot : ending.node->endings) {
    if (slot.get() == &ending) return std::move(slot);
  }
  CHECK(false) << "an ending that its node does not have";
  return nullptr;
}

void PrefixEndings::drop(PrefixEnding& ending) { take(ending); }

void PrefixEndings::drop_all(PrefixNode& node) {
  for (const std::unique_ptr<PrefixEnding>& ending : node.endings) {
    if (ending != nullptr) drop(*ending);
  }
}

void PrefixEndings::move(PrefixNode& from, PrefixNode& to, size_t n_ids) {
  for (const std::unique_ptr<PrefixEnding>& ending : from.endings) {
    if (ending != nullptr && ending->n_ids <= n_ids) move(*ending, to);
  }
}

void PrefixEndings::move(PrefixEnding& ending, PrefixNode& to) { add(to, take(ending)); }

void PrefixEndings::recharge(const PrefixNode& node, SpaceId space) {
  for (const std::unique_ptr<PrefixEnding>& ending : node.endings) {
    if (ending == nullptr) continue;
    spaces_.bytes_removed(node.space, ending->charge_bytes());
    spaces_.bytes_added(space, ending->charge_bytes());
  }
}

}  // namespace ibid
