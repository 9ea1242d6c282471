// Which bytes of memory that is mapped here (arenas, pages of keys and values, files) may be touched, for
// AddressSanitizer: it knows the heap and the stack by itself, but takes every mapped byte for a good one.
// Without the sanitizer nothing of this is compiled.
//
// Not a protection of users (base/mapping_guard.h is one). Thread-safe for ranges that do not meet.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define IBID_MARKS_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IBID_MARKS_MEMORY 1
#endif
#endif

#ifdef IBID_MARKS_MEMORY
#include <sanitizer/asan_interface.h>
#endif

namespace ibid {

#ifdef IBID_MARKS_MEMORY

inline constexpr bool kMarksMemory = true;

// From now on touching [begin, begin + bytes) ends the process with a report. Exact at both ends where
// `begin` and the end of the mapping are multiples of 8; else the end may leave up to 7 bytes out.
inline void forbid_memory(const void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
// From now on it may be touched. Due before the memory is unmapped: the marks would outlive it.
inline void allow_memory(const void* begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }

#else

inline constexpr bool kMarksMemory = false;

inline void forbid_memory(const void*, size_t) {}
inline void allow_memory(const void*, size_t) {}

#endif

}  // namespace ibid
