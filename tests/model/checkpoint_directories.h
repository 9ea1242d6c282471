// The checkpoint directories within a folder, sorted by name.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace ibid {

inline std::set<std::string> checkpoint_directories(const std::string& parent) {
  std::set<std::string> directories;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    if (entry.is_directory()) directories.insert(entry.path());
  }
  return directories;
}

}  // namespace ibid
