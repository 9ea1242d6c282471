#include "server/store/sqlite_rows.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <thread>

#include "base/file_ops.h"
#include "base/json_limits.h"

namespace ibid::serve {
namespace {

int64_t checksum_of(const KeptRows::Row& row) {
  const uint64_t of_items = XXH3_64bits(row.items.data(), row.items.size());
  return static_cast<int64_t>(XXH3_64bits_withSeed(row.body.data(), row.body.size(), of_items));
}

// --- opening

constexpr int64_t kVersion = 1;

// Settings of every connection. They keep SQLite from writing texts of clients to temporary files.
constexpr const char* kSettings =
    "pragma trusted_schema = off; pragma cell_size_check = on; pragma temp_store = memory";

// kept: one row per entry. place: hashes by which a history is found. share: sums over kept, which triggers maintain.
// Columns of kept: kind: 1 response, 2 conversation, 3 known history. space, owner, key: those of Holder. used: grows
// with each use, so the least recently used row has the least value. version: number of changes of a conversation's
// items, or numerics version of a history. Only for responses: previous: row id of the response that this one
// continues, or 0; talk: its conversation; n_output: number of its output items; is_gone: removed, but others continue
// it. checksum: of items and body.
constexpr const char* kTables = R"(
  create table kept(
    id integer primary key, kind integer not null, space text not null, name text not null, owner text not null,
    key text not null, used integer not null, bytes integer not null, created integer not null,
    version integer not null, previous integer not null, talk text not null, n_output integer not null,
    is_gone integer not null, checksum integer not null, items text not null, body text not null);
  create unique index kept_name on kept(kind, space, name);
  create index kept_used on kept(owner, key, used) where is_gone = 0;
  create index kept_previous on kept(previous) where previous <> 0;
  create table place(
    hash integer not null, n integer not null, history integer not null, primary key(hash, n, history)) without rowid;
  create index place_history on place(history);
  create table share(
    key text not null, owner text not null, kind integer not null, n integer not null, bytes integer not null,
    primary key(key, owner, kind)) without rowid;
  create trigger kept_added after insert on kept begin
    insert into share values(new.key, new.owner, new.kind, 1, new.bytes)
      on conflict(key, owner, kind) do update set n = n + 1, bytes = bytes + excluded.bytes;
  end;
  create trigger kept_changed after update of owner, key, bytes on kept begin
    update share set n = n - 1, bytes = bytes - old.bytes
      where key = old.key and owner = old.owner and kind = old.kind;
    insert into share values(new.key, new.owner, new.kind, 1, new.bytes)
      on conflict(key, owner, kind) do update set n = n + 1, bytes = bytes + excluded.bytes;
    delete from share where n = 0;
  end;
  create trigger kept_removed after delete on kept begin
    update share set n = n - 1, bytes = bytes - old.bytes
      where key = old.key and owner = old.owner and kind = old.kind;
    delete from share where n = 0;
    delete from place where history = old.id;
  end;
  create table store(used integer not null, hash_seed integer not null);
)";

// Uses all columns that the program needs: if a statement cannot be prepared, the file has other tables.
constexpr const char* kProbes[] = {
    "select id, kind, space, name, owner, key, used, bytes, created, version, previous, talk, n_output, is_gone, "
    "checksum, items, body from kept limit 0",
    "select hash, n, history from place limit 0", "select key, owner, kind, n, bytes from share limit 0",
    "select used + hash_seed from store limit 0"};

Status make_tables(Database& db) {
  std::random_device random;
  const auto seed = static_cast<int64_t>((uint64_t{random()} << 32) | random());
  return db.transact([&]() -> Status {
    TRY_ASSIGN(const int64_t version, db.number(0, "pragma user_version"));
    if (version != 0) return {};  // another process has created the tables meanwhile
    TRY(db.execute(kTables));
    TRY(db.run("insert into store values(0, ?)", seed));
    static_assert(kVersion == 1);
    return db.execute("pragma user_version = 1");
  });
}

Status check_tables(Database& db, const std::string& path) {
  {
    TRY_ASSIGN(Database::Rows rows, db.ask("pragma quick_check(1)"));
    TRY_ASSIGN(const bool is_there, rows.next());
    std::string found = is_there ? rows.text(0) : "nothing";
    std::ranges::replace(found, '\n', ' ');
    // If a page cannot be read from disk, SQLite's check has no error of its own for that, but reports it in these
    // words.
    const bool is_read =
        found.find("failed to get page") == found.npos && found.find("unable to get the page") == found.npos;
    if (found != "ok") return {is_read ? ErrorCode::kCorrupt : ErrorCode::kIo, path + ": " + found};
  }
  for (const char* probe : kProbes) TRY(db.run(probe));
  TRY_ASSIGN(const int64_t n_rows, db.number(0, "select count(*) from store"));
  return n_rows == 1 ? Status() : Status(ErrorCode::kCorrupt, path + ": the table store must have one row");
}

// Opens an existing or new file. Nothing is written before its version is checked.
Result<std::unique_ptr<Database>> open_path(const std::string& path, const char* vfs) {
  TRY_ASSIGN(std::unique_ptr<Database> db, Database::open(path, vfs));
  TRY(db->set_merges_at_close(false));
  TRY(db->execute(kSettings));
  TRY_ASSIGN(const int64_t version, db->number(0, "pragma user_version"));
  if (version > kVersion) {
    return Status(ErrorCode::kUnsupportedVersion, path + ": version " + std::to_string(version) +
                                                      " of the store, this program reads up to version " +
                                                      std::to_string(kVersion));
  }
  TRY_ASSIGN(const int64_t n_tables, db->number(0, "select count(*) from sqlite_schema"));
  if (version == 0 && n_tables > 0) return Status(ErrorCode::kCorrupt, path + ": not a database of ibid");
  TRY(db->set_merges_at_close(true));
  // The log is merged into the file when it reaches 4 MiB, and truncated to 16 MiB.
  TRY(
      db->execute("pragma journal_mode = wal; pragma synchronous = normal; pragma secure_delete = on; "
                  "pragma journal_size_limit = 16777216"));
  if (version == 0) TRY(make_tables(*db));
  TRY(check_tables(*db, path));
  return db;
}

// Renames the file and its log. The log is first, so that it is never beside a different database.
Status set_aside(FileOps& files, const std::string& path) {
  for (const char* ending : {"-wal", ""}) {
    if (files.info(path + ending).status().code() == ErrorCode::kNotFound) continue;
    TRY(files.rename(path + ending, path + kDamagedEnding + ending));
  }
  return files.remove(path + "-shm");
}

// Locks the opening of the store across processes. The system releases the lock when the process ends.
Result<std::unique_ptr<FileLock>> lock_opening(FileOps& files, const std::string& path) {
  constexpr std::chrono::milliseconds kStep{10};
  const auto until = std::chrono::steady_clock::now() + Database::kBusyTimeout;
  for (;;) {
    Result<std::unique_ptr<FileLock>> lock = files.lock(path);
    if (lock.ok() || lock.status().code() != ErrorCode::kBusy || std::chrono::steady_clock::now() > until) return lock;
    std::this_thread::sleep_for(kStep);
  }
}

// Returns a row as the last element, after the rows of the responses that it continues. Error: kNotFound.
Result<std::vector<KeptRows::Row>> find_chain(Database& db, const KeptRows::Key& key) {
  // The length of the chain is limited, because a forged database may contain a cycle.
  TRY_ASSIGN(Database::Rows rows,
             db.ask("with recursive chain(at, depth) as ("
                    "select id, 0 from kept where kind = ?1 and space = ?2 and name = ?3 and is_gone = 0 union all "
                    "select previous, depth + 1 from chain join kept on id = at "
                    "where previous <> 0 and depth < 100000) "
                    "select id, name, created, version, previous, talk, n_output, items, body, checksum "
                    "from chain join kept on id = at where space = ?2 order by depth desc",
                    static_cast<int64_t>(key.kind), key.space, key.name));
  std::vector<KeptRows::Row> chain;
  int64_t before = 0;
  for (;;) {
    TRY_ASSIGN(const bool is_there, rows.next());
    if (!is_there) break;
    KeptRows::Row row{.kind = key.kind,
                      .name = rows.text(1),
                      .created = rows.number(2),
                      .version = rows.number(3),
                      .previous = chain.empty() ? std::string() : chain.back().name,
                      .conversation = rows.text(5),
                      .n_output = rows.number(6),
                      .items = rows.text(7),
                      .body = rows.text(8)};
    if (rows.number(9) != checksum_of(row)) return db.corrupt(row.name + " does not match its checksum");
    if (rows.number(4) != before) return db.corrupt(row.name + " continues a response that does not exist");
    before = rows.number(0);
    chain.push_back(std::move(row));
  }
  if (chain.empty()) return Status(ErrorCode::kNotFound, "nothing is stored under this id");
  return chain;
}

class SqliteChange final : public KeptRows::Change {
 public:
  SqliteChange(Database& db, uint64_t budget_bytes) : db_(db), budget_bytes_(budget_bytes) {}

