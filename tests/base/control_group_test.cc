#include "base/control_group.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

constexpr const char* kMounts =
    "30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "31 30 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

struct Case {
  const char* name;
  std::string mounts, groups;
  std::vector<std::pair<std::string, std::string>> files;  // below /sys/fs/cgroup
  std::optional<uint64_t> bytes;
  std::optional<double> n_cpus;
};

TEST(ControlGroup, LowestLimitOfAllEnclosingGroupsApplies) {
  const Case kCases[] = {
      {"version 2, the group above has the limits",
       kMounts,
       "0::/a/b\n",
       {{"unified/a/memory.max", "1000\n"},
        {"unified/a/memory.current", "500\n"},
        {"unified/a/memory.stat", "anon 100\ninactive_file 200\n"},
        {"unified/a/b/memory.max", "max\n"},
        {"unified/a/cpu.max", "150000 100000\n"},
        {"unified/a/b/cpu.max", "max 100000\n"}},
       700,
       1.5},
      {"version 2, the root of a container",
       "33 30 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
       "0::/\n",
       {{"memory.max", "300"}, {"memory.current", "400"}, {"cpu.max", "50000 100000"}},
       0,
       0.5},
      {"version 1, own group",
       kMounts,
       "9:memory:/lab\n4:cpu,cpuacct:/lab/x\n",
       {{"memory/lab/memory.limit_in_bytes", "200"},
        {"memory/lab/memory.usage_in_bytes", "50"},
        {"memory/memory.limit_in_bytes", "9223372036854771712"},
        {"cpu,cpuacct/lab/cpu.cfs_quota_us", "400000"},
        {"cpu,cpuacct/lab/cpu.cfs_period_us", "100000"},
        {"cpu,cpuacct/lab/x/cpu.cfs_quota_us", "-1"},
        {"cpu,cpuacct/lab/x/cpu.cfs_period_us", "100000"}},
       150,
       4.0},
      {"version 1, a group of the host that is not mounted here",
       "31 30 0:27 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
       "9:memory:/docker/1\n",
       {{"memory/memory.limit_in_bytes", "77"}},
       77,
       std::nullopt},
      {"no limits", kMounts, "0::/a\n", {{"unified/a/memory.max", "max"}, {"unified/a/cpu.max", "max 100000"}}, {}, {}},
      {"no groups", "", "", {}, {}, {}},
      {"damaged files",
       "x\n- - -\n31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
       ":\nmemory\n9:memory:/../../etc\n",
       {{"memory/memory.limit_in_bytes", "12x"}, {"memory/cpu.max", ""}},
       {},
       {}},
      {"a period of nothing", kMounts, "0::/\n", {{"unified/cpu.max", "100000 0"}}, {}, {}},
  };
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const TempDir root;
    const auto write = [&root](const std::string& name, const std::string& text) {
      std::filesystem::create_directories(std::filesystem::path(root.file(name)).parent_path());
      std::ofstream(root.file(name)) << text;
    };
    write("proc/self/mountinfo", one.mounts);
    write("proc/self/cgroup", one.groups);
    for (const auto& [name, text] : one.files) write("sys/fs/cgroup/" + name, text);
    const ControlGroupLimits limits = control_group_limits(root.path());
    EXPECT_EQ(limits.available_bytes, one.bytes);
    EXPECT_EQ(limits.n_cpus, one.n_cpus);
  }
}

}  // namespace
}  // namespace ibid
