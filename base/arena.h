// Arena: one anonymous mapping, on huge pages if the system grants them, from which 64-byte aligned blocks are
// allocated. For weights, KV pages and scratch buffers, which are large, live long and are freed all at once. The
// kernel zeroes memory at its first touch. Not thread-safe.
//
// Under AddressSanitizer each block has exactly the requested bytes and is followed by a poisoned cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/check.h"
#include "base/memory_marks.h"
#include "base/result.h"

namespace ibid {

inline constexpr size_t kCacheLine = 64;

class Arena {
 public:
  // Reserves `capacity_bytes` (rounded up to 64) of address space; the system assigns memory at the first touch.
  // Error: kOutOfMemory with the wanted bytes.
  static Result<Arena> create(size_t capacity_bytes);

  Arena() = default;  // an arena without memory: capacity 0
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Returns the next `bytes` bytes, 64-byte aligned, and advances used() by padded(bytes). REQUIRES: the padded bytes
  // fit.
  std::byte* allocate(size_t bytes);

  // As allocate(), for n elements of T. REQUIRES: the padded bytes fit; T is trivially destructible.
  template <typename T>
  std::span<T> allocate_array(size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    CHECK_LE(n, (capacity_ - used_) / sizeof(T)) << "elements left in the arena";
    return {reinterpret_cast<T*>(allocate(n * sizeof(T))), n};
  }

  size_t capacity() const { return capacity_; }
  size_t used() const { return used_; }

  // Bytes that allocate(bytes) uses up, for planning a capacity.
  static constexpr size_t padded(size_t bytes) {
    return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine + (kMarksMemory ? kCacheLine : 0);
  }

 private:
  std::byte* base_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
  size_t mapped_bytes_ = 0;
};

}  // namespace ibid
