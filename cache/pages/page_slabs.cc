#include "cache/pages/page_slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/memory_marks.h"

namespace ibid {

namespace {

// Size of a slab: large enough that rounding to huge pages wastes little, small enough that a short conversation
// reserves little that it never uses.
constexpr size_t kSlabBytes = size_t{64} << 20;
constexpr size_t kSystemPage = 4096;

}  // namespace

void PageSlabs::push_free(Slot* slot) {
  slot->next_free = std::exchange(slot->was_used ? touched_ : fresh_, slot);
  ++(slot->was_used ? n_touched_ : n_fresh_);
  forbid_memory(slot->data, page_bytes_);
}

Status PageSlabs::grow() {
  const size_t wanted = std::clamp<size_t>(kSlabBytes / page_bytes_, 1, max_pages_ - n_pages_);
  slabs_.reserve(slabs_.size() + 1);
  TRY_ASSIGN(Arena arena, Arena::create(wanted * Arena::padded(page_bytes_)));
  auto slots = std::make_unique<Slot[]>(wanted);
  // Push in reverse order, so that pages are taken in address order.
  for (size_t i = 0; i < wanted; ++i) slots[wanted - 1 - i].data = arena.allocate(page_bytes_);
  for (size_t i = 0; i < wanted; ++i) push_free(&slots[i]);
  n_pages_ += wanted;
  slabs_.push_back({std::move(arena), std::move(slots)});
  return {};
}

Status PageSlabs::provide(size_t n) {
  while (n_touched_ + n_fresh_ < n) {
    if (n_pages_ == max_pages_) return {ErrorCode::kOutOfMemory, "no page is left"};
    TRY(grow());
  }
  return {};
}

PageSlabs::Slot* PageSlabs::take() {
  Slot*& list = touched_ != nullptr ? touched_ : fresh_;
  CHECK(list != nullptr) << "take() needs provide()";
  --(touched_ != nullptr ? n_touched_ : n_fresh_);
  Slot* slot = std::exchange(list, list->next_free);
  slot->next_free = nullptr;
  slot->was_used = true;
  allow_memory(slot->data, page_bytes_);
  return slot;
}

void PageSlabs::give_back(Slot* slot) { push_free(slot); }

void PageSlabs::return_memory() {
  while (touched_ != nullptr) {
    Slot* slot = std::exchange(touched_, touched_->next_free);
    // Return whole system pages only. The bytes of the slot before the first whole page and after the last one stay
    // resident, and are zero.
    const auto begin = reinterpret_cast<uintptr_t>(slot->data), end = begin + page_bytes_;
    const uintptr_t first = (begin + kSystemPage - 1) / kSystemPage * kSystemPage;
    const uintptr_t last = end / kSystemPage * kSystemPage;
    if (last > first) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    slot->next_free = std::exchange(fresh_, slot);
    slot->was_used = false;
  }
  n_fresh_ += std::exchange(n_touched_, 0);
}

}  // namespace ibid
