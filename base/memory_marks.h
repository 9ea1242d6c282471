// Marks for AddressSanitizer: which bytes of mapped memory (arenas, KV pages, files) may be accessed. The sanitizer
// tracks heap and stack itself, but takes every mapped byte as accessible. Without it these functions do nothing.
//
// The marks find bugs in tests; they are no protection in a release (for that see base/mapped_file.h). Thread-safe for
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

// Poisons [begin, begin + bytes): an access aborts the process with a report. Exact if `begin` and the end of the
// mapping are multiples of 8; else up to 7 bytes at the end may stay accessible.
inline void forbid_memory(const void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
// Makes the range accessible. Call it before the memory is unmapped, because marks outlive the mapping.
inline void allow_memory(const void* begin, size_t bytes) { __asan_unpoison_memory_region(begin, bytes); }

#else

inline constexpr bool kMarksMemory = false;

inline void forbid_memory(const void*, size_t) {}
inline void allow_memory(const void*, size_t) {}

#endif

}  // namespace ibid
