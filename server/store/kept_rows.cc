#include "server/store/kept_rows.h"

#include <xxhash.h>

#include "cache/tier/kv_record.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {
namespace {

// Estimated bytes of a row besides its texts, and of a row of `place`.
constexpr size_t kRowBytes = 512, kPlaceBytes = 48;

int64_t bytes_of(const KeptRows::Row& row) {
  return static_cast<int64_t>(kRowBytes + row.name.size() + row.talk.size() + row.items.size() + row.body.size() +
                              row.n_places * kPlaceBytes);
}

int64_t checksum_of(const KeptRows::Row& row) {
  const uint64_t of_items = XXH3_64bits(row.items.data(), row.items.size());
  return static_cast<int64_t>(XXH3_64bits_withSeed(row.body.data(), row.body.size(), of_items));
}

}  // namespace

Holder holder_of(std::string_view cache_namespace) {
  const auto digits = [](std::string_view name) { return to_hex(digest_of_namespace(name)); };
  return {digits(cache_namespace), digits(owner_of_namespace(cache_namespace)),
          digits(key_of_namespace(cache_namespace))};
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
                         bytes_of(row), row.created, row.version, row.previous, row.talk, row.n_output,
                         checksum_of(row), row.items, row.body));
  TRY(make_room(id));
  return id;
}

Result<std::vector<KeptRows::Row>> KeptRows::find(Kept kind, const std::string& space, const std::string& name) {
  // The depth is limited because a forged database may contain a cycle.
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
                     .talk = rows.text(5),
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
  // Removes the responses before it that are marked as gone, as long as no other response continues them.
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