  Result<KeptRows::Row> row(const KeptRows::Key& key) override {
    TRY_ASSIGN(std::vector<KeptRows::Row> chain, find_chain(db_, key));
    return std::move(chain.back());
  }
  Result<bool> can_continue(const std::string& space, const std::string& name) override {
    TRY_ASSIGN(const int64_t id, id_of_response(space, name));
    return id != 0;
  }
  Status put(const Holder& holder, const KeptRows::Row& row) override;
  Status remove(const KeptRows::Key& key) override {
    TRY_ASSIGN(const int64_t id, db_.number(-1,
                                            "select id from kept where kind = ? and space = ? and name = ? "
                                            "and is_gone = 0",
                                            static_cast<int64_t>(key.kind), key.space, key.name));
    return id < 0 ? Status(ErrorCode::kNotFound, "nothing is stored under this id") : remove(id);
  }
  Status touch(const KeptRows::Key& key) override {
    TRY_ASSIGN(const int64_t used, next_use());
    return db_.run("update kept set used = ? where kind = ? and space = ? and name = ?", used,
                   static_cast<int64_t>(key.kind), key.space, key.name);
  }
  Result<bool> forget(const std::string& space) override {
    TRY(db_.run("delete from kept where space = ?", space));
    return false;
  }
  Status make_room() override;

