// The directory of saved conversations. The conversation NAME is in the file "NAME.ibid"; its other branches are in
// "NAME.<number>.ibid" (NAME escaped by escape_session_name()). "NAME.ibid.lock" has the id of the process that has the
// conversation open.
//
// Files are replaced atomically, so reading needs no lock. Writing, renaming and removing take the lock of the name.
// NAME.ibid is renamed or removed last, so that an interrupted command can be repeated.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "runtime/session/session_file.h"

namespace ibid {

inline constexpr size_t kMaxNameCharacters = 64;

// Error: kInvalidArgument, which describes valid names.
Status check_session_name(std::string_view name);

// Escapes a name for file names: "my talk" becomes "my%20talk". REQUIRES: check_session_name() is ok.
std::string escape_session_name(std::string_view name);
// The inverse of escape_session_name(); nullopt if `escaped` is not the escaped form of a name.
std::optional<std::string> unescape_session_name(std::string_view escaped);

class SessionFiles {
 public:
  SessionFiles(FileOps& files, std::string directory) : files_(&files), directory_(std::move(directory)) {}

  FileOps& ops() const { return *files_; }

  // REQUIRES: check_session_name() is ok.
  std::string path(const std::string& name) const;
  std::string branch_path(const std::string& name, size_t branch) const;

  bool exists(const std::string& name) const;
  // Returns the names of all conversations, sorted; empty if the directory does not exist. Error: kIo.
  Result<std::vector<std::string>> names() const;
  // Returns the numbers of a conversation's other branches, ascending.
  Result<std::vector<size_t>> branches(const std::string& name) const;
  // Returns up to three similar names.
  std::vector<std::string> names_near(const std::string& name) const;

  // Locks a conversation; creates the directory if needed. Returns nullptr if locking is impossible, for example in a
  // read-only directory; saving will then fail with the reason. Error: kBusy, naming the process that holds the lock.
  Result<std::unique_ptr<FileLock>> lock(const std::string& name) const;

  // Rename or remove a conversation with its branches. Errors: kBusy; kNotFound; kDuplicate if `to` exists; kIo.
  Status rename(const std::string& from, const std::string& to) const;
  Status remove(const std::string& name) const;
  // Renames only the files of branches. REQUIRES: the locks of `from` and `to` are held.
  Status rename_branches(const std::string& from, const std::string& to) const;

  // Returns the error kNotFound, with similar names.
  Status no_such(const std::string& name) const;

 private:
  FileOps* files_;
  std::string directory_;
};

// sessions_directory() returns a directory below user_folder(kState), kv_cache_directory() one below
// user_folder(kCache). Errors: those of user_folder().
Result<std::string> sessions_directory();
Result<std::string> kv_cache_directory();

}  // namespace ibid
