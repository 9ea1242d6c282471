// A file mapped for reading. The path is opened without blocking, must be a regular file, and its size
// and modification time are remembered.
//
// Somebody may truncate or overwrite the file at any time. Reading what is gone gives zeros (base/mapping_guard.h),
// and reading what was overwritten gives the new bytes. So whoever reads the mapping must keep within it whatever
// the bytes say, and must ask check_unchanged() after the last read, before it trusts the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/mapping_guard.h"
#include "base/result.h"

namespace ibid {

// Whether `name` can be the name of a file or a folder in a directory, and nothing else: no path, no "..".
bool is_plain_name(const std::string& name);

class MappedFile {
 public:
  // Errors: kNotRegularFile, kIo (errno's words), kTruncated for an empty file.
  static Result<MappedFile> open(const std::string& path);

  // The file `name` in `directory`, for names that come from another file: opened relative to the directory,
  // so that it cannot be a path to somewhere else. Errors: those of open(); kNotFound when it is not there;
  // kUnsafePath when `name` is not a plain file name, or is a symlink and follow_symlinks is false.
  static Result<MappedFile> open_in(const std::string& directory, const std::string& name,
                                    bool follow_symlinks = true);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Gives back the memory of a `part` that is done with; reading it again reads the file again. Does nothing if
  // `part` is not of this mapping.
  void release(std::span<const std::byte> part) const;

  const std::string& path() const { return path_; }

  // kChangedOnDisk when size or modification time differ from those at open(); kIo when the disk failed.
  Status check_unchanged() const;

 private:
  MappedFile() = default;
  static Result<MappedFile> map(MappedFile file);  // of fd_ and path_

  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int64_t mtime_ns_ = 0;
  MappingGuard guard_;  // of data_
};

}  // namespace ibid
