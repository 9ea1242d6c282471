// Partially downloaded files in the models directory, and the origin of complete files. A PartFile has a temporary name
// beside its target, and the downloading process holds a lock on it. If a download is interrupted, the next download
// resumes its part. remove_abandoned_parts() deletes unlocked parts to which nothing was written for a week.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apps/models/hub.h"
#include "base/result.h"

namespace ibid {

class PartFile {
 public:
  // Creates the file, or opens an existing part. Errors: kBusy (another process downloads it), kIo.
  static Result<std::unique_ptr<PartFile>> open(const std::string& path);

  // Removes the file if it is empty.
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  bool append(std::string_view bytes);  // returns false on an error, which status() returns
  Status restart();
  // Syncs the file and renames it to `target`.
  Status finish(const std::string& target);
  void discard();
  const Status& status() const { return status_; }  // result of the last append()

 private:
  PartFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  uint64_t size_ = 0;
  Status status_;
};

// Returns the SHA-256 of a file in hexadecimal. Error: kIo.
Result<std::string> sha256_of_file(const std::string& path);

// Returns a path in `directory` that depends on `content`, so that parts of different revisions never mix.
std::string part_path(const std::string& directory, std::string_view content);

// Removes parts without a lock, and directories of unpacked packages, to which nothing was written for a week. Returns
// the bytes of the removed parts.
uint64_t remove_abandoned_parts(const std::string& directory);

// The repository and commit of a downloaded file. A note beside the file stores them, with the path in the repository
// and the verified SHA-256, because name and size do not identify a file.
struct HubOrigin {
  std::string repository;  // "hf:OWNER/NAME"
  std::string revision;
};

enum class FileState {
  kMissing,
  kSame,   // the file has the same digest as the hub's file
  kOlder,  // another version from this repository; also a file of this size without a note, if the hub has no digest
};

// Reads the file at `target` and compares it with the hub's file. Error: kDuplicate if it does not come from this
// repository.
Result<FileState> compare_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file);

// Writes the note of a downloaded file. Errors are ignored, because the file is usable without its note.
void note_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file);

// Returns the unique name of a repository's directory in the models directory.
std::string repository_folder(const HubName& name);

}  // namespace ibid
