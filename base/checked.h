// Overflow-checked arithmetic for all numbers from outside (file headers, requests). A wrapped product that passes a
// later bounds check is how GGUF loaders get exploited, so all arithmetic on such numbers uses these functions.
// saturating_sub() is also for differences of two counters, which may have been read at different times.
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

// `value` as a To; nullopt if it does not fit.
template <std::integral To, std::integral From>
constexpr std::optional<To> checked_cast(From value) {
  To out{};
  if (__builtin_add_overflow(value, From{0}, &out)) return std::nullopt;
  return out;
}

// The smallest multiple of `alignment` that is >= value; nullopt on overflow. REQUIRES: alignment is a power of two.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_align(T value, T alignment) {
  const std::optional<T> sum = checked_add<T>(value, static_cast<T>(alignment - 1));
  if (!sum) return std::nullopt;
  return static_cast<T>(*sum & ~static_cast<T>(alignment - 1));
}

// The smallest multiple of `multiple` that is >= n, unchecked: for internal numbers only.
constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace ibid
