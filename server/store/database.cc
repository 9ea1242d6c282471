#include "server/store/database.h"

#include <sqlite3.h>

namespace ibid::serve {

Result<std::unique_ptr<Database>> Database::open(const std::string& path, const char* vfs) {
  std::unique_ptr<Database> db(new Database(path));
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  TRY(db->check(sqlite3_open_v2(path.c_str(), &db->connection_, kFlags, vfs)));
  TRY(db->check(sqlite3_busy_timeout(db->connection_, static_cast<int>(kBusyTimeout.count()))));
  return db;
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  // If the write-ahead log cannot be merged into the database, it stays, and the next connection finds it.
  sqlite3_close(connection_);
}

Status Database::set_merges_at_close(bool merges) {
  return check(sqlite3_db_config(connection_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, merges ? 0 : 1, nullptr));
}

Status Database::execute(const char* statements) {
  return check(sqlite3_exec(connection_, statements, nullptr, nullptr, nullptr));
}

Status Database::transact(const std::function<Status()>& change) {
  struct Rollback {
    Database* db;
    // After some errors SQLite has already rolled back; then this statement has no effect.
    ~Rollback() {
      if (db != nullptr) (void)db->run("rollback");
    }
  };
  TRY(run("begin immediate"));
  Rollback rollback{this};
  TRY(change());
  TRY(run("commit"));
  rollback.db = nullptr;
  return {};
}

Result<sqlite3_stmt*> Database::prepare(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  if (statement == nullptr) {
    TRY(check(sqlite3_prepare_v3(connection_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr)));
  }
  return statement;
}

Status Database::bind(sqlite3_stmt* statement, int at, std::string_view text) {
  // SQLite would bind a null pointer as NULL and not as an empty text.
  const char* data = text.data() == nullptr ? "" : text.data();
  return check(sqlite3_bind_text64(statement, at, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

Status Database::bind(sqlite3_stmt* statement, int at, int64_t number) {
  return check(sqlite3_bind_int64(statement, at, number));
}

Status Database::finish(Rows& rows) {
  for (;;) {
    TRY_ASSIGN(const bool is_there, rows.next());
    if (!is_there) return {};
  }
}

Status Database::check(int code) const {
  if (code == SQLITE_OK) return {};
  const char* words = connection_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(connection_);
  const std::string message = path_ + ": " + words + " (SQLite " + std::to_string(code) + ")";
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    // The statement does not fit the tables, so the file has the tables of another program.
    case SQLITE_ERROR: return {ErrorCode::kCorrupt, message};
    case SQLITE_NOMEM: return {ErrorCode::kOutOfMemory, message};
    case SQLITE_TOOBIG: return {ErrorCode::kLimitExceeded, message};
    default: return {ErrorCode::kIo, message};
  }
}

Database::Rows::~Rows() {
  if (statement_ == nullptr) return;
  // The result repeats the error of the last step, which was already reported, so it is ignored.
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Result<bool> Database::Rows::next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return db_->check(code);
}

int64_t Database::Rows::number(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Database::Rows::text(int column) const {
  const unsigned char* data = sqlite3_column_text(statement_, column);
  // If SQLite has no memory for the text, the text is null here and becomes empty; its checksum then fails.
  return data == nullptr ? std::string()
                         : std::string(reinterpret_cast<const char*>(data),
                                       static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

}  // namespace ibid::serve
