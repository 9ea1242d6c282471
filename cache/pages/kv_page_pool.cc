#include "cache/pages/kv_page_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "cache/pages/page_slabs.h"

namespace ibid {

struct KvPage::Slot {
  std::byte* data = nullptr;
  PageSlabs::Slot* memory = nullptr;
  PageSlabs* slabs = nullptr;  // that the memory is of
  KvPagePool::State* pool = nullptr;
  Slot* next_free = nullptr;
  std::atomic<uint32_t> holders{0};
};

struct KvPagePool::State {
  using Slot = KvPage::Slot;

  State(const KvLayout& layout, size_t budget)
      : budget_bytes(budget),
        slabs{PageSlabs(layout.page_bytes(), budget / layout.page_bytes()),
              PageSlabs(layout.state_bytes(), layout.state_bytes() == 0 ? 0 : budget / layout.state_bytes())} {}

  const size_t budget_bytes;
  std::atomic<size_t> bytes_copied{0};

  mutable std::mutex mutex;  // guards what follows
  std::array<PageSlabs, 2> slabs;  // by Kind
  std::deque<Slot> slots;
  Slot* free_slots = nullptr;
  std::array<size_t, 2> in_use{};  // pages with holders, by Kind
  size_t peak_bytes = 0;
  std::vector<std::shared_ptr<const Reclaimer>> reclaimers;  // in the order in which they are asked

  size_t bytes_in_use() const { return in_use[0] * slabs[0].page_bytes() + in_use[1] * slabs[1].page_bytes(); }
  size_t free_bytes() const { return budget_bytes - bytes_in_use(); }
  size_t kind_of(const Slot& slot) const { return static_cast<size_t>(slot.slabs - slabs.data()); }

  void release(Slot* slot) {
    std::memset(slot->data, 0, slot->slabs->page_bytes());
    const std::lock_guard lock(mutex);
    slot->slabs->give_back(std::exchange(slot->memory, nullptr));
    --in_use[kind_of(*slot)];
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
    PageSlabs& of = slabs[static_cast<size_t>(kind)];
    const size_t bytes = n * of.page_bytes();
    if (bytes > free_bytes()) return bytes - free_bytes();
    if (refused = of.provide(n); !refused.ok()) return bytes;
    // Memory that pages of the other size have used, and nobody has, counts too.
    PageSlabs& other = slabs[1 - static_cast<size_t>(kind)];
    if (bytes + other.touched_free_bytes() > free_bytes()) other.return_memory();
    provide_slots(n);
    for (size_t i = 0; i < n; ++i) {
      Slot* slot = std::exchange(free_slots, free_slots->next_free);
      taken.push_back(slot);
      slot->memory = of.take();
      slot->data = slot->memory->data;
      slot->slabs = &of;
      slot->pool = this;
    }
    in_use[static_cast<size_t>(kind)] += n;
    peak_bytes = std::max(peak_bytes, bytes_in_use());
    return 0;
  }

  Status out_of_memory(Kind kind, size_t n) const {
    return {ErrorCode::kOutOfMemory,
            "KV cache: " + std::to_string(n) + (kind == Kind::kRows ? " pages of " : " recurrent states of ") +
                std::to_string(slabs[static_cast<size_t>(kind)].page_bytes()) + " bytes are wanted, " +
                std::to_string(bytes_in_use()) + " bytes of a budget of " + std::to_string(budget_bytes) +
                " are in use and none of them can be evicted"};
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
  state_ = std::make_unique<State>(layout_, budget_bytes);
}

KvPagePool::~KvPagePool() { CHECK_EQ(state_->bytes_in_use(), size_t{0}) << "pages outlive their pool"; }

Result<std::vector<KvPage>> KvPagePool::allocate(size_t n_pages) { return hand_out(Kind::kRows, n_pages); }

Result<std::vector<KvPage>> KvPagePool::allocate_states(size_t n_pages) { return hand_out(Kind::kState, n_pages); }

Result<std::vector<KvPage>> KvPagePool::hand_out(Kind kind, size_t n_pages) {
  try {
    State& state = *state_;
    // More than the budget could ever hold is refused before anything is evicted for it.
    if (n_pages > state.budget_bytes / state.slabs[static_cast<size_t>(kind)].page_bytes()) {
      const std::lock_guard lock(state.mutex);
      return state.out_of_memory(kind, n_pages);
    }
    std::vector<KvPage::Slot*> taken;
    std::vector<KvPage> pages;
    taken.reserve(n_pages);
    pages.reserve(n_pages);
    for (size_t n_asked = 0;;) {
      std::unique_lock lock(state.mutex);
      Status refused;
      const size_t missing = state.take(kind, n_pages, taken, refused);
      if (missing == 0) break;
      if (n_asked >= state.reclaimers.size()) return refused.ok() ? state.out_of_memory(kind, n_pages) : refused;
      const std::shared_ptr<const Reclaimer> reclaimer = state.reclaimers[n_asked];
      lock.unlock();
      n_asked = (*reclaimer)(missing) ? 0 : n_asked + 1;
    }
    for (KvPage::Slot* slot : taken) {
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
size_t KvPagePool::budget_pages() const { return state_->budget_bytes / layout_.page_bytes(); }
size_t KvPagePool::bytes_copied() const { return state_->bytes_copied.load(std::memory_order_relaxed); }

size_t KvPagePool::bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes_in_use();
}

size_t KvPagePool::pages_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in_use[static_cast<size_t>(Kind::kRows)];
}

size_t KvPagePool::state_bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in_use[static_cast<size_t>(Kind::kState)] * layout_.state_bytes();
}

size_t KvPagePool::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak_bytes;
}

size_t KvPagePool::reserved_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->slabs[0].reserved_bytes() + state_->slabs[1].reserved_bytes();
}

}  // namespace ibid
