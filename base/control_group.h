// The limits that control groups (cgroups of Linux, versions 1 and 2) set for the process: those of its own groups and
// of all visible groups above them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ibid {

struct ControlGroupLimits {
  // The least difference of memory limit and memory in use of any group. Droppable file pages do not count as in use.
  std::optional<uint64_t> available_bytes;
  std::optional<double> n_cpus;  // the least quota of CPU time, in CPUs
};

// `root`: the directory that holds proc and sys, for tests. Files that cannot be read set no limit.
ControlGroupLimits control_group_limits(const std::string& root = "");

}  // namespace ibid
