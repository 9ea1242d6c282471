// Measures how much of the machine other processes had during a measurement, because figures of a shared machine
// are of little use.
#pragma once

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

}  // namespace ibid
