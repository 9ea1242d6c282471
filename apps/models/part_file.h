// The files of the models directory while they are fetched, and their identity afterwards. A PartFile holds the bytes
// that have come, under a name of its own beside the file's place, locked by the process that fetches it.
//
// A pull that was killed leaves its part, and the next one continues it. remove_abandoned_parts() removes parts that no
// process has written to for a week, since they take room on the disk; it leaves parts that are locked.
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
  // Makes it, or goes on with what is there. Errors: kBusy (another process fetches it), kIo.
  static Result<std::unique_ptr<PartFile>> open(const std::string& path);

  // Removes the file if it is empty.
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

// The SHA-256 of a file in hexadecimal. Error: kIo.
Result<std::string> sha256_of_file(const std::string& path);

// Beside its place, and different for each content, so that parts of two revisions never mix.
std::string part_path(const std::string& directory, std::string_view content);

// Removes the parts in `directory`, and the folders that packages were unpacked in, that nobody holds and nobody wrote
// to for a week. Returns the bytes of the parts.
uint64_t remove_abandoned_parts(const std::string& directory);

// The repository and commit that a file is fetched from. A note beside the file names them, its path there and the
// SHA-256 that was verified. Name and size do not identify a file; its digest does.
struct HubOrigin {
  std::string repository;  // "hf:OWNER/NAME"
  std::string revision;
};

enum class FileState {
  kMissing,
  kSame,   // it has the digest of the hub's file
  kOlder,  // it came from this repository and was not changed since; or it has the size of a file without a digest
};

// Compares the file at `target` with the hub's; reads all of it. Error: kDuplicate when it is another file.
Result<FileState> compare_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file);

// Writes the note of a file that was fetched. The file can be used without it, so errors are not reported.
void note_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file);

// The directory of a repository's files in the models directory; different for each repository.
std::string repository_folder(const HubName& name);

}  // namespace ibid