 private:
  Result<int64_t> next_use() { return db_.number(0, "update store set used = used + 1 returning used"); }
  // A removed response keeps its row while others continue it.
  Result<int64_t> id_of_response(const std::string& space, const std::string& name) {
    return db_.number(0, "select id from kept where kind = 1 and space = ? and name = ?", space, name);
  }
  Status put_places(int64_t id, const KeptRows::Row& row);
  Status remove(int64_t id);

  Database& db_;
  const uint64_t budget_bytes_;
  int64_t put_last_ = -1;  // row id of the entry that was put last
};

Status SqliteChange::put(const Holder& holder, const KeptRows::Row& row) {
  TRY_ASSIGN(const int64_t used, next_use());
  int64_t previous = 0;
  if (!row.previous.empty()) {
    TRY_ASSIGN(previous, id_of_response(holder.space, row.previous));
  }
  TRY_ASSIGN(put_last_,
             db_.number(0,
                        "insert into kept(kind, space, name, owner, key, used, bytes, created, version, previous, "
                        "talk, n_output, is_gone, checksum, items, body) "
                        "values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?) "
                        "on conflict(kind, space, name) do update set owner = excluded.owner, key = excluded.key, "
                        "used = excluded.used, bytes = excluded.bytes, created = excluded.created, "
                        "version = excluded.version, previous = excluded.previous, talk = excluded.talk, "
                        "n_output = excluded.n_output, is_gone = 0, checksum = excluded.checksum, "
                        "items = excluded.items, body = excluded.body returning id",
                        static_cast<int64_t>(row.kind), holder.space, row.name, holder.owner, holder.key, used,
                        row.n_bytes(), row.created, row.version, previous, row.conversation, row.n_output,
                        checksum_of(row), row.items, row.body));
  if (row.kind == Kept::kHistory) TRY(put_places(put_last_, row));
  return make_room();
}

Status SqliteChange::put_places(int64_t id, const KeptRows::Row& row) {
  TRY(db_.run("delete from place where history = ?", id));
  for (size_t n = std::max<size_t>(row.first, 1); row.first > 0 && n <= row.hashes.size(); ++n) {
    TRY(db_.run("insert into place values(?, ?, ?)", static_cast<int64_t>(row.hashes[n - 1]), static_cast<int64_t>(n),
                id));
  }
  return {};
}

Status SqliteChange::remove(int64_t id) {
  TRY(db_.run("update kept set is_gone = 1 where id = ?", id));
  // Deletes the row, unless another response continues it. The deleted response may have been the only one to continue
  // the response before it; if that one is marked as removed, the loop deletes it as well, and so on.
  while (id != 0) {
    TRY_ASSIGN(id, db_.number(0,
                              "delete from kept where id = ? and is_gone = 1 and not exists(select 1 from kept later "
                              "where later.previous = kept.id and later.previous <> 0) returning previous",
                              id));
  }
  return {};
}

Status SqliteChange::make_room() {
  constexpr const char* kOldest[] = {
      "select id from kept where is_gone = 0 and id <> ? and (owner, key) = (select owner, key from share where "
      "key = (select key from share group by key order by sum(bytes) desc, key limit 1) "
      "group by owner order by sum(bytes) desc, owner limit 1) order by used limit 1",
      "select id from kept where is_gone = 0 and id <> ? and "
      "key = (select key from share group by key order by sum(bytes) desc, key limit 1) order by used limit 1"};
  for (;;) {
    TRY_ASSIGN(const int64_t n_bytes, db_.number(0, "select sum(bytes) from share"));
    if (static_cast<uint64_t>(n_bytes) <= budget_bytes_) return {};
    int64_t oldest = -1;
    for (const char* of_owner_then_key : kOldest) {
      if (oldest >= 0) break;
      TRY_ASSIGN(oldest, db_.number(-1, of_owner_then_key, put_last_));
    }
    if (oldest < 0) return store_is_full(budget_bytes_);
    TRY(remove(oldest));
  }
}

}  // namespace

