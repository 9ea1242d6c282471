#include "tests/hostile/allocation_watch.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<size_t> live_bytes{0};
std::atomic<size_t> peak_live_bytes{0};

void* counted(void* block) {
  if (block == nullptr) return nullptr;
  const size_t live = live_bytes.fetch_add(malloc_usable_size(block)) + malloc_usable_size(block);
  size_t peak = peak_live_bytes.load();
  while (live > peak && !peak_live_bytes.compare_exchange_weak(peak, live)) {
  }
  return block;
}

void* allocate(size_t size) {
  if (void* block = counted(std::malloc(std::max<size_t>(size, 1)))) return block;
  throw std::bad_alloc();
}

void release(void* block) {
  if (block != nullptr) live_bytes.fetch_sub(malloc_usable_size(block));
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return allocate(size); }
void* operator new[](size_t size) { return allocate(size); }
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, size_t) noexcept { release(block); }
void operator delete[](void* block, size_t) noexcept { release(block); }

namespace ibid {

AllocationWatch::AllocationWatch() : start_(live_bytes.load()) { peak_live_bytes.store(start_); }

size_t AllocationWatch::peak_bytes() const { return peak_live_bytes.load() - std::min(peak_live_bytes.load(), start_); }

}  // namespace ibid
