// The database of a ConversationStore: its file, the check that it can be used, and its tables. Errors of all: those of
// Database.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/store/database.h"

namespace ibid::serve {

inline constexpr const char* kStoreFileName = "conversations.sqlite3";
inline constexpr const char* kDamagedEnding = ".damaged";

// Opens the database of a directory that is this user's alone. Makes the directory and the file (mode 0600) if need be.
// Processes that open it at the same time wait for each other. A file that is no sound database of this program is
// renamed to end in kDamagedEnding, in place of an earlier such file, named in a remark, and replaced by a new one.
// vfs: as in Database::open(). Further errors: kUnsupportedVersion for the file of a later version, of which no byte is
// changed; kUnsafePath, kNotRegularFile.
Result<std::unique_ptr<Database>> open_store_file(const std::string& directory, const char* vfs,
                                                  const std::function<void(const std::string&)>& remark);
// A second connection to that database, which only reads, and waits for no transaction of others.
Result<std::unique_ptr<Database>> open_store_reader(const std::string& directory, const char* vfs);
// The same tables in memory.
Result<std::unique_ptr<Database>> open_store_in_memory();

}  // namespace ibid::serve
