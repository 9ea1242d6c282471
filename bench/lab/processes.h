// The share of the machine that other processes had during a measurement, because figures of a shared machine are of
// little use; and the memory of this process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ibid {

class OtherProcesses {
 public:
  OtherProcesses();  // from now on

  // Per cent of all CPUs that every process but this one had since construction, 0 to 100; 0 where the system
  // does not say. The system counts in ticks of 10 ms.
  double percent() const;

 private:
  struct Seconds {
    double busy = 0;  // of all CPUs, of all processes
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
// Zeros where the system does not say.
ProcessMemory process_memory();

}  // namespace ibid
