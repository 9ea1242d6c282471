#include "bench/lab/process_memory.h"

#include <fstream>
#include <string>

namespace ibid {

ProcessMemory process_memory() {
  constexpr size_t kUnit = 1024;
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string field; status >> field;) {
    size_t value = 0;
    if (field == "VmRSS:" && status >> value) memory.resident_bytes = value * kUnit;
    if (field == "VmHWM:" && status >> value) memory.peak_bytes = value * kUnit;
  }
  return memory;
}

}  // namespace ibid
