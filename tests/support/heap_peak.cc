#include "tests/support/heap_peak.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace ibid {

namespace {

std::atomic<size_t> in_use{0}, most{0};

}  // namespace

HeapPeak::HeapPeak() : before_(in_use) { most = before_; }
size_t HeapPeak::bytes() const { return most - std::min<size_t>(before_, most); }

// These functions are not in the anonymous namespace, because operator new below calls them.
void* measured_allocation(size_t size, size_t alignment) {
  const size_t padded = (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* memory = alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, padded)
                                                       : std::malloc(std::max<size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  const size_t now = in_use += malloc_usable_size(memory);
  for (size_t known = most; known < now && !most.compare_exchange_weak(known, now);) {
  }
  return memory;
}

void measured_free(void* memory) {
  if (memory != nullptr) in_use -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace ibid

void* operator new(size_t size) { return ibid::measured_allocation(size, 1); }
void* operator new[](size_t size) { return ibid::measured_allocation(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return ibid::measured_allocation(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return ibid::measured_allocation(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept try {
  return ibid::measured_allocation(size, 1);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept try {
  return ibid::measured_allocation(size, 1);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { ibid::measured_free(memory); }
void operator delete[](void* memory) noexcept { ibid::measured_free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { ibid::measured_free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { ibid::measured_free(memory); }
void operator delete(void* memory, size_t) noexcept { ibid::measured_free(memory); }
void operator delete[](void* memory, size_t) noexcept { ibid::measured_free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { ibid::measured_free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { ibid::measured_free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { ibid::measured_free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { ibid::measured_free(memory); }
