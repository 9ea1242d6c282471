// What a KvPagePool has behind its interface: its slots, and what happens to them under its lock. For kv_page_pool.cc
// alone.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "cache/pages/idle_windows.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/pages/page_slabs.h"

namespace ibid {

struct KvPage::Slot {
  std::byte* data = nullptr;
  PageSlabs::Slot* memory = nullptr;
  PageSlabs* slabs = nullptr;  // that the memory is of
  KvPagePool::State* pool = nullptr;
  Slot* next_free = nullptr;
  std::atomic<uint32_t> holders{0};

  PageWindow window;  // the second part
};

struct KvPagePool::State {
  using Slot = KvPage::Slot;
  enum Slabs : size_t { kAllRows, kStates, kWindows, kNSlabs };

  State(const KvLayout& layout, size_t budget)
      : budget_bytes(budget),
        slabs{slabs_of(layout.part_bytes(PagePart::kAll), budget), slabs_of(layout.state_bytes(), budget),
              slabs_of(layout.part_bytes(PagePart::kWindow), budget)} {}

  static PageSlabs slabs_of(size_t page_bytes, size_t budget) {
    return PageSlabs(page_bytes, page_bytes == 0 ? 0 : budget / page_bytes);
  }

  const size_t budget_bytes;
  std::atomic<size_t> bytes_copied{0};

  mutable std::mutex mutex;  // guards what follows
  std::array<PageSlabs, kNSlabs> slabs;
  std::deque<Slot> slots;
  Slot* free_slots = nullptr;
  std::array<size_t, kNSlabs> in_use{};  // pieces that somebody has
  size_t peak_bytes = 0;
  IdleWindows idle;
  std::vector<std::shared_ptr<const Reclaimer>> reclaimers;  // in the order in which they are asked

  size_t bytes_in_use() const {
    size_t bytes = 0;
    for (size_t i = 0; i < kNSlabs; ++i) bytes += in_use[i] * slabs[i].page_bytes();
    return bytes;
  }
  size_t free_bytes() const { return budget_bytes - bytes_in_use(); }
  // Of a page with both parts, or of a state.
  size_t bytes_of(Kind kind) const {
    return kind == Kind::kState ? slabs[kStates].page_bytes()
                                : slabs[kAllRows].page_bytes() + slabs[kWindows].page_bytes();
  }

  // --- windows

  // Takes the memory of the window from its page, for the caller to zero and give back.
  PageSlabs::Slot* take_window(PageWindow& window) {
    CHECK(window.n_leases == 0 && window.n_readers == 0);
    if (window.is_idle) idle.remove(window);
    return std::exchange(window.memory, nullptr);
  }
  void give_back_window(PageSlabs::Slot* memory) {
    if (memory == nullptr) return;
    slabs[kWindows].give_back(memory);
    --in_use[kWindows];
  }
  void zero_window(PageSlabs::Slot* memory) const {
    if (memory != nullptr) std::memset(memory->data, 0, slabs[kWindows].page_bytes());
  }
  // Gives up idle windows until so many bytes are free, or there is none; ends only if these suffice. Returns whether
  // it gave up any.
  bool reclaim_windows(std::unique_lock<std::mutex>& lock, IdleWindows::List list, size_t missing) {
    const size_t bytes = slabs[kWindows].page_bytes();
    if (list == IdleWindows::kEnds && idle.size(list) * bytes < missing) return false;
    bool any = false;
    for (size_t freed = 0; freed < missing; freed += bytes) {
      PageWindow* window = idle.first(list);
      if (window == nullptr) break;
      PageSlabs::Slot* memory = take_window(*window);
      lock.unlock();
      zero_window(memory);
      lock.lock();
      give_back_window(memory);
      any = true;
    }
    return any;
  }

  // --- pages

  void release(Slot* slot) {
    std::memset(slot->data, 0, slot->slabs->page_bytes());
    PageSlabs::Slot* window = nullptr;
    if (slabs[kWindows].page_bytes() > 0) {
      const std::lock_guard lock(mutex);
      window = take_window(slot->window);
      slot->window = PageWindow();
    }
    zero_window(window);
    const std::lock_guard lock(mutex);
    give_back_window(window);
    slot->slabs->give_back(std::exchange(slot->memory, nullptr));
    --in_use[static_cast<size_t>(slot->slabs - slabs.data())];
    slot->next_free = std::exchange(free_slots, slot);
  }

  // May throw std::bad_alloc; what was made stays, for the next call.
  void provide_slots(size_t n) {
    for (const Slot* slot = free_slots; n > 0 && slot != nullptr; slot = slot->next_free) --n;
    for (; n > 0; --n) {
      Slot& slot = slots.emplace_back();
      slot.next_free = std::exchange(free_slots, &slot);
    }
  }

  // Takes n pages into `taken`, or none. Returns how many bytes are missing. REQUIRES: the mutex is held, and taken has
  // room for them.
  size_t take(Kind kind, size_t n, std::vector<Slot*>& taken, Status& refused) {
    PageSlabs& of = slabs[kind == Kind::kState ? kStates : kAllRows];
    const bool windows = kind == Kind::kRows && slabs[kWindows].page_bytes() > 0;
    const size_t bytes = n * bytes_of(kind);
    if (bytes > free_bytes()) return bytes - free_bytes();
    if (refused = of.provide(n); !refused.ok()) return bytes;
    if (windows) {
      if (refused = slabs[kWindows].provide(n); !refused.ok()) return bytes;
    }
    kind == Kind::kState ? return_unused(n, {kStates}) : return_unused(n, {kAllRows, kWindows});
    provide_slots(n);
    for (size_t i = 0; i < n; ++i) {
      Slot* slot = std::exchange(free_slots, free_slots->next_free);
      taken.push_back(slot);
      slot->memory = of.take();
      slot->data = slot->memory->data;
      slot->slabs = &of;
      slot->pool = this;
      if (windows) slot->window.memory = slabs[kWindows].take();
    }
    in_use[static_cast<size_t>(&of - slabs.data())] += n;
    if (windows) in_use[kWindows] += n;
    peak_bytes = std::max(peak_bytes, bytes_in_use());
    return 0;
  }

  // Memory that was used, and nobody has, counts too when pieces of another size are about to touch more.
  void return_unused(size_t n, std::initializer_list<size_t> wanted) {
    size_t fresh = 0, touched = 0;
    for (const PageSlabs& each : slabs) touched += each.touched_free_bytes();
    for (const size_t i : wanted) {
      const size_t bytes = n * slabs[i].page_bytes();
      fresh += saturating_sub(bytes, slabs[i].touched_free_bytes());
    }
    if (fresh == 0 || bytes_in_use() + touched + fresh <= budget_bytes) return;
    for (size_t i = 0; i < kNSlabs; ++i) {
      if (std::ranges::find(wanted, i) == wanted.end()) slabs[i].return_memory();
    }
  }

  Status out_of_memory(Kind kind, size_t n) const {
    return {ErrorCode::kOutOfMemory,
            "KV cache: " + std::to_string(n) + (kind == Kind::kRows ? " pages of " : " recurrent states of ") +
                std::to_string(bytes_of(kind)) + " bytes are wanted, " +
                std::to_string(bytes_in_use()) + " bytes of a budget of " + std::to_string(budget_bytes) +
                " are in use and none of them can be evicted"};
  }
};

}  // namespace ibid
