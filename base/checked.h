// Overflow-checked arithmetic for all numbers from outside (file headers, requests). GGUF loaders were exploited by a
// product that wrapped around and then passed a bounds check, so all arithmetic on such numbers uses these functions.
// saturating_sub() also subtracts counters that were read at different times, so that either may be larger.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace ibid {

template <std::unsigned_integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::unsigned_integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// a - b, or 0 if b is larger.
template <std::unsigned_integral T>
constexpr T saturating_sub(T a, T b) {
  return a > b ? static_cast<T>(a - b) : T{0};
}

// Returns `value` as a To; nullopt if it does not fit.
template <std::integral To, std::integral From>
constexpr std::optional<To> checked_cast(From value) {
  To out{};
  if (__builtin_add_overflow(value, From{0}, &out)) return std::nullopt;
  return out;
}

// Returns the smallest multiple of `alignment` that is >= value; nullopt on overflow. REQUIRES: alignment is a power of
// two.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_align(T value, T alignment) {
  const std::optional<T> sum = checked_add<T>(value, static_cast<T>(alignment - 1));
  if (!sum) return std::nullopt;
  return static_cast<T>(*sum & ~static_cast<T>(alignment - 1));
}

// Returns the smallest multiple of `multiple` that is >= n. Does not check for overflow: for internal numbers only.
constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace ibid
