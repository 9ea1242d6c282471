#include "cache/pages/kv_page_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/arena.h"
#include "base/check.h"
#include "base/memory_marks.h"

namespace ibid {

namespace {

// How much a growing pool takes at once: enough huge pages that their rounding does not matter, little enough
// that a small conversation does not hold memory that it never touches.
constexpr size_t kSlabBytes = size_t{64} << 20;

}  // namespace

struct KvPage::Slot {
  std::byte* data = nullptr;
  KvPagePool::State* pool = nullptr;
  Slot* next_free = nullptr;
  bool was_used = false;
  std::atomic<uint32_t> holders{0};
};

struct KvPagePool::State {
  using Slot = KvPage::Slot;

  struct Slab {
    Arena arena;
    std::unique_ptr<Slot[]> slots;
  };

  State(size_t page, size_t budget) : page_bytes(page), budget_bytes(budget), max_pages(budget / page) {}

  const size_t page_bytes;
  const size_t budget_bytes;
  const size_t max_pages;
  std::atomic<size_t> bytes_copied{0};

  mutable std::mutex mutex;  // guards what follows
  std::vector<Slab> slabs;
  // Free and zero, all of them.
  Slot* used_pages = nullptr;   // reused first, so that memory that was never touched stays so
  Slot* fresh_pages = nullptr;  // as the system gave them
  size_t free_pages = 0;        // in both lists
  size_t slab_pages = 0;
  size_t pages_in_use = 0;
  size_t peak_pages = 0;
  std::vector<std::shared_ptr<const Reclaimer>> reclaimers;  // in the order in which they are asked

  void push_free(Slot* slot) {
    Slot*& list = slot->was_used ? used_pages : fresh_pages;
    slot->next_free = list;
    list = slot;
    ++free_pages;
    forbid_memory(slot->data, page_bytes);
  }

  // REQUIRES: the list is not empty.
  Slot* pop_free(Slot*& list) {
    Slot* slot = list;
    list = slot->next_free;
    slot->next_free = nullptr;
    --free_pages;
    allow_memory(slot->data, page_bytes);
    return slot;
  }

  void release(Slot* slot) {
    std::memset(slot->data, 0, page_bytes);
    const std::lock_guard lock(mutex);
    push_free(slot);
    --pages_in_use;
  }

  // One slab more. REQUIRES: slab_pages < max_pages; the mutex is held.
  Status grow() {
    const size_t wanted = std::clamp<size_t>(kSlabBytes / page_bytes, 1, max_pages - slab_pages);
    slabs.reserve(slabs.size() + 1);
    TRY_ASSIGN(Arena arena, Arena::create(wanted * Arena::padded(page_bytes)));
    auto slots = std::make_unique<Slot[]>(wanted);
    // Backwards, so that pages are handed out in the order of their addresses.
    for (size_t i = 0; i < wanted; ++i) slots[wanted - 1 - i].data = arena.allocate(page_bytes);
    for (size_t i = 0; i < wanted; ++i) {
      slots[i].pool = this;
      push_free(&slots[i]);
    }
    slab_pages += wanted;
    slabs.push_back({std::move(arena), std::move(slots)});
    return {};
  }

  // Takes n pages off the free list into `taken`, growing as far as the budget allows, or takes none.
  // Returns how many pages are missing. REQUIRES: the mutex is held.
  size_t take(size_t n, std::vector<Slot*>& taken, Status& refused) {
    while (free_pages < n && slab_pages < max_pages) {
      if (refused = grow(); !refused.ok()) break;
    }
    if (free_pages < n) return n - free_pages;
    for (size_t i = 0; i < n; ++i) {
      taken.push_back(pop_free(used_pages != nullptr ? used_pages : fresh_pages));
    }
    pages_in_use += n;
    peak_pages = std::max(peak_pages, pages_in_use);
    return 0;
  }

