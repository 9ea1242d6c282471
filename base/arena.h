// Arena: one anonymous mapping, on huge pages if the system grants them, handed out in 64-byte aligned pieces. It
// is for weights, KV pages and scratch buffers: what is large, lives long and is freed all at once. The kernel
// zeroes memory at its first touch. Not thread-safe.
//
// Under AddressSanitizer a piece has exactly the bytes that were asked for, and a cache line that nobody may touch
// lies behind it.
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
  // Reserves `capacity_bytes` (rounded up to 64) of address space; memory is used as it is touched.
  // Error: kOutOfMemory with the wanted bytes.
  static Result<Arena> create(size_t capacity_bytes);

  Arena() = default;  // empty: capacity 0
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // The next `bytes` bytes, 64-byte aligned; they take padded(bytes). REQUIRES: these fit.
  std::byte* allocate(size_t bytes);

  // `n` elements of T. REQUIRES: they fit, padded; T is trivially destructible.
  template <typename T>
  std::span<T> allocate_array(size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    CHECK_LE(n, (capacity_ - used_) / sizeof(T)) << "elements left in the arena";
    return {reinterpret_cast<T*>(allocate(n * sizeof(T))), n};
  }

  size_t capacity() const { return capacity_; }
  size_t used() const { return used_; }

  // Bytes that a piece of `bytes` takes in an arena, for planning a capacity.
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
