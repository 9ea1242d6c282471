// The folder of kept conversations. A conversation NAME is "NAME.ibid", and each of its other branches is
// "NAME.<number>.ibid" beside it (names as escape_session_name() writes them); "NAME.ibid.lock" names the process
// that has it open.
//
// Files are replaced whole, so that reading needs no lock. Writing, renaming and removing take the name's lock.
// NAME.ibid is the conversation itself. It is renamed or removed last, so that a command that was interrupted can
// be given again.
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

// Error: kInvalidArgument saying what a name is.
Status check_session_name(std::string_view name);

// "my talk" -> "my%20talk". REQUIRES: check_session_name().
std::string escape_session_name(std::string_view name);
// The name that escape_session_name() gave this; nullopt when it gives this for none.
std::optional<std::string> unescape_session_name(std::string_view escaped);

class SessionFiles {
 public:
  SessionFiles(FileOps& files, std::string directory) : files_(&files), directory_(std::move(directory)) {}

  FileOps& ops() const { return *files_; }

  // REQUIRES: check_session_name().
  std::string path(const std::string& name) const;
  std::string branch_path(const std::string& name, size_t branch) const;

  bool exists(const std::string& name) const;
  // The names of all conversations, sorted. Error: kIo; a folder that is not there holds none.
  Result<std::vector<std::string>> names() const;
  // The numbers of a conversation's other branches, rising.
  Result<std::vector<size_t>> branches(const std::string& name) const;
  // Up to three names that `name` may be a slip of.
  std::vector<std::string> names_near(const std::string& name) const;

  // Makes the folder where it is not there. Error: kBusy, naming the process that has the conversation open.
  // nullptr: nothing can be locked there, because the folder is read-only, say. Saving will fail then, and say why.
  Result<std::unique_ptr<FileLock>> lock(const std::string& name) const;

  // With its branches. Errors: kBusy; kNotFound; kDuplicate when `to` is there already; kIo.
  Status rename(const std::string& from, const std::string& to) const;
  Status remove(const std::string& name) const;
  // Renames the files of the branches alone. REQUIRES: both locks are held.
  Status rename_branches(const std::string& from, const std::string& to) const;

  // kNotFound with the names that are near.
  Status no_such(const std::string& name) const;

 private:
  FileOps* files_;
  std::string directory_;
};

// Below user_folder(kState) and user_folder(kCache), whose errors they have.
Result<std::string> sessions_directory();
Result<std::string> kv_cache_directory();

}  // namespace ibid
