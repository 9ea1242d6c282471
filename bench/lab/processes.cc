#include "bench/lab/processes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "base/clock.h"

namespace ibid {

OtherProcesses::OtherProcesses() : start_(now()) {}

OtherProcesses::Seconds OtherProcesses::now() {
  Seconds seconds;
  seconds.wall = static_cast<double>(system_clock().steady_ns()) * 1e-9;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    for (const timeval& t : {usage.ru_utime, usage.ru_stime}) {
      seconds.own += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    }
  }
  // Columns of the line "cpu" in /proc/stat: user nice system idle iowait irq softirq steal ...
  constexpr int kColumns = 8, kIdle = 3, kWaiting = 4;
  std::ifstream stat("/proc/stat");
  std::string label;
  stat >> label;
  double ticks = 0;
  for (int column = 0; column < kColumns && stat >> ticks; ++column) {
    if (column != kIdle && column != kWaiting) seconds.busy += ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return seconds;
}

double OtherProcesses::percent() const {
  const Seconds end = now();
  const double all = (end.wall - start_.wall) * std::max(1u, std::thread::hardware_concurrency());
  const double others = (end.busy - start_.busy) - (end.own - start_.own);
  return all > 0 ? std::clamp(100 * others / all, 0.0, 100.0) : 0;
}

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
