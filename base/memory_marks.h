// Tells AddressSanitizer which bytes of mapped memory (arenas, pages of keys and values, files) may be touched. The
// sanitizer knows the heap and the stack by itself, but takes every mapped byte for a good one. Without the
// sanitizer these functions do nothing.
//
// These marks find bugs in tests and protect nobody in a release; base/mapped_file.h does that. Thread-safe for
// ranges that do not overlap.
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

// From now on touching [begin, begin + bytes) ends the process with a report. Both ends are exact if `begin` and
// the end of the mapping are multiples of 8; else up to 7 bytes at the end may stay allowed.
inline void forbid_memory(const void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
// From now on the range may be touched. Call it before the memory is unmapped, because marks outlive the mapping.
inline void allow_memory(const void* begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }

#else

inline constexpr bool kMarksMemory = false;

inline void forbid_memory(const void*, size_t) {}
inline void allow_memory(const void*, size_t) {}

#endif

}  // namespace ibid
