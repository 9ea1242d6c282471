// CPU share of other processes during a measurement, because figures of a shared machine are of little use; and the
// memory of this process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ibid {

class OtherProcesses {
 public:
  OtherProcesses();  // starts the measurement

  // Percentage of all CPUs that other processes used since construction, 0 to 100; 0 if the system does not report
  // it. Resolution: 10 ms.
  double percent() const;

 private:
  struct Seconds {
    double busy = 0;  // CPU time of all processes on all CPUs
    double own = 0;
    double wall = 0;
  };
  static Seconds now();
  Seconds start_;
};

// The memory of this process, as the operating system counts it.
struct ProcessMemory {
  size_t resident_bytes = 0;
  size_t peak_bytes = 0;  // largest resident_bytes so far
};
// Returns zeros if the system does not report the memory.
ProcessMemory process_memory();

}  // namespace ibid
