#include "server/store/kept_rows.h"

#include <xxhash.h>

#include <utility>

#include "cache/tier/kv_record.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {
namespace {

// What a row takes beside its texts, and one of its places.
constexpr size_t kRowBytes = 512, kPlaceBytes = 48;

int64_t bytes_of(const KeptRows::Row& row) {
  return static_cast<int64_t>(kRowBytes + row.name.size() + row.previous.size() + row.talk.size() + row.items.size() +
                              row.body.size() + row.n_places * kPlaceBytes);
}

int64_t checksum_of(const KeptRows::Row& row) {
  const uint64_t of_items = XXH3_64bits(row.items.data(), row.items.size());
  return static_cast<int64_t>(XXH3_64bits_withSeed(row.body.data(), row.body.size(), of_items));
}

int64_t number_of(Kept kind) { return static_cast<int64_t>(kind); }

}  // namespace

Holder holder_of(std::string_view cache_namespace) {
  const auto digits = [](std::string_view name) { return to_hex(digest_of_namespace(name)); };
  return {digits(cache_namespace), digits(owner_of_namespace(cache_namespace)),
          digits(key_of_namespace(cache_namespace))};
}

Result<int64_t> KeptRows::put(const Holder& holder, const Row& row) {
  TRY(db_->run("delete from kept where kind = ? and space = ? and name = ?", number_of(row.kind), holder.space,
               row.name).status());
  TRY_ASSIGN(const int64_t used, next_use());
  TRY_ASSIGN(const int64_t id,
             db_->number(0,
                         "insert into kept(kind, space, name, owner, key, used, bytes, created, version, previous, "
                         "talk, n_output, is_gone, checksum, items, body) "
                         "values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?) returning id",
                         number_of(row.kind), holder.space, row.name, holder.owner, holder.key, used, bytes_of(row),
                         row.created, row.version, row.previous, row.talk, row.n_output, checksum_of(row), row.items,
                         row.body));
  TRY(make_room(id));
  return id;
}

Status KeptRows::update(const Found& found) {
  const Row& row = found.row;
  TRY_ASSIGN(const int64_t used, next_use());
  TRY(db_->run("update kept set used = ?, bytes = ?, version = ?, checksum = ?, items = ?, body = ? where id = ?", used,
               bytes_of(row), row.version, checksum_of(row), row.items, row.body, found.id).status());
  return make_room(found.id);
}

Result<KeptRows::Found> KeptRows::find(Kept kind, const std::string& space, const std::string& name) {
  TRY_ASSIGN(Database::Rows rows,
             db_->ask("select checksum, items, body, id, created, version, previous, talk, n_output from kept "
                      "where kind = ? and space = ? and name = ? and is_gone = 0",
                      number_of(kind), space, name));
  TRY_ASSIGN(const bool is_there, rows.next());
  if (!is_there) return Status(ErrorCode::kNotFound, "nothing of that id is kept");
  Found found{rows.number(3), {.kind = kind, .name = name, .created = rows.number(4), .version = rows.number(5),
                               .previous = rows.text(6), .talk = rows.text(7), .n_output = rows.number(8)}};
  TRY(read_texts(rows, found.row));
  return found;
}

Status KeptRows::read_texts(const Database::Rows& rows, Row& row) const {
  row.items = rows.text(1);
  row.body = rows.text(2);
  if (rows.number(0) == checksum_of(row)) return {};
  return corrupt(row.name + " is not what was written, as its checksum says");
}

Status KeptRows::remove(int64_t id) {
  std::string space, name;
  {
    TRY_ASSIGN(Database::Rows rows, db_->ask("select space, name from kept where id = ? and kind = 1", id));
    TRY_ASSIGN(const bool is_response, rows.next());
    if (is_response) space = rows.text(0), name = rows.text(1);
  }
  if (name.empty()) return db_->run("delete from kept where id = ?", id).status();
  TRY(db_->run("update kept set is_gone = 1 where id = ?", id).status());
  return drop_unneeded(space, std::move(name));
}

// Drops a response that is gone and that none goes on from, and those before it that this leaves so.
Status KeptRows::drop_unneeded(const std::string& space, std::string name) {
  while (!name.empty()) {
    std::string previous;
    int64_t id = 0;
    {
      TRY_ASSIGN(Database::Rows rows,
                 db_->ask("select id, previous from kept where kind = 1 and space = ? and name = ? and is_gone = 1 and "
                          "not exists(select 1 from kept later where later.space = kept.space and "
                          "later.previous = kept.name and later.previous <> '')",
                          space, name));
      TRY_ASSIGN(const bool is_unneeded, rows.next());
      if (!is_unneeded) return {};
      id = rows.number(0);
      previous = rows.text(1);
    }
    TRY(db_->run("delete from kept where id = ?", id).status());
    name = std::move(previous);
  }
  return {};
}

void KeptRows::touch(int64_t id) {
  const Result<int64_t> used = next_use();
  if (used.ok()) (void)db_->run("update kept set used = ? where id = ?", *used, id);
}

Status KeptRows::make_room(int64_t for_row) {
  for (;;) {
    TRY_ASSIGN(const int64_t n_bytes, db_->number(0, "select sum(bytes) from share"));
    if (static_cast<uint64_t>(n_bytes) <= budget_bytes_) return {};
    TRY_ASSIGN(int64_t oldest,
               db_->number(-1,
                           "select id from kept where is_gone = 0 and id <> ? and (owner, key) = "
                           "(select owner, key from share where "
                           "key = (select key from share group by key order by sum(bytes) desc, key limit 1) "
                           "group by owner order by sum(bytes) desc, owner limit 1) order by used limit 1",
                           for_row));
    if (oldest < 0) {
      // The owner has nothing else: another user of the key gives way.
      TRY_ASSIGN(oldest, db_->number(-1,
                                     "select id from kept where is_gone = 0 and id <> ? and "
                                     "key = (select key from share group by key order by sum(bytes) desc, key limit 1) "
                                     "order by used limit 1",
                                     for_row));
    }
    if (oldest < 0) {
      return {ErrorCode::kLimitExceeded,
              "what is kept for clients may take " + std::to_string(budget_bytes_) + " bytes"};
    }
    TRY(remove(oldest));
  }
}

}  // namespace ibid::serve
