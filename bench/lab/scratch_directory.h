// ScratchDirectory: a directory for files that only a measurement needs; gone with everything in it when this is.
// Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

class ScratchDirectory {
 public:
  // In the system's directory for temporary files ($TMPDIR), for its owner alone. Error: kIo.
  static Result<std::unique_ptr<ScratchDirectory>> create();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  // The path of `name` in it.
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Removes everything in it.
  void empty() const;

  // Asks the system to drop from its memory what it keeps of the files here and below, so that they are read from the
  // device the next time. Files that are not on the device yet, or that live in memory only, stay.
  void forget_files() const;

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace ibid
