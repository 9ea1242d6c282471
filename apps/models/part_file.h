// A file on its way: what has come of it, under a name of its own beside its place, locked by whoever fetches it.
//
// A pull that was killed leaves its part, and the next one goes on with it. remove_abandoned_parts() removes parts
// that nobody has gone on with for a week, since they take room on the disk; it leaves parts that are locked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

class PartFile {
 public:
  // Makes it, or goes on with what is there. Errors: kBusy (another process fetches it), kIo.
  static Result<std::unique_ptr<PartFile>> open(const std::string& path);

  // What is empty is not kept.
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  bool append(std::string_view bytes);  // false: status() says why
  Status restart();
  // Its bytes are on the disk, and it has its name.
  Status finish(const std::string& target);
  void discard();
  const Status& status() const { return status_; }  // of appending

 private:
  PartFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  uint64_t size_ = 0;
  Status status_;
};

// Beside its place, and different for each content, so that parts of two revisions never mix.
std::string part_path(const std::string& directory, std::string_view content);

// Removes the parts in `directory`, and the folders that packages were unpacked in, that nobody holds and nobody wrote
// to for a week. Returns the bytes of the parts.
uint64_t remove_abandoned_parts(const std::string& directory);

}  // namespace ibid
