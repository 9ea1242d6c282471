// Files in memory, for readers that open files by path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ibid::fuzz {

// One file that is overwritten repeatedly.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Replaces the content; returns the path.
  const std::string& write(std::string_view content) const;

 private:
  int fd_;
  std::string path_;
};

// A directory whose files are removed by clear().
class MemoryDirectory {
 public:
  MemoryDirectory();
  ~MemoryDirectory();
  MemoryDirectory(const MemoryDirectory&) = delete;
  MemoryDirectory& operator=(const MemoryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string write(const std::string& name, std::string_view content);
  void clear();

 private:
  std::string path_;
  std::vector<std::string> files_;
};

}  // namespace ibid::fuzz
