// Files that exist only in memory, for readers that open files by their path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ibid::fuzz {

// One file, to be written again and again.
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

// A directory whose files last until the next call of clear().
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
