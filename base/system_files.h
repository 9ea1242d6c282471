// What the real FileOps and Directory have in common: they look up a name in an open directory, or in the working
// directory, and act on that file. Not for users of base/file_ops.h.
#pragma once

#include <memory>
#include <string>

#include "base/file_ops.h"
#include "base/result.h"

namespace ibid {

struct NameAt {
  int directory;  // a descriptor, or AT_FDCWD
  std::string name;
  std::string path;  // for messages
};

enum class Links { kFollow, kRefuse };

// Errors: as FileOps::open_to_read(); kUnsafePath for a symlink that is refused.
Result<std::unique_ptr<File>> open_regular(const NameAt& at, Links links);
// A file for its owner alone, never through a symlink. how: O_TRUNC empties one that is there, O_EXCL refuses it with
// kDuplicate.
Result<std::unique_ptr<File>> create_file(const NameAt& at, int how);
// Of the name itself, be it a symlink. Error: also kNotFound.
Result<FileInfo> file_info(const NameAt& at);
Result<std::unique_ptr<FileLock>> lock_file(const NameAt& at);
// Makes the directory, not its parents, when it is not there. Errors: as FileOps::open_directory().
Result<std::unique_ptr<Directory>> open_private_directory(const NameAt& at);

}  // namespace ibid
