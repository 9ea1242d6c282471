#include "cache/pages/kv_page_pool.h"

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
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "cache/pages/page_slabs.h"

namespace ibid {

// The state of one page's window part (sliding-window layers): memory, leases and readers. Only PageWindows writes it.
class PageWindow {
 public:
  bool is_evicted() const { return memory_ == nullptr; }
  std::byte* data() const { return is_evicted() ? nullptr : memory_->data; }

 private:
  friend class PageWindows;
  WindowClass window_class() const { return is_resume_point_ ? WindowClass::kEnd : ended_as_; }

  PageSlabs::Slot* memory_ = nullptr;  // the memory of the window part; null: evicted, or not allocated
  uint32_t n_leases_ = 0;
  uint32_t n_readers_ = 0;
  WindowClass ended_as_ = WindowClass::kPassed;  // eviction class that the part got when its last lease ended
  bool is_resume_point_ = false;                 // the store marked the page as a resume point

  bool is_idle_ = false;  // true if the part is in the list of eviction class listed_as_
  WindowClass listed_as_ = WindowClass::kPassed;
  PageWindow* older_ = nullptr;
  PageWindow* younger_ = nullptr;
};

// Changes the states of window parts (keys and values of sliding-window layers), and lists the idle parts in eviction
// order. There is one list per eviction class, which begins with the part that entered the class first. A part with
// readers stays where it is in the list, but first() skips it. Never allocates. Called under the pool's lock.
class PageWindows {
 public:
  // Gives a new page the memory of its window part. The part becomes evictable when its first lease ends, or by
  // offer().
  void allocate(PageWindow& window, PageSlabs::Slot* memory) { window.memory_ = memory; }
  // Takes the memory away from a window part; the caller zeroes and frees the memory. REQUIRES: no lease and no reader.
  PageSlabs::Slot* take_memory(PageWindow& window) {
    CHECK(window.n_leases_ == 0 && window.n_readers_ == 0);
    if (window.is_idle_) remove(window);
    return std::exchange(window.memory_, nullptr);
  }
  // Resets the window part of a freed page.
  static void reset(PageWindow& window) { window = PageWindow(); }

  void lease(PageWindow& window) {
    if (window.is_idle_) remove(window);
    ++window.n_leases_;
  }
  void end_lease(PageWindow& window, WindowClass window_class) {
    if (--window.n_leases_ > 0) return;
    window.ended_as_ = window_class;
    push(window);
  }
  void begin_reading(PageWindow& window) { ++window.n_readers_; }
  void end_reading(PageWindow& window) { --window.n_readers_; }
  void offer(PageWindow& window) {
    if (!window.is_evicted() && window.n_leases_ == 0 && !window.is_idle_) push(window);
  }
  // Marks or unmarks the page. An idle part whose class changes is appended to the list of the new class.
  void mark_resume_point(PageWindow& window, bool is_resume_point) {
    window.is_resume_point_ = is_resume_point;
    if (!window.is_idle_ || window.listed_as_ == window.window_class()) return;
    remove(window);
    push(window);
  }

  // Returns the window part of a class that is evicted first; null if the class has only parts with readers, or none.
  PageWindow* first(WindowClass window_class) const {
    PageWindow* window = list(window_class).oldest;
    while (window != nullptr && window->n_readers_ > 0) window = window->younger_;
    return window;
  }
  size_t n_idle(WindowClass window_class) const { return list(window_class).size; }
  size_t n_idle() const { return n_idle(WindowClass::kPassed) + n_idle(WindowClass::kEnd); }

 private:
  struct List {
    PageWindow* oldest = nullptr;
    PageWindow* youngest = nullptr;
    size_t size = 0;
  };
  List& list(WindowClass window_class) { return lists_[static_cast<size_t>(window_class)]; }
  const List& list(WindowClass window_class) const { return lists_[static_cast<size_t>(window_class)]; }

  void push(PageWindow& window) {
    CHECK(!window.is_idle_ && window.n_leases_ == 0 && !window.is_evicted());
    window.is_idle_ = true;
    window.listed_as_ = window.window_class();
    List& of = list(window.listed_as_);
    window.older_ = std::exchange(of.youngest, &window);
    window.younger_ = nullptr;
    (window.older_ != nullptr ? window.older_->younger_ : of.oldest) = &window;
    ++of.size;
  }
  void remove(PageWindow& window) {
    CHECK(window.is_idle_);
    window.is_idle_ = false;
    List& of = list(window.listed_as_);
    (window.older_ != nullptr ? window.older_->younger_ : of.oldest) = window.younger_;
    (window.younger_ != nullptr ? window.younger_->older_ : of.youngest) = window.older_;
    --of.size;
  }

  std::array<List, 2> lists_;  // one list for each class
};

struct KvPage::Slot {
  std::byte* data = nullptr;
  PageSlabs::Slot* memory = nullptr;
  PageSlabs* slabs = nullptr;  // owner of the memory
  KvPagePool::State* pool = nullptr;
  Slot* next_free = nullptr;
  std::atomic<uint32_t> holders{0};

  PageWindow window;  // the page's window part
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

