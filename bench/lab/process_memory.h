// How much memory this process has, as the operating system counts it.
#pragma once

#include <cstddef>

namespace ibid {

struct ProcessMemory {
  size_t resident_bytes = 0;
  size_t peak_bytes = 0;  // largest resident_bytes so far
};
// Zeros where the system does not say.
ProcessMemory process_memory();

}  // namespace ibid
