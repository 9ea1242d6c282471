// MappedFile: a file mapped for reading. Opening never blocks, requires a regular file, and records its size and
// modification time.
//
// Another process may truncate or overwrite the file at any time. Reading truncated parts gives zeros (MappingGuard),
// and reading overwritten parts gives the new bytes. So a reader must stay within the mapping whatever the bytes
// contain, and must call check_unchanged() after the last read, before it trusts the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "base/sha256.h"

namespace ibid {

// MappingGuard: keeps the process alive if a mapped file is truncated, or its disk fails, while the process reads it.
// The kernel signals a read of such a lost page with SIGBUS, which would end the process.
//
// While guards exist, a SIGBUS handler replaces lost pages of guarded mappings by zeros. The read continues, and lost()
// returns true. Every other SIGBUS is forwarded to the handler that was installed before, or ends the process.
// Destroying the last guard restores that handler.
//
// A guard does not read files or own mappings. Guards may be created and destroyed on any thread.
class MappingGuard {
 public:
  MappingGuard() = default;  // guards nothing
  // Guards the pages of [data, data + size), a private mapping for reading. Destroy the guard before unmapping them.
  MappingGuard(const std::byte* data, size_t size);
  MappingGuard(MappingGuard&& other) noexcept;
  MappingGuard& operator=(MappingGuard&& other) noexcept;
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;
  ~MappingGuard();

  // True if a page was lost and replaced by zeros.
  bool lost() const;

 private:
  struct Slot;
  struct Registry;

  Slot* slot_ = nullptr;
};

// True if `name` is a file name without a path: no slash, not "." or "..".
bool is_plain_name(const std::string& name);

class MappedFile {
 public:
  // Errors: kNotRegularFile, kIo (with errno's text), kTruncated for an empty file.
  static Result<MappedFile> open(const std::string& path);

  // Opens `name`, taken from an untrusted file, in `directory`. Refuses paths, so that the file cannot name anything
  // outside the directory. Errors: those of open(); kNotFound if it does not exist; kUnsafePath if `name` is not a
  // plain file name, or is a symlink and follow_symlinks is false.
  static Result<MappedFile> open_in(const std::string& directory, const std::string& name, bool follow_symlinks = true);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Frees the memory of `part`; reading it again reads the file again. Does nothing if `part` is not in this mapping.
  void release(std::span<const std::byte> part) const;

  const std::string& path() const { return path_; }

  // SHA-256 of the whole file, read through a small buffer and not through the mapping. Errors: kChangedOnDisk, kIo;
  // kCancelled after a stop request.
  Result<Sha256Digest> digest(const std::stop_token& stop) const;

  // kChangedOnDisk if size or modification time differ from those at open(); kIo if pages were lost.
  Status check_unchanged() const;

 private:
  MappedFile() = default;
  static Result<MappedFile> map(MappedFile file);  // maps file.fd_, which was opened from file.path_

  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int64_t mtime_ns_ = 0;
  MappingGuard guard_;  // guards reads of data_
};

}  // namespace ibid
