#include "cache/pages/kv_page_pool.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "cache/pages/page_pool_state.h"

namespace ibid {

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

PageMemory KvPage::parts() const {
  const PageSlabs::Slot* window = slot_->window.memory;
  return {slot_->data, window == nullptr ? nullptr : window->data};
}

size_t KvPage::use_count() const {
  return slot_ == nullptr ? 0 : slot_->holders.load(std::memory_order_acquire);
}

KvWindowLease::KvWindowLease(const KvWindowLease& other) : slot_(other.slot_), reads_(other.reads_) {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(slot_->pool->mutex);
  ++(reads_ ? slot_->window.n_readers : slot_->window.n_leases);
}

KvWindowLease::KvWindowLease(KvWindowLease&& other) noexcept
    : slot_(std::exchange(other.slot_, nullptr)), reads_(other.reads_) {}

KvWindowLease& KvWindowLease::operator=(KvWindowLease other) noexcept {
  std::swap(slot_, other.slot_);
  std::swap(reads_, other.reads_);
  return *this;
}

void KvWindowLease::give_back(Use use) noexcept {
  KvPage::Slot* slot = std::exchange(slot_, nullptr);
  if (slot == nullptr) return;
  PageWindow& window = slot->window;
  const std::lock_guard lock(slot->pool->mutex);
  if (reads_) {
    --window.n_readers;
    return;
  }
  if (--window.n_leases > 0) return;
  if (use != Use::kNone) window.is_end = use == Use::kEnd;
  slot->pool->idle.push(window);
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
    if (n_pages > state.budget_bytes / state.bytes_of(kind)) {
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
      if (state.reclaim_windows(lock, IdleWindows::kBehind, missing)) continue;
      if (n_asked >= state.reclaimers.size()) {
        if (refused.ok() && state.reclaim_windows(lock, IdleWindows::kEnds, missing)) continue;
        return refused.ok() ? state.out_of_memory(kind, n_pages) : refused;
      }
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
  const size_t copied = layout_.copy_rows(from.parts(), to.parts(), n_rows);
  state_->bytes_copied.fetch_add(copied, std::memory_order_relaxed);
}

KvWindowLease KvPagePool::lease_window(const KvPage& page) {
  const std::lock_guard lock(state_->mutex);
  PageWindow& window = page.slot_->window;
  if (window.memory == nullptr) return {};
  if (window.is_idle) state_->idle.remove(window);
  ++window.n_leases;
  return KvWindowLease(page.slot_, false);
}

KvWindowLease KvPagePool::read_window(const KvPage& page) {
  const std::lock_guard lock(state_->mutex);
  PageWindow& window = page.slot_->window;
  if (window.memory == nullptr) return {};
  ++window.n_readers;
  return KvWindowLease(page.slot_, true);
}

bool KvPagePool::has_window(const KvPage& page) const {
  const std::lock_guard lock(state_->mutex);
  return page.slot_->window.memory != nullptr;
}

void KvPagePool::want_window(const KvPage& page, bool is_wanted) {
  const std::lock_guard lock(state_->mutex);
  page.slot_->window.is_wanted = is_wanted;
  state_->idle.update(page.slot_->window);
}

void KvPagePool::drop_window(const KvPage& page) {
  std::unique_lock lock(state_->mutex);
  PageSlabs::Slot* memory = state_->take_window(page.slot_->window);
  lock.unlock();
  state_->zero_window(memory);
  lock.lock();
  state_->give_back_window(memory);
}

void KvPagePool::offer_windows(std::span<const KvPage> pages) {
  if (layout_.window() == 0) return;
  const std::lock_guard lock(state_->mutex);
  for (const KvPage& page : pages) {
    PageWindow& window = page.slot_->window;
    if (window.memory != nullptr && window.n_leases == 0 && !window.is_idle) state_->idle.push(window);
  }
}

size_t KvPagePool::idle_window_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->idle.size() * layout_.part_bytes(PagePart::kWindow);
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
  return state_->in_use[State::kAllRows];
}

size_t KvPagePool::state_bytes_in_use() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in_use[State::kStates] * layout_.state_bytes();
}

size_t KvPagePool::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak_bytes;
}

size_t KvPagePool::reserved_bytes() const {
  const std::lock_guard lock(state_->mutex);
  size_t bytes = 0;
  for (const PageSlabs& each : state_->slabs) bytes += each.reserved_bytes();
  return bytes;
}

}  // namespace ibid
