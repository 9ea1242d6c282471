#include "tests/support/failing_new.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace ibid {

namespace {

struct State {
  std::atomic<bool> is_on{false};
  std::atomic<bool> lasting{false};
  std::atomic<bool> has_failed{false};
  std::atomic<size_t> n{0};
  std::atomic<size_t> allocations{0};

  void count() {
    if (!is_on.load(std::memory_order_relaxed)) return;
    const size_t index = allocations.fetch_add(1);
    if (index != n && !(lasting && index > n)) return;
    has_failed = true;
    throw std::bad_alloc();
  }
};

thread_local State this_thread;
State all_threads;

State& state_of(FailingNew::Threads threads) {
  return threads == FailingNew::Threads::kAll ? all_threads : this_thread;
}

}  // namespace

FailingNew::FailingNew(size_t n, bool lasting, Threads threads) : threads_(threads) {
  State& state = state_of(threads);
  state.n = n;
  state.lasting = lasting;
  state.has_failed = false;
  state.allocations = 0;
  state.is_on = true;
}

void FailingNew::stop() {
  if (!is_on_) return;
  is_on_ = false;
  State& state = state_of(threads_);
  state.is_on = false;
  allocations_ = state.allocations;
  has_failed_ = state.has_failed;
}

size_t FailingNew::allocations() const { return is_on_ ? state_of(threads_).allocations.load() : allocations_; }
bool FailingNew::has_failed() const { return is_on_ ? state_of(threads_).has_failed.load() : has_failed_; }

// These functions are not in the anonymous namespace, because operator new below calls them.
void* counted_allocation(size_t size, size_t alignment) {
  this_thread.count();
  all_threads.count();
  const size_t padded = (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* memory = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, padded)
                                                       : std::malloc(std::max<size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace ibid

void* operator new(size_t size) { return ibid::counted_allocation(size, 1); }
void* operator new[](size_t size) { return ibid::counted_allocation(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return ibid::counted_allocation(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return ibid::counted_allocation(size, static_cast<size_t>(alignment));
}
// std::stable_sort allocates with nothrow and frees with the ordinary delete, so both must use the same heap.
void* operator new(size_t size, const std::nothrow_t&) noexcept try {
  return ibid::counted_allocation(size, 1);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept try {
  return ibid::counted_allocation(size, 1);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
