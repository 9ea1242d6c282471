// FileOps: the file system calls of crash-safe file stores, as an interface, so that tests can make the nth call fail.
// Model files are read by base/mapped_file.h instead. Implementations are thread-safe; one File is used by one thread
// at a time.
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

// Returns kIo with "path: cannot ACTION: the system's text of `error_number`".
Status errno_status(int error_number, std::string_view path, std::string_view action);

// An open regular file; closed when destroyed.
class File {
 public:
  virtual ~File() = default;

  // Reads out.size() bytes at `offset`; fewer only at the end of the file. Returns the number of bytes read.
  virtual Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) = 0;
  // Appends all of `bytes`. After an error the file may hold a part of them.
  virtual Status write(std::span<const std::byte> bytes) = 0;
  // Returns when all written bytes are on the device. Must not be called again after a call has failed: the system may
  // have dropped the bytes that it could not write, and a second call would report success.
  virtual Status sync() = 0;
  virtual Result<uint64_t> size() = 0;
  // Closes the file. Some file systems report a failed write only here. No other call may follow.
  virtual Status close() = 0;
};

enum class FileKind { kRegular, kDirectory, kOther };  // kOther: symlinks, devices, FIFOs

struct FileInfo {
  FileKind kind = FileKind::kOther;
  uint64_t size = 0;
  int64_t mtime_ns = 0;  // nanoseconds since 1970-01-01 00:00 UTC
};

// A lock on a file, released when this object is destroyed or when the process ends, even by a crash.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// An open directory that only its owner can access, so that no other user can put files into it. Each `name` is an
// entry of this directory, which the object keeps open: names are resolved in it even if its path was moved or
// replaced, and symlinks are not followed. Thread-safe. Every call may fail with kIo; other errors are listed at the
// call.
class Directory {
 public:
  virtual ~Directory() = default;

  // Opens a file of this directory for reading. Errors: kNotFound; kNotRegularFile; kUnsafePath for a symlink.
  virtual Result<std::unique_ptr<File>> open_to_read(const std::string& name) = 0;
  // Creates an empty file, readable only by its owner. Error: kDuplicate if the name exists.
  virtual Result<std::unique_ptr<File>> create_new(const std::string& name) = 0;
  // Opens a directory in this one; creates it if it does not exist. Errors: as FileOps::open_directory().
  virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& name) = 0;
  // Error: kNotFound.
  virtual Result<FileInfo> info(const std::string& name) = 0;
  virtual Status set_mtime(const std::string& name, int64_t mtime_ns) = 0;
  // Takes the exclusive lock of a file, which is created if it does not exist. Error: kBusy if it is locked already.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& name) = 0;
  // Moves a file of this directory to a name in `to`, which may be the same directory. Replaces an existing file
  // atomically. REQUIRES: `to` was opened by the same FileOps.
  virtual Status rename(const std::string& name, Directory& to, const std::string& new_name) = 0;
  // Removes a file. Ok if the file does not exist; kIo if the name is a directory.
  virtual Status remove(const std::string& name) = 0;
  // Makes renames, creations and removals durable.
  virtual Status sync() = 0;
  // All names, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list() = 0;
};

class FileOps {
 public:
  virtual ~FileOps() = default;

  // All calls may fail with kIo. open_to_read() may also fail with kNotRegularFile and kNotFound; it never blocks on a
  // FIFO.
  virtual Result<std::unique_ptr<File>> open_to_read(const std::string& path) = 0;
  // Creates an empty file, or truncates an existing one. Readable only by its owner (conversations are private).
  virtual Result<std::unique_ptr<File>> create(const std::string& path) = 0;
  // As create(), but kDuplicate if the name exists.
  virtual Result<std::unique_ptr<File>> create_new(const std::string& path) = 0;
  // Describes `path` itself: symlinks are not followed. Error: kNotFound.
  virtual Result<FileInfo> info(const std::string& path) = 0;
  // Takes the exclusive lock of a file, which is created if it does not exist. Error: kBusy if it is locked already.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  // Moves the file `from` to the path `to`, replacing an existing file atomically.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Removes a file. Ok if it does not exist.
  virtual Status remove(const std::string& path) = 0;
  // Creates the directory, accessible only by its owner, and its parents. Ok if it exists.
  virtual Status make_directory(const std::string& path) = 0;
  // Opens a directory that only its owner can access; creates it and its parents if it does not exist. Error:
  // kUnsafePath, with a remedy, for a symlink, for a directory of another user and for one that others may access.
  virtual Result<std::unique_ptr<Directory>> open_directory(const std::string& path) = 0;
  // Makes renames and creations in a directory durable.
  virtual Status sync_directory(const std::string& path) = 0;
  // All names in a directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

// The real file system.
FileOps& system_file_ops();

// A new file with a random name, created beside `path` to replace `path` later; only its owner can read it. The caller
// renames or removes the new file, which remains if the process crashes before.
struct TemporaryFile {
  std::string path;
  std::unique_ptr<File> file;
};
// Creates `path` with a random suffix and ".tmp". Errors: those of create_new(); kNotRegularFile if `path` is a device,
// a directory or anything else that a file must not replace.
Result<TemporaryFile> create_temporary(FileOps& files, const std::string& path);

// Writes `bytes` to a temporary file, syncs it, renames it to `path`, and syncs the directory. After a crash or an
// error at any point `path` holds either its old content or the new one. On error the temporary file is removed.
// Concurrent writers to one path all succeed; the last rename wins.
Status write_file_atomically(FileOps& files, const std::string& path, std::span<const std::byte> bytes);

// Returns the whole file. Errors: as open_to_read(); kLimitExceeded if it is larger than max_bytes.
Result<std::string> read_file(FileOps& files, const std::string& path, uint64_t max_bytes);

}  // namespace ibid
