#include "server/store/kept_rows.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <thread>

#include "base/file_ops.h"
#include "cache/tier/kv_record.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {
namespace {

// Estimated bytes of a row of the table `kept` without its texts, and of a row of the table `place`.
constexpr size_t kRowBytes = 512, kPlaceBytes = 48;

int64_t bytes_of(const KeptRows::Row& row) {
  return static_cast<int64_t>(kRowBytes + row.name.size() + row.conversation.size() + row.items.size() +
                              row.body.size() + row.n_places * kPlaceBytes);
}

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

}  // namespace

Holder holder_of(std::string_view cache_namespace) {
  const auto digits = [](std::string_view name) { return to_hex(digest_of_namespace(name)); };
  return {digits(cache_namespace), digits(owner_of_namespace(cache_namespace)),
          digits(key_of_namespace(cache_namespace))};
}

Result<std::unique_ptr<KeptRows>> KeptRows::open(const std::string& directory, const char* vfs, uint64_t budget_bytes,
                                                 const std::function<void(const std::string&)>& remark) {
  FileOps& files = system_file_ops();
  TRY(files.open_directory(directory).status());
  const std::string path = directory + "/" + kStoreFileName;
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
  Result<std::unique_ptr<Database>> opened = open_path(path, vfs);
  if (opened.status().code() == ErrorCode::kCorrupt) {
    TRY(set_aside(files, path));
    if (remark) {
      remark("the conversation store is damaged and was renamed to *" + std::string(kDamagedEnding) + ": " +
             opened.status().message());
    }
    TRY(files.create_new(path).status());
    opened = open_path(path, vfs);
  }
  TRY(opened.status());
  return std::make_unique<KeptRows>(*std::move(opened), budget_bytes);
}

Result<std::unique_ptr<KeptRows>> KeptRows::open_reader(const std::string& directory, const char* vfs) {
  TRY_ASSIGN(std::unique_ptr<Database> db, Database::open(directory + "/" + kStoreFileName, vfs));
  TRY(db->execute(kSettings));
  TRY(db->execute("pragma query_only = on"));
  return std::make_unique<KeptRows>(std::move(db), 0);
}

Result<std::unique_ptr<KeptRows>> KeptRows::open_in_memory(uint64_t budget_bytes) {
  TRY_ASSIGN(std::unique_ptr<Database> db, Database::open(":memory:"));
  TRY(make_tables(*db));
  return std::make_unique<KeptRows>(std::move(db), budget_bytes);
}

Result<int64_t> KeptRows::put(const Holder& holder, const Row& row) {
  TRY_ASSIGN(const int64_t used, next_use());
  TRY_ASSIGN(const int64_t id,
             db_->number(0,
                         "insert into kept(kind, space, name, owner, key, used, bytes, created, version, previous, "
                         "talk, n_output, is_gone, checksum, items, body) "
                         "values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?) "
                         "on conflict(kind, space, name) do update set owner = excluded.owner, key = excluded.key, "
                         "used = excluded.used, bytes = excluded.bytes, created = excluded.created, "
                         "version = excluded.version, previous = excluded.previous, talk = excluded.talk, "
                         "n_output = excluded.n_output, is_gone = 0, checksum = excluded.checksum, "
                         "items = excluded.items, body = excluded.body returning id",
                         static_cast<int64_t>(row.kind), holder.space, row.name, holder.owner, holder.key, used,
                         bytes_of(row), row.created, row.version, row.previous, row.conversation, row.n_output,
                         checksum_of(row), row.items, row.body));
  TRY(make_room(id));
  return id;
}

Result<std::vector<KeptRows::Row>> KeptRows::find(Kept kind, const std::string& space, const std::string& name) {
  // The length of the chain is limited, because a forged database may contain a cycle.
  TRY_ASSIGN(Database::Rows rows,
             db_->ask("with recursive chain(at, depth) as ("
                      "select id, 0 from kept where kind = ?1 and space = ?2 and name = ?3 and is_gone = 0 union all "
                      "select previous, depth + 1 from chain join kept on id = at "
                      "where previous <> 0 and depth < 100000) "
                      "select id, name, created, version, previous, talk, n_output, items, body, checksum "
                      "from chain join kept on id = at where space = ?2 order by depth desc",
                      static_cast<int64_t>(kind), space, name));
  std::vector<Row> chain;
  for (;;) {
    TRY_ASSIGN(const bool is_there, rows.next());
    if (!is_there) break;
    chain.push_back({.kind = kind,
                     .name = rows.text(1),
                     .id = rows.number(0),
                     .created = rows.number(2),
                     .version = rows.number(3),
                     .previous = rows.number(4),
                     .conversation = rows.text(5),
                     .n_output = rows.number(6),
                     .items = rows.text(7),
                     .body = rows.text(8)});
    const Row& row = chain.back();
    if (rows.number(9) != checksum_of(row)) {
      return db_->corrupt(row.name + " does not match its checksum");
    }
    const int64_t before = chain.size() == 1 ? 0 : chain[chain.size() - 2].id;
    if (row.previous != before) return db_->corrupt(row.name + " continues a response that does not exist");
  }
  if (chain.empty()) return Status(ErrorCode::kNotFound, "nothing is stored under this id");
  return chain;
}

Status KeptRows::touch(int64_t id) {
  TRY_ASSIGN(const int64_t used, next_use());
  return db_->run("update kept set used = ? where id = ?", used, id);
}

Status KeptRows::remove(int64_t id) {
  TRY(db_->run("update kept set is_gone = 1 where id = ?", id));
  // Deletes the row, unless another response continues it. The deleted response may have been the only one to continue
  // the response before it; if that one is marked as removed, the loop deletes it as well, and so on.
  while (id != 0) {
    TRY_ASSIGN(id, db_->number(0,
                               "delete from kept where id = ? and is_gone = 1 and not exists(select 1 from kept later "
                               "where later.previous = kept.id and later.previous <> 0) returning previous",
                               id));
  }
  return {};
}

Status KeptRows::make_room(int64_t for_row) {
  constexpr const char* kOldest[] = {
      "select id from kept where is_gone = 0 and id <> ? and (owner, key) = (select owner, key from share where "
      "key = (select key from share group by key order by sum(bytes) desc, key limit 1) "
      "group by owner order by sum(bytes) desc, owner limit 1) order by used limit 1",
      "select id from kept where is_gone = 0 and id <> ? and "
      "key = (select key from share group by key order by sum(bytes) desc, key limit 1) order by used limit 1"};
  for (;;) {
    TRY_ASSIGN(const int64_t n_bytes, db_->number(0, "select sum(bytes) from share"));
    if (static_cast<uint64_t>(n_bytes) <= budget_bytes_) return {};
    int64_t oldest = -1;
    for (const char* of_owner_then_key : kOldest) {
      if (oldest >= 0) break;
      TRY_ASSIGN(oldest, db_->number(-1, of_owner_then_key, for_row));
    }
    if (oldest < 0) {
      return {ErrorCode::kLimitExceeded,
              "the conversation store is full: its limit is " + std::to_string(budget_bytes_) + " bytes"};
    }
    TRY(remove(oldest));
  }
}

}  // namespace ibid::serve