  Status out_of_memory(size_t n) const {
    return {ErrorCode::kOutOfMemory,
            "KV cache: " + std::to_string(n) + " pages of " + std::to_string(page_bytes) +
                " bytes are wanted, " + std::to_string(pages_in_use * page_bytes) + " bytes of a budget of " +
                std::to_string(budget_bytes) + " are in use and none of them can be evicted"};
  }
};

KvPage::KvPage(const KvPage& other) : slot_(other.slot_) {
  if (slot_ != nullptr) slot_->holders.fetch_add(1, std::memory_order_relaxed);
}

KvPage::KvPage(KvPage&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}

KvPage& KvPage::operator=(KvPage other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

KvPage::~KvPage() {
  // Release: what this holder read comes before the next writer's rows; acquire: so do the others' reads.
  if (slot_ != nullptr && slot_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    slot_->pool->release(slot_);
  }
}

std::byte* KvPage::data() const { return slot_->data; }

size_t KvPage::use_count() const {
  return slot_ == nullptr ? 0 : slot_->holders.load(std::memory_order_acquire);
}

KvPagePool::KvPagePool(KvLayout layout, size_t budget_bytes) : layout_(std::move(layout)) {
  state_ = std::make_unique<State>(layout_.page_bytes(), budget_bytes);
}

KvPagePool::~KvPagePool() { CHECK_EQ(state_->pages_in_use, size_t{0}) << "pages outlive their pool"; }

Result<std::vector<KvPage>> KvPagePool::allocate(size_t n_pages) {
  try {
    State& state = *state_;
    // More than the budget could ever hold is refused before anything is evicted for it.
    if (n_pages > state.max_pages) {
      const std::lock_guard lock(state.mutex);
      return state.out_of_memory(n_pages);
    }
    std::vector<State::Slot*> taken;
    std::vector<KvPage> pages;
    taken.reserve(n_pages);
    pages.reserve(n_pages);
    for (size_t n_asked = 0;;) {
      std::unique_lock lock(state.mutex);
      Status refused;
      const size_t missing = state.take(n_pages, taken, refused);
      if (missing == 0) break;
      if (n_asked >= state.reclaimers.size()) return refused.ok() ? state.out_of_memory(n_pages) : refused;
      const std::shared_ptr<const Reclaimer> reclaimer = state.reclaimers[n_asked];
      lock.unlock();
      n_asked = (*reclaimer)(missing) ? 0 : n_asked + 1;
    }
    for (State::Slot* slot : taken) {
      slot->was_used = true;
      slot->holders.store(1, std::memory_order_relaxed);
      pages.push_back(KvPage(slot));
    }
    return pages;
  } catch (const std::bad_alloc&) {
    // Short enough for the string to need no memory.
    return Status(ErrorCode::kOutOfMemory, "no heap memory");
  }
}

Result<KvPage> KvPagePool::allocate() {
  TRY_ASSIGN(std::vector<KvPage> pages, allocate(1));
  return std::move(pages.front());
}

KvPagePool::Registration KvPagePool::add_reclaimer(Reclaimer reclaimer) {
  auto shared = std::make_shared<const Reclaimer>(std::move(reclaimer));
  const std::lock_guard lock(state_->mutex);
  state_->reclaimers.push_back(shared);
  return Registration(state_.get(), shared.get());
}

KvPagePool::Registration::Registration(Registration&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), reclaimer_(std::exchange(other.reclaimer_, nullptr)) {}

KvPagePool::Registration& KvPagePool::Registration::operator=(Registration other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(reclaimer_, other.reclaimer_);
  return *this;
}

KvPagePool::Registration::~Registration() {
  if (pool_ == nullptr) return;
  std::shared_ptr<const Reclaimer> gone;  // what it holds is destroyed after the lock is free
  const std::lock_guard lock(pool_->mutex);
  const auto place = std::find_if(pool_->reclaimers.begin(), pool_->reclaimers.end(),
                                  [this](const auto& reclaimer) { return reclaimer.get() == reclaimer_; });
  gone = std::move(*place);
  pool_->reclaimers.erase(place);
}

void KvPagePool::copy_rows(const KvPage& from, const KvPage& to, size_t n_rows) {
  const size_t copied = layout_.copy_rows(from.data(), to.data(), n_rows);
  state_->bytes_copied.fetch_add(copied, std::memory_order_relaxed);
}

size_t KvPagePool::budget_bytes() const { return state_->budget_bytes; }
size_t KvPagePool::budget_pages() const { return state_->max_pages; }
size_t KvPagePool::bytes_in_use() const { return pages_in_use() * state_->page_bytes; }
size_t KvPagePool::bytes_copied() const { return state_->bytes_copied.load(std::memory_order_relaxed); }

size_t KvPagePool::pages_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->pages_in_use;
}

size_t KvPagePool::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak_pages * state_->page_bytes;
}

size_t KvPagePool::reserved_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->slab_pages * state_->page_bytes;
}

}  // namespace ibid
