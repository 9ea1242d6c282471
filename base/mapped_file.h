// A file mapped for reading. The path is opened without blocking, must be a regular file, and its size
// and modification time are remembered.
//
// The file may be truncated or overwritten at any time. Reading what is gone gives zeros (MappingGuard),
// and reading what was overwritten gives the new bytes. So a reader must keep within the mapping whatever the
// bytes say, and must call check_unchanged() after the last read, before it trusts the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace ibid {

// MappingGuard: keeps the process alive when a mapped file loses pages while it is being read, because it is
// truncated or the disk fails. The kernel answers such a read with SIGBUS, which would end the process.
//
// While guards live, a handler of SIGBUS puts zeros in place of the lost pages of guarded mappings. So the read
// goes on, and its owner can say what happened (lost()). Every other SIGBUS goes to the handler that was installed
// before, or ends the process as ever. When the last guard goes, the old handler comes back.
//
// It reads no files and owns no mapping. Guards may be made and dropped on any thread.
class MappingGuard {
 public:
  MappingGuard() = default;  // guards nothing
  // Guards the pages of [data, data + size), a private mapping for reading. It must be dropped before the mapping is.
  MappingGuard(const std::byte* data, size_t size);
  MappingGuard(MappingGuard&& other) noexcept;
  MappingGuard& operator=(MappingGuard&& other) noexcept;
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;
  ~MappingGuard();

  // Whether a page was lost, and zeros were read in its place.
  bool lost() const;

 private:
  struct Slot;
  struct Registry;

  Slot* slot_ = nullptr;
};

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