  mutable std::mutex mutex;  // guards the members below
  std::array<PageSlabs, kNSlabs> slabs;
  std::deque<Slot> slots;
  Slot* free_slots = nullptr;
  std::array<size_t, kNSlabs> in_use{};  // number of allocated pages of each element of `slabs`
  size_t peak_bytes = 0;
  PageWindows windows;
  std::vector<std::shared_ptr<const Reclaimer>> reclaimers;  // reclaimers, in the order in which the pool calls them

  size_t bytes_in_use() const {
    size_t bytes = 0;
    for (size_t i = 0; i < kNSlabs; ++i) bytes += in_use[i] * slabs[i].page_bytes();
    return bytes;
  }
  size_t free_bytes() const { return budget_bytes - bytes_in_use(); }
  // Bytes of a page with both parts, or of a state.
  size_t bytes_of(Kind kind) const {
    return kind == Kind::kState ? slabs[kStates].page_bytes()
                                : slabs[kAllRows].page_bytes() + slabs[kWindows].page_bytes();
  }

  // --- window parts

  void give_back_window(PageSlabs::Slot* memory) {
    if (memory == nullptr) return;
    slabs[kWindows].give_back(memory);
    --in_use[kWindows];
  }
  void zero_window(PageSlabs::Slot* memory) const {
    if (memory != nullptr) std::memset(memory->data, 0, slabs[kWindows].page_bytes());
  }
  // Evicts idle window parts of a class until `missing` bytes are free or the class is empty. In the class kEnd, evicts
  // parts only if all idle parts of the class together have at least `missing` bytes. Returns true if a part was
  // evicted.
  bool reclaim_windows(std::unique_lock<std::mutex>& lock, WindowClass window_class, size_t missing) {
    const size_t bytes = slabs[kWindows].page_bytes();
    if (window_class == WindowClass::kEnd && windows.n_idle(window_class) * bytes < missing) return false;
    bool any = false;
    for (size_t freed = 0; freed < missing; freed += bytes) {
      PageWindow* window = windows.first(window_class);
      if (window == nullptr) break;
      PageSlabs::Slot* memory = windows.take_memory(*window);
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
      window = windows.take_memory(slot->window);
      PageWindows::reset(slot->window);
    }
    zero_window(window);
    const std::lock_guard lock(mutex);
    give_back_window(window);
    slot->slabs->give_back(std::exchange(slot->memory, nullptr));
    --in_use[static_cast<size_t>(slot->slabs - slabs.data())];
    slot->next_free = std::exchange(free_slots, slot);
  }

  // Creates slots until n are free. May throw std::bad_alloc; slots created before the exception are kept for the next
  // call.
  void provide_slots(size_t n) {
    for (const Slot* slot = free_slots; n > 0 && slot != nullptr; slot = slot->next_free) --n;
    for (; n > 0; --n) {
      Slot& slot = slots.emplace_back();
      slot.next_free = std::exchange(free_slots, &slot);
    }
  }

  // Appends n pages to `taken` and returns 0, or returns the number of missing bytes; `refused` gets the error if the
  // system has no memory.
  // REQUIRES: the mutex is held, and `taken` has capacity for n more.
  size_t take(Kind kind, size_t n, std::vector<Slot*>& taken, Status& refused) {
    PageSlabs& of = slabs[kind == Kind::kState ? kStates : kAllRows];
    const bool has_windows = kind == Kind::kRows && slabs[kWindows].page_bytes() > 0;
    const size_t bytes = n * bytes_of(kind);
    if (bytes > free_bytes()) return bytes - free_bytes();
    if (refused = of.provide(n); !refused.ok()) return bytes;
    if (has_windows) {
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
      if (has_windows) windows.allocate(slot->window, slabs[kWindows].take());
    }
    in_use[static_cast<size_t>(&of - slabs.data())] += n;
    if (has_windows) in_use[kWindows] += n;
    peak_bytes = std::max(peak_bytes, bytes_in_use());
    return 0;
  }

