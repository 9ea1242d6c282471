// System calls shared by the real FileOps and Directory: each resolves a name in an open directory, or in the working
// directory, and acts on that file. Internal to base/file_ops.h.
#pragma once

#include <memory>
#include <string>

#include "base/file_ops.h"
#include "base/result.h"

namespace ibid {

struct NameAt {
  int directory;  // file descriptor, or AT_FDCWD
  std::string name;
  std::string path;  // the file's path in error messages
};

enum class Links { kFollow, kRefuse };

// Errors: as FileOps::open_to_read(); kUnsafePath for a symlink if links is kRefuse.
Result<std::unique_ptr<File>> open_regular(const NameAt& at, Links links);
// Creates a file that only its owner can access, never through a symlink. how: O_TRUNC empties an existing file, O_EXCL
// fails with kDuplicate.
Result<std::unique_ptr<File>> create_file(const NameAt& at, int how);
// Describes the name itself: symlinks are not followed. Errors: kIo, kNotFound.
Result<FileInfo> file_info(const NameAt& at);
Result<std::unique_ptr<FileLock>> lock_file(const NameAt& at);
// Creates the directory, but not its parents, if it does not exist. Errors: as FileOps::open_directory().
Result<std::unique_ptr<Directory>> open_private_directory(const NameAt& at);

}  // namespace ibid
