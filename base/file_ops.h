// FileOps: the few calls that a crash-safe store of files makes to the file system, behind an interface, so that
// tests can make the nth call fail. Model files are not read through it (base/mapped_file.h). Implementations are
// thread-safe; one File is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

// kIo with "path: action: the system's words for `error_number`".
Status errno_status(int error_number, std::string_view path, std::string_view action);

// An open regular file; closed when destroyed.
class File {
 public:
  virtual ~File() = default;

  // Reads out.size() bytes from `offset` on; fewer only at the end of the file. Returns the bytes read.
  virtual Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) = 0;
  // Appends all of `bytes`, or fails (the file may then hold a part of them).
  virtual Status write(std::span<const std::byte> bytes) = 0;
  // Returns when what was written is on the device. It must not be called again after it failed: the system may
  // have dropped the bytes it could not write, and the second call would find nothing left to complain about.
  virtual Status sync() = 0;
  virtual Result<uint64_t> size() = 0;
  // Some file systems say only here that a write failed. Nothing else may be called afterwards.
  virtual Status close() = 0;
};

enum class FileKind { kRegular, kDirectory, kOther };  // other: symlinks, devices, FIFOs

struct FileInfo {
  FileKind kind = FileKind::kOther;
  uint64_t size = 0;
  int64_t mtime_ns = 0;  // since 1970-01-01 00:00 UTC
};

// A lock on a file, held as long as this lives or until the process ends, however it ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// An open directory that belongs to its user alone, so that nobody else can put anything into it. A name stands for
// what lies directly in the directory. Names are looked up in the directory that was opened, wherever its path may
// lead by now, and no symlink is followed. Thread-safe. Every call may fail with kIo.
class Directory {
 public:
  virtual ~Directory() = default;

  // Errors: also kNotFound; kNotRegularFile; kUnsafePath for a symlink.
  virtual Result<std::unique_ptr<File>> open_to_read(const std::string& name) = 0;
  // A new, empty file, readable by the owner alone. kDuplicate when anything has this name already.
  virtual Result<std::unique_ptr<File>> create_new(const std::string& name) = 0;
  // A directory in this one, made when it is not there. Errors: as FileOps::open_directory().
  virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& name) = 0;
  // Error: also kNotFound.
  virtual Result<FileInfo> info(const std::string& name) = 0;
  virtual Status set_mtime(const std::string& name, int64_t mtime_ns) = 0;
  // Takes the one lock of a file, which is created if it is not there. Error: kBusy when somebody else has it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& name) = 0;
  // Moves a file to a name in `to`, which may be this directory; what has that name is replaced atomically.
  // REQUIRES: `to` was opened by the same FileOps.
  virtual Status rename(const std::string& name, Directory& to, const std::string& new_name) = 0;
  // Ok when there is no such file; a directory is kIo.
  virtual Status remove(const std::string& name) = 0;
  // Makes renames, creations and removals durable.
  virtual Status sync() = 0;
  // Names, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list() = 0;
};

class FileOps {
 public:
  virtual ~FileOps() = default;

  // Errors of all: kIo. open_to_read: also kNotRegularFile, kNotFound; it never blocks on a FIFO.
  virtual Result<std::unique_ptr<File>> open_to_read(const std::string& path) = 0;
  // A new, empty file; one that exists is emptied. Readable by the owner alone (conversations are private).
  virtual Result<std::unique_ptr<File>> create(const std::string& path) = 0;
  // The same, but kDuplicate when anything has this name already.
  virtual Result<std::unique_ptr<File>> create_new(const std::string& path) = 0;
  // Of `path` itself, be it a symlink. Error: also kNotFound.
  virtual Result<FileInfo> info(const std::string& path) = 0;
  // Takes the one lock of a file, which is created if it is not there. Error: kBusy when somebody else has it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  // Replaces `to` atomically.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Ok when there is no such file.
  virtual Status remove(const std::string& path) = 0;
  // With its parents; ok when it exists. A new one is the owner's alone.
  virtual Status make_directory(const std::string& path) = 0;
  // Opens a directory of this user's alone; it is made, with its parents, when it is not there. kUnsafePath, with what
  // to do about it, for a symlink and for one that belongs to somebody else or that others may enter.
  virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& path) = 0;
  // Makes renames and creations in a directory durable.
  virtual Status sync_directory(const std::string& path) = 0;
  // Names in a directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

// The real file system.
FileOps& system_file_ops();

// A file that is written beside `path` before it takes the place of `path`: new, under a name of its own, for its
// owner alone. The caller removes it if it is not wanted; a crash leaves it behind.
struct TemporaryFile {
  std::string path;
  std::unique_ptr<File> file;
};
// `path` with a random suffix and ".tmp". Errors: those of create_new(); kNotRegularFile when `path` is a device, a
// directory or anything else that a file must not take the place of.
Result<TemporaryFile> create_temporary(FileOps& files, const std::string& path);

// Writes `bytes` to a temporary file, syncs it, renames it to `path`, and syncs the directory. After a crash or an
// error at any point `path` holds either its old content or the new one. On error the temporary file is removed.
// When several write to one path at once, each succeeds, and the content of the last to rename stays.
Status write_file_atomically(FileOps& files, const std::string& path, std::span<const std::byte> bytes);

// The whole file. Errors: as open_to_read; kLimitExceeded when it is larger than max_bytes.
Result<std::string> read_file(FileOps& files, const std::string& path, uint64_t max_bytes);

}  // namespace ibid
