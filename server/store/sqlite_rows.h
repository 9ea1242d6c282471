// SqliteRows: the entries of a ConversationStore as rows of an SQLite database. Each has a checksum and a position in
// LRU order.
//
// With a directory, the database is the file kStoreFileName in it (mode 0600, as the -wal and -shm files that SQLite
// puts beside it). It survives the process, and several processes may use it at once: each change is one short
// transaction, which waits for those of others for at most Database::kBusyTimeout. Without a directory, the database is
// in memory and ends with the process. A change is atomic, whatever fails; a power loss may undo the most recent
// changes.
//
// Thread-safe. A change holds the lock of the writing connection while it waits for the disk. Reads use a second
// connection and wait for no change. A read is of a few rows and takes less than a millisecond, except while the log of
// a killed process is repaired. visit_responses() searches all texts of a namespace, so it has a connection of its own.
// Errors of all calls: those of Database, and kCorrupt for a row whose checksum does not match.
#pragma once

#include <memory>
#include <mutex>

#include "server/store/database.h"
#include "server/store/kept_rows.h"

namespace ibid::serve {

inline constexpr const char* kStoreFileName = "conversations.sqlite3";
inline constexpr const char* kDamagedEnding = ".damaged";

class SqliteRows final : public KeptRows {
 public:
  struct Options {
    std::string directory;  // empty: the database is in memory
    uint64_t budget_bytes = 0;
    std::function<void(const std::string&)> remark = {};  // logs a line
    const char* vfs = nullptr;                            // as in Database::open()
  };
  // Opens the database of a directory that only this user can access. Creates the directory and the file (mode 0600) if
  // missing. Processes that open it at the same time wait for each other. A file that is not a valid database of this
  // program is logged, renamed to end in kDamagedEnding (replacing an earlier such file), and replaced by a new one.
  // Further errors: kUnsupportedVersion: a later version wrote the file, which is not changed; kUnsafePath,
  // kNotRegularFile.
  static Result<std::unique_ptr<SqliteRows>> open(Options options);

  Status change(const std::function<Status(Change&)>& change) override;
  Result<std::vector<Row>> find(const Key& key) override;
  Status visit_responses(const std::string& space, const std::string& item_id,
                         const std::function<Result<bool>(const Row&)>& visit) override;
  Result<std::optional<FoundHistory>> find_history(const std::string& space, std::span<const uint64_t> hashes,
                                                   size_t n_known) override;
  Result<std::vector<std::pair<int64_t, int64_t>>> history_versions() override;
  Result<Sizes> sizes() override;
  Sizes known_sizes() override;  // 0 if they cannot be read
  uint64_t hash_seed() const override { return hash_seed_; }
  bool is_lasting() const override { return !options_.directory.empty(); }

 private:
  struct Connection {
    std::mutex mutex;  // guards `db`
    std::unique_ptr<Database> db;
  };

  explicit SqliteRows(Options options) : options_(std::move(options)) {}
  Result<std::unique_ptr<Database>> open_writer() const;
  Result<std::unique_ptr<Database>> open_reader() const;
  // Locks the connection for reads. A database in memory has only one connection.
  std::pair<std::unique_lock<std::mutex>, Database&> reading() {
    Connection& reader = reader_.db != nullptr ? reader_ : writer_;
    return {std::unique_lock(reader.mutex), *reader.db};
  }

  const Options options_;
  uint64_t hash_seed_ = 0;
  Connection writer_, reader_;  // reader_.db is null if the database is in memory
};

}  // namespace ibid::serve
