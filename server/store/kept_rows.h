// KeptRows: the entries of a ConversationStore as rows of its database, which it opens. Each has a checksum and a
// position in LRU order, and all share one budget.
//
// Not thread-safe. REQUIRES: put(), touch(), remove() and make_room() are called within a transaction. Errors of all
// calls: those of Database, and kCorrupt for a row whose checksum does not match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/store/database.h"

namespace ibid::serve {

// The owner of an entry: hexadecimal digests of its namespace, and of the namespace's owner and API key.
struct Holder {
  std::string space, owner, key;
};
Holder holder_of(std::string_view cache_namespace);

inline constexpr const char* kStoreFileName = "conversations.sqlite3";
inline constexpr const char* kDamagedEnding = ".damaged";

enum class Kept : int64_t { kResponse = 1, kConversation = 2, kHistory = 3 };

class KeptRows {
 public:
  struct Row {
    Kept kind = Kept::kResponse;
    std::string name;
    int64_t id = 0;  // set in rows that find() returns
    int64_t created = 0;
    int64_t version = 0;            // conversation: number of changes of its items; history: its numerics version
    int64_t previous = 0;           // response: row id of the response that it continues; 0: it continues none
    std::string conversation = {};  // response: id of its conversation (column talk)
    int64_t n_output = 0;           // response: number of output items, which are the last of its items
    std::string items = {}, body = {};
    size_t n_places = 0;  // history: number of its prefixes by which it is found
  };

  // Opens the database of a directory that only this user can access. Creates the directory and the file (mode 0600) if
  // missing. Processes that open it at the same time wait for each other. A file that is not a valid database of this
  // program is logged by `remark`, renamed to end in kDamagedEnding (replacing an earlier such file), and replaced by a
  // new one. vfs: as in Database::open(). Further errors: kUnsupportedVersion: a later version wrote the file, which is
  // not changed; kUnsafePath, kNotRegularFile.
  static Result<std::unique_ptr<KeptRows>> open(const std::string& directory, const char* vfs, uint64_t budget_bytes,
                                                const std::function<void(const std::string&)>& remark);
  // Opens a second connection to the database of open(). It only reads and waits for no transaction.
  static Result<std::unique_ptr<KeptRows>> open_reader(const std::string& directory, const char* vfs);
  static Result<std::unique_ptr<KeptRows>> open_in_memory(uint64_t budget_bytes);
  // REQUIRES: the database has the tables. budget_bytes: limit for the sizes of all rows, as put() counts them.
  KeptRows(std::unique_ptr<Database> db, uint64_t budget_bytes) : db_(std::move(db)), budget_bytes_(budget_bytes) {}

  Database& db() { return *db_; }

  // Inserts a row, or replaces the holder's row of the same kind and name, and evicts others until the budget holds.
  // Returns the row's id. Error: kLimitExceeded, as make_room().
  Result<int64_t> put(const Holder& holder, const Row& row);
  // Returns a row as the last element, after the rows of the responses that it continues. Error: kNotFound.
  Result<std::vector<Row>> find(Kept kind, const std::string& space, const std::string& name);
  // Marks a row as the most recently used one.
  Status touch(int64_t id);
  // Removes a row. A removed response is not found any more, but its row stays while another response continues it.
  Status remove(int64_t id);
  // Evicts rows until the budget holds, but never for_row. Chooses the key with the most bytes, the owner of that key
  // with the most bytes, and the least recently used row of that owner; if the owner has only for_row, another owner of
  // the key. Error: kLimitExceeded if the key has only for_row.
  Status make_room(int64_t for_row);

 private:
  Result<int64_t> next_use() { return db_->number(0, "update store set used = used + 1 returning used"); }

  const std::unique_ptr<Database> db_;
  const uint64_t budget_bytes_;
};

}  // namespace ibid::serve
