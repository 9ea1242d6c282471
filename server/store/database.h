// Database: one SQLite connection and its prepared statements. Every result of SQLite is checked; an error has the
// file's name and SQLite's message.
//
// TRY_ASSIGN(Database::Rows rows, db.ask("select name from kept where id = ?", id));
// TRY_ASSIGN(const bool is_there, rows.next());
//
// Errors of all calls: kCorrupt: not a valid database with these tables; kOutOfMemory; kLimitExceeded: a value that is
// too large for SQLite; kIo: everything else, such as a disk error, a full disk, and a file that another process keeps
// locked for longer than kBusyTimeout. Not thread-safe. Rows must be destroyed before their database.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ibid::serve {

class Database {
 public:
  static constexpr std::chrono::milliseconds kBusyTimeout{5000};

  // `path`: a file, which is created if missing, or ":memory:". vfs: the name of SQLite's VFS; nullptr: the default.
  static Result<std::unique_ptr<Database>> open(const std::string& path, const char* vfs = nullptr);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Sets whether the last connection that closes moves the write-ahead log into the database. By default it does.
  Status set_merges_at_close(bool merges);

  // Runs statements without results.
  Status execute(const char* statements);

  // The rows that a statement returns. The statement can be used again after this object is destroyed.
  class Rows {
   public:
    Rows(Database& db, sqlite3_stmt* statement) : db_(&db), statement_(statement) {}
    Rows(Rows&& other) noexcept : db_(other.db_), statement_(std::exchange(other.statement_, nullptr)) {}
    ~Rows();
    Rows& operator=(Rows&&) = delete;

    // Advances to the next row. Returns false if there are no more rows.
    Result<bool> next();
    // Return a column of the current row. REQUIRES: next() returned true.
    int64_t number(int column) const;
    std::string text(int column) const;

   private:
    Database* db_;
    sqlite3_stmt* statement_;
  };

  // Prepares the statement, or reuses it, and binds a value to each of its parameters. REQUIRES: `sql` is a literal,
  // and no rows of the same statement exist.
  template <typename... Values>
  Result<Rows> ask(const char* sql, const Values&... values) {
    TRY_ASSIGN(sqlite3_stmt * statement, prepare(sql));
    Rows rows(*this, statement);
    int at = 0;
    Status status;
    ((status = status.ok() ? bind(statement, ++at, values) : status), ...);
    TRY(status);
    return rows;
  }
  // Runs the statement to completion.
  template <typename... Values>
  Status run(const char* sql, const Values&... values) {
    TRY_ASSIGN(Rows rows, ask(sql, values...));
    return finish(rows);
  }
  // Returns the number in the first row and column; `otherwise` if there is no row.
  template <typename... Values>
  Result<int64_t> number(int64_t otherwise, const char* sql, const Values&... values) {
    TRY_ASSIGN(Rows rows, ask(sql, values...));
    TRY_ASSIGN(const bool is_there, rows.next());
    return is_there ? rows.number(0) : otherwise;
  }

  // Runs `change` as one transaction, which is rolled back if `change` returns an error or throws. Waits for
  // transactions of other processes only before calling `change`. On error, nothing was written.
  Status transact(const std::function<Status()>& change);

  // Returns the error kCorrupt with the path of the database and `what`.
  Status corrupt(const std::string& what) const { return {ErrorCode::kCorrupt, path_ + ": " + what}; }

 private:
  explicit Database(std::string path) : path_(std::move(path)) {}
  Result<sqlite3_stmt*> prepare(const char* sql);
  Status bind(sqlite3_stmt* statement, int at, std::string_view text);
  Status bind(sqlite3_stmt* statement, int at, int64_t number);
  Status finish(Rows& rows);
  Status check(int code) const;  // converts a result code of SQLite to a Status

  const std::string path_;
  sqlite3* connection_ = nullptr;
  std::map<const char*, sqlite3_stmt*> statements_;
};

}  // namespace ibid::serve
