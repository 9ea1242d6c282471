#include "base/control_group.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/checked.h"

namespace ibid {
namespace {

constexpr size_t kMaxGroups = 64;  // maximum number of nested groups that are examined
constexpr size_t kMaxLines = 10'000;

// A hierarchy of groups: where it is mounted, and the group that is mounted there.
struct Mount {
  std::string directory, root;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  std::string line;
  while (lines.size() < kMaxLines && std::getline(file, line)) lines.push_back(std::move(line));
  return lines;
}

bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// The mount of a controller; an empty controller means version 2. Lines of mountinfo: ID PARENT DEVICE ROOT MOUNT
// OPTIONS [FIELDS] - TYPE SOURCE SUPER_OPTIONS.
std::optional<Mount> find_mount(const std::string& root, std::string_view controller) {
  for (const std::string& line : lines_of(root + "/proc/self/mountinfo")) {
    std::istringstream words(line);
    std::string skipped, group, directory, type, super_options;
    words >> skipped >> skipped >> skipped >> group >> directory;
    while (words >> skipped && skipped != "-") {
    }
    words >> type >> skipped >> super_options;
    const bool is_wanted =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && lists(super_options, controller);
    if (is_wanted) return Mount{root + directory, group};
  }
  return std::nullopt;
}

// Returns the group of the process. Lines of /proc/self/cgroup: "0::/path" in version 2, "4:cpu,cpuacct:/path" in
// version 1.
std::optional<std::string> find_group(const std::string& root, std::string_view controller) {
  for (const std::string& line : lines_of(root + "/proc/self/cgroup")) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const bool is_wanted = controller.empty() ? controllers.empty() : lists(controllers, controller);
    if (is_wanted) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The directories of the process's group and of the groups above it. In a container, /proc may name a group that is not
// mounted there. Then the directory of the mount is the process's own group.
std::vector<std::string> group_directories(const std::string& root, std::string_view controller) {
  const std::optional<Mount> mount = find_mount(root, controller);
  const std::optional<std::string> group = find_group(root, controller);
  if (!mount || !group) return {};
  std::string below = *group;
  if (mount->root != "/") below = below.starts_with(mount->root) ? below.substr(mount->root.size()) : "";
  if (below.find("..") != below.npos) below.clear();
  std::vector<std::string> directories;
  for (; !below.empty() && below != "/" && directories.size() < kMaxGroups; below.resize(below.rfind('/'))) {
    directories.push_back(mount->directory + below);
    if (below.find('/') == below.npos) break;
  }
  directories.push_back(mount->directory);
  return directories;
}

std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  std::string word;
  while (words.size() < kMaxLines && file >> word) words.push_back(std::move(word));
  return words;
}

// Returns the number in words[i]; nullopt if there is no such word, or if it is not a number ("max").
std::optional<uint64_t> number_in(const std::vector<std::string>& words, size_t i) {
  if (i >= words.size()) return std::nullopt;
  uint64_t value = 0;
  const char* end = words[i].data() + words[i].size();
  const auto [after, error] = std::from_chars(words[i].data(), end, value);
  return error == std::errc() && after == end ? std::optional(value) : std::nullopt;
}

// Returns the number NAME of memory.stat, whose lines are "NAME NUMBER".
uint64_t stat_number(const std::string& path, std::string_view name) {
  const std::vector<std::string> words = words_of(path);
  const auto at = std::ranges::find(words, name);
  if (at == words.end()) return 0;
  return number_in(words, static_cast<size_t>(at - words.begin()) + 1).value_or(0);
}

struct MemoryFiles {
  const char *limit, *used, *droppable;
};

void take_memory(const std::vector<std::string>& directories, const MemoryFiles& names, ControlGroupLimits& limits) {
  for (const std::string& directory : directories) {
    const std::optional<uint64_t> limit = number_in(words_of(directory + "/" + names.limit), 0);
    if (!limit || *limit >= uint64_t{1} << 62) continue;  // cgroups of version 1 write "no limit" as a number near 2^63
    const uint64_t all = number_in(words_of(directory + "/" + names.used), 0).value_or(0);
    const uint64_t used = saturating_sub(all, stat_number(directory + "/memory.stat", names.droppable));
    const uint64_t available = saturating_sub(*limit, used);
    limits.available_bytes = std::min(limits.available_bytes.value_or(available), available);
  }
}

void take_quota(std::optional<uint64_t> quota, std::optional<uint64_t> period, ControlGroupLimits& limits) {
  if (!quota || !period || *period == 0) return;
  const double n_cpus = static_cast<double>(*quota) / static_cast<double>(*period);
  limits.n_cpus = std::min(limits.n_cpus.value_or(n_cpus), n_cpus);
}

}  // namespace

ControlGroupLimits control_group_limits(const std::string& root) {
  ControlGroupLimits limits;
  const std::vector<std::string> unified = group_directories(root, "");
  take_memory(unified, {"memory.max", "memory.current", "inactive_file"}, limits);
  take_memory(group_directories(root, "memory"),
              {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}, limits);
  for (const std::string& directory : unified) {
    const std::vector<std::string> words = words_of(directory + "/cpu.max");
    take_quota(number_in(words, 0), number_in(words, 1), limits);
  }
  for (const std::string& directory : group_directories(root, "cpu")) {
    take_quota(number_in(words_of(directory + "/cpu.cfs_quota_us"), 0),
               number_in(words_of(directory + "/cpu.cfs_period_us"), 0), limits);
  }
  return limits;
}

}  // namespace ibid