Result<std::unique_ptr<SqliteRows>> SqliteRows::open(Options options) {
  std::unique_ptr<SqliteRows> rows(new SqliteRows(std::move(options)));
  TRY_ASSIGN(rows->writer_.db, rows->open_writer());
  TRY_ASSIGN(const int64_t seed, rows->writer_.db->number(0, "select hash_seed from store"));
  rows->hash_seed_ = static_cast<uint64_t>(seed);
  TRY(rows->change([](Change& change) { return change.make_room(); }));
  if (rows->is_lasting()) {
    TRY_ASSIGN(rows->reader_.db, rows->open_reader());
  }
  return rows;
}

Result<std::unique_ptr<Database>> SqliteRows::open_writer() const {
  if (!is_lasting()) {
    TRY_ASSIGN(std::unique_ptr<Database> db, Database::open(":memory:"));
    TRY(make_tables(*db));
    return db;
  }
  FileOps& files = system_file_ops();
  TRY(files.open_directory(options_.directory).status());
  const std::string path = options_.directory + "/" + kStoreFileName;
  TRY_ASSIGN(const std::unique_ptr<FileLock> lock, lock_opening(files, path + ".lock"));
  // SQLite gives -wal and -shm the mode of the database file, so the file is created with mode 0600 before.
  if (const Status made = files.create_new(path).status(); !made.ok() && made.code() != ErrorCode::kDuplicate) {
    return made;
  }
  TRY_ASSIGN(const FileInfo info, files.info(path));
  if (info.kind != FileKind::kRegular) return Status(ErrorCode::kNotRegularFile, path + ": not a regular file");
  std::error_code error;
  using std::filesystem::perms;
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write, error);
  if (error) return errno_status(error.value(), path, "change its mode");
  Result<std::unique_ptr<Database>> opened = open_path(path, options_.vfs);
  if (opened.status().code() == ErrorCode::kCorrupt) {
    TRY(set_aside(files, path));
    if (options_.remark) {
      options_.remark("the conversation store is damaged and was renamed to *" + std::string(kDamagedEnding) + ": " +
                      opened.status().message());
    }
    TRY(files.create_new(path).status());
    opened = open_path(path, options_.vfs);
  }
  return opened;
}

