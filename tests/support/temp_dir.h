// A temporary directory for one test, removed with its contents at the end of the scope.
#pragma once

#include <string>
#include <string_view>

namespace ibid {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // Returns the path of `name` in the directory.
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

// Returns the content of a file. REQUIRES: it can be read.
std::string read_whole_file(const std::string& path);

}  // namespace ibid
