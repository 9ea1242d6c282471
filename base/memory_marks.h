// Marks for AddressSanitizer: which bytes of mapped memory (arenas, KV pages, files) may be accessed. The sanitizer
// tracks heap and stack itself, but treats every mapped byte as accessible. In builds without the sanitizer these
// functions do nothing.
//
// The marks find bugs in tests and do not protect a release build (base/mapped_file.h does). Thread-safe for ranges
// that do not overlap.
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

// Poisons [begin, begin + bytes): an access aborts the process with a report. The limit is exact if `begin` and the end
// of the mapping are multiples of 8; otherwise up to 7 bytes at the end may stay accessible.
inline void forbid_memory(const void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
// Makes the range accessible. Call it before unmapping the memory, because marks outlive the mapping.
inline void allow_memory(const void* begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }

#else

inline constexpr bool kMarksMemory = false;

inline void forbid_memory(const void*, size_t) {}
inline void allow_memory(const void*, size_t) {}

#endif

}  // namespace ibid
