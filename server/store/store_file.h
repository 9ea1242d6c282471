// The database of a ConversationStore: where it is, whether it can be used, and its tables.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/store/database.h"

namespace ibid::serve {

inline constexpr const char* kStoreFileName = "conversations.sqlite3";
inline constexpr const char* kDamagedEnding = ".damaged";

// Opens the database of a directory, which is this user's alone and is made where it is not there; so is the file,
// with mode 0600. Processes that open it at the same time wait for each other. A file that is no sound database of
// this program is renamed to end in kDamagedEnding, in place of an earlier such file, said to `remark`, and replaced by
// a new one. vfs: as Database::open() has it.
// Errors: those of Database; kUnsupportedVersion for the file of a later version, of which no byte is changed;
// kUnsafePath, kNotRegularFile.
Result<std::unique_ptr<Database>> open_store_file(const std::string& directory, const char* vfs,
                                                  const std::function<void(const std::string&)>& remark);
// The same tables in memory. Errors: those of Database.
Result<std::unique_ptr<Database>> open_store_in_memory();

}  // namespace ibid::serve