// Opens a second connection. It only reads and waits for no transaction.
Result<std::unique_ptr<Database>> SqliteRows::open_reader() const {
  TRY_ASSIGN(std::unique_ptr<Database> db, Database::open(options_.directory + "/" + kStoreFileName, options_.vfs));
  TRY(db->execute(kSettings));
  TRY(db->execute("pragma query_only = on"));
  return db;
}

Status SqliteRows::change(const std::function<Status(Change&)>& change) {
  const std::lock_guard lock(writer_.mutex);
  return writer_.db->transact([&]() -> Status {
    SqliteChange one(*writer_.db, options_.budget_bytes);
    return change(one);
  });
}

Result<std::vector<KeptRows::Row>> SqliteRows::find(const Key& key) {
  const auto [lock, db] = reading();
  return find_chain(db, key);
}

Status SqliteRows::visit_responses(const std::string& space, const std::string& item_id,
                                   const std::function<Result<bool>(const Row&)>& visit) {
  Connection own;
  if (is_lasting()) {
    TRY_ASSIGN(own.db, open_reader());
  }
  Connection& searched = is_lasting() ? own : writer_;
  const std::lock_guard lock(searched.mutex);
  // The text searched for is the id as serialised in an item. Other texts may contain it, too.
  TRY_ASSIGN(Database::Rows names,
             searched.db->ask("select name from kept where kind = 1 and space = ? and is_gone = 0 and "
                              "instr(items, ?) > 0",
                              space, "\"id\":" + json_to_string(Json(item_id))));
  for (;;) {
    TRY_ASSIGN(const bool is_there, names.next());
    if (!is_there) return {};
    TRY_ASSIGN(const std::vector<Row> chain, find_chain(*searched.db, {Kept::kResponse, space, names.text(0)}));
    TRY_ASSIGN(const bool is_done, visit(chain.back()));
    if (is_done) return {};
  }
}

Result<std::optional<FoundHistory>> SqliteRows::find_history(const std::string& space, std::span<const uint64_t> hashes,
                                                             size_t n_known) {
  const auto [lock, db] = reading();
  for (size_t n = hashes.size(); n > n_known; --n) {
    TRY_ASSIGN(Database::Rows rows, db.ask("select name from place join kept on kept.id = history where hash = ? and "
                                           "n = ? and space = ? limit 1",
                                           static_cast<int64_t>(hashes[n - 1]), static_cast<int64_t>(n), space));
    TRY_ASSIGN(const bool is_there, rows.next());
    if (is_there) return std::optional(FoundHistory{rows.text(0), n});
  }
  return std::optional<FoundHistory>();
}

Result<std::vector<std::pair<int64_t, int64_t>>> SqliteRows::history_versions() {
  const auto [lock, db] = reading();
  TRY_ASSIGN(Database::Rows rows,
             db.ask("select version, count(*) from kept where kind = 3 group by version order by version"));
  std::vector<std::pair<int64_t, int64_t>> versions;
  for (;;) {
    TRY_ASSIGN(const bool is_there, rows.next());
    if (!is_there) return versions;
    versions.emplace_back(rows.number(0), rows.number(1));
  }
}

Result<KeptRows::Sizes> SqliteRows::sizes() {
  const auto [lock, db] = reading();
  TRY_ASSIGN(Database::Rows rows, db.ask("select sum(bytes), sum(n * (kind = 3)), sum(bytes * (kind = 3)) from share"));
  TRY(rows.next().status());
  return Sizes{.n_bytes = static_cast<uint64_t>(rows.number(0)),
               .n_histories = static_cast<uint64_t>(rows.number(1)),
               .history_bytes = static_cast<uint64_t>(rows.number(2))};
}

KeptRows::Sizes SqliteRows::known_sizes() {
  const Result<Sizes> known = sizes();
  return known.ok() ? *known : Sizes();
}

}  // namespace ibid::serve