  // Freed pages keep their memory until it is returned to the system. If the memory of the freed pages and that of the
  // new pages would together exceed the budget, returns the freed memory of other page sizes.
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
    return {ErrorCode::kOutOfMemory, "KV cache: cannot allocate " + std::to_string(n) +
                                         (kind == Kind::kRows ? " pages of " : " recurrent states of ") +
                                         std::to_string(bytes_of(kind)) + " bytes: " + std::to_string(bytes_in_use()) +
                                         " bytes of a budget of " + std::to_string(budget_bytes) +
                                         " are in use and none can be evicted"};
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
  // Release: this holder's reads happen before the next holder's writes. Acquire: the reads of the other holders also
  // happen before the next holder's writes.
  if (slot_ != nullptr && slot_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    slot_->pool->release(slot_);
  }
}

std::byte* KvPage::data() const { return slot_->data; }

PageMemory KvPage::parts() const { return {slot_->data, slot_->window.data()}; }

size_t KvPage::use_count() const { return slot_ == nullptr ? 0 : slot_->holders.load(std::memory_order_acquire); }

KvWindowLease::KvWindowLease(const KvWindowLease& other) : slot_(other.slot_) {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(slot_->pool->mutex);
  slot_->pool->windows.lease(slot_->window);
}

KvWindowLease::KvWindowLease(KvWindowLease&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}

KvWindowLease& KvWindowLease::operator=(KvWindowLease other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

void KvWindowLease::end_as(WindowClass window_class) noexcept {
  KvPage::Slot* slot = std::exchange(slot_, nullptr);
  if (slot == nullptr) return;
  const std::lock_guard lock(slot->pool->mutex);
  slot->pool->windows.end_lease(slot->window, window_class);
}

KvWindowReader::~KvWindowReader() {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(slot_->pool->mutex);
  slot_->pool->windows.end_reading(slot_->window);
}

KvPagePool::KvPagePool(KvLayout layout, size_t budget_bytes) : layout_(std::move(layout)) {
  state_ = std::make_unique<State>(layout_, budget_bytes);
}

KvPagePool::~KvPagePool() { CHECK_EQ(state_->bytes_in_use(), size_t{0}) << "no page may outlive its pool"; }

Result<std::vector<KvPage>> KvPagePool::allocate(size_t n_pages) { return hand_out(Kind::kRows, n_pages); }

Result<std::vector<KvPage>> KvPagePool::allocate_states(size_t n_pages) { return hand_out(Kind::kState, n_pages); }

Result<std::vector<KvPage>> KvPagePool::hand_out(Kind kind, size_t n_pages) {
  return guarded([&]() -> Result<std::vector<KvPage>> {
    State& state = *state_;
    // Refuse at once a request that is larger than the whole budget: evicting pages would not help.
    if (n_pages > state.budget_bytes / state.bytes_of(kind)) {
      const std::lock_guard lock(state.mutex);
      return state.out_of_memory(kind, n_pages);
    }
    std::vector<KvPage::Slot*> taken;
    std::vector<KvPage> pages;
    taken.reserve(n_pages);
    pages.reserve(n_pages);
    for (size_t n_tried = 0;;) {
      std::unique_lock lock(state.mutex);
      Status refused;
      const size_t missing = state.take(kind, n_pages, taken, refused);
      if (missing == 0) break;
      if (state.reclaim_windows(lock, WindowClass::kPassed, missing)) continue;
      if (n_tried >= state.reclaimers.size()) {
        if (refused.ok() && state.reclaim_windows(lock, WindowClass::kEnd, missing)) continue;
        return refused.ok() ? state.out_of_memory(kind, n_pages) : refused;
      }
      const std::shared_ptr<const Reclaimer> reclaimer = state.reclaimers[n_tried];
      lock.unlock();
      n_tried = (*reclaimer)(missing) ? 0 : n_tried + 1;
    }
    for (KvPage::Slot* slot : taken) {
      slot->holders.store(1, std::memory_order_relaxed);
      pages.push_back(KvPage(slot));
    }
    return pages;
  });
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
  std::shared_ptr<const Reclaimer> gone;  // declared before the lock, so that it is destroyed after unlocking
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
  if (page.slot_->window.is_evicted()) return {};
  state_->windows.lease(page.slot_->window);
  return KvWindowLease(page.slot_);
}

bool KvPagePool::lease_windows(std::span<const KvPage> pages, std::span<KvWindowLease> leases) {
  CHECK_EQ(pages.size(), leases.size());
  const std::lock_guard lock(state_->mutex);
  for (size_t i = 0; i < pages.size(); ++i) {
    if (!leases[i] && pages[i].slot_->window.is_evicted()) return false;
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    if (leases[i]) continue;
    state_->windows.lease(pages[i].slot_->window);
    leases[i].slot_ = pages[i].slot_;
  }
  return true;
}

KvWindowReader KvPagePool::read_window(const KvPage& page) {
  const std::lock_guard lock(state_->mutex);
  if (page.slot_->window.is_evicted()) return KvWindowReader(nullptr);
  state_->windows.begin_reading(page.slot_->window);
  return KvWindowReader(page.slot_);
}

bool KvPagePool::has_window(const KvPage& page) const {
  const std::lock_guard lock(state_->mutex);
  return !page.slot_->window.is_evicted();
}

void KvPagePool::mark_resume_point(const KvPage& page, bool is_resume_point) {
  const std::lock_guard lock(state_->mutex);
  state_->windows.mark_resume_point(page.slot_->window, is_resume_point);
}

void KvPagePool::drop_window(const KvPage& page) {
  std::unique_lock lock(state_->mutex);
  PageSlabs::Slot* memory = state_->windows.take_memory(page.slot_->window);
  lock.unlock();
  state_->zero_window(memory);
  lock.lock();
  state_->give_back_window(memory);
}

void KvPagePool::offer_windows(std::span<const KvPage> pages) {
  if (layout_.window() == 0) return;
  const std::lock_guard lock(state_->mutex);
  for (const KvPage& page : pages) state_->windows.offer(page.slot_->window);
}

size_t KvPagePool::idle_window_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->windows.n_idle() * layout_.part_bytes(PagePart::kWindow);
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
