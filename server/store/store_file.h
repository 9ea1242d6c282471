// Opens the database of a ConversationStore: its file, the check that it is usable, and its tables. Errors of all
// functions: those of Database.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/store/database.h"

namespace ibid::serve {

inline constexpr const char* kStoreFileName = "conversations.sqlite3";
inline constexpr const char* kDamagedEnding = ".damaged";

// Opens the database of a directory that only this user can access. Creates the directory and the file (mode 0600) if
// missing. Processes that open it at the same time wait for each other. A file that is not a valid database of this
// program is logged by `remark`, renamed to end in kDamagedEnding (replacing an earlier such file), and replaced by a
// new one. vfs: as in Database::open(). Further errors: kUnsupportedVersion: a later version wrote the file, which is
// not changed; kUnsafePath, kNotRegularFile.
Result<std::unique_ptr<Database>> open_store_file(const std::string& directory, const char* vfs,
                                                  const std::function<void(const std::string&)>& remark);
// Opens a second connection to the database of open_store_file(). It only reads and waits for no transaction.
Result<std::unique_ptr<Database>> open_store_reader(const std::string& directory, const char* vfs);
// Opens a database with the same tables in memory.
Result<std::unique_ptr<Database>> open_store_in_memory();

}  // namespace ibid::serve
