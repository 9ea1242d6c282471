#include "server/store/conversation_store.h"

#include <algorithm>

#include "server/store/store_file.h"

namespace ibid::serve {
namespace {

using Lock = std::lock_guard<std::mutex>;

constexpr JsonLimits kStoredLimits = {.max_bytes = SIZE_MAX, .max_depth = 100, .max_values = SIZE_MAX};

Result<Json> parse_stored(const std::string& text) {
  Result<Json> json = parse_json(text, "what was kept", kStoredLimits);
  if (!json.ok()) return Status(ErrorCode::kCorrupt, json.status().message());
  return json;
}

Result<Json> parse_items(const std::string& text) {
  TRY_ASSIGN(Json items, parse_stored(text));
  if (!items.is_array()) return Status(ErrorCode::kCorrupt, "what was kept: it is no list of items");
  return items;
}

void append_items(Json& items, const Json& more) {
  for (const Json& item : more) items.push_back(item);
}

std::string path_of(const ConversationStore::Options& options) {
  return options.directory.empty() ? "the store in memory" : options.directory + "/" + kStoreFileName;
}

}  // namespace

ConversationStore::ConversationStore(Options options, std::unique_ptr<Database> db)
    : options_(std::move(options)), rows_(std::move(db), path_of(options_), options_.budget_bytes) {}

Result<std::unique_ptr<ConversationStore>> ConversationStore::open(Options options) {
  TRY_ASSIGN(std::unique_ptr<Database> db,
             options.directory.empty() ? open_store_in_memory()
                                       : open_store_file(options.directory, options.vfs, options.remark));
  std::unique_ptr<ConversationStore> store(new ConversationStore(std::move(options), std::move(db)));
  TRY_ASSIGN(const int64_t seed, store->rows_.db().number(0, "select hash_seed from store"));
  store->hash_seed_ = static_cast<uint64_t>(seed);
  TRY(store->write([&] { return store->rows_.make_room(-1); }));
  if (!store->is_on_disk()) return store;
  const std::string path = path_of(store->options_);
  TRY_ASSIGN(std::unique_ptr<Database> reading, Database::open(path, store->options_.vfs));
  TRY(reading->execute("pragma trusted_schema = off; pragma cell_size_check = on; pragma query_only = on"));
  store->reading_ = std::make_unique<KeptRows>(std::move(reading), path, store->options_.budget_bytes);
  return store;
}

std::unique_ptr<ConversationStore> ConversationStore::open_or_in_memory(Options options) {
  Options in_memory{.budget_bytes = options.budget_bytes, .remark = options.remark};
  Result<std::unique_ptr<ConversationStore>> opened = open(std::move(options));
  if (!opened.ok()) {
    if (in_memory.remark) in_memory.remark("conversations are not kept on disk: " + opened.status().message());
    opened = open(std::move(in_memory));
    CHECK(opened.ok()) << opened.status().message();
  }
  return *std::move(opened);
}

Status ConversationStore::write(const std::function<Status()>& change) {
  TRY_ASSIGN(Transaction transaction, Transaction::begin(rows_.db()));
  TRY(change());
  uint64_t n_kept = 0, n_bytes = 0;
  {
    TRY_ASSIGN(Database::Rows rows, rows_.db().ask("select sum(n), sum(bytes) from share where kind = 3"));
    TRY_ASSIGN(const bool is_there, rows.next());
    CHECK(is_there);
    n_kept = static_cast<uint64_t>(rows.number(0));
    n_bytes = static_cast<uint64_t>(rows.number(1));
  }
  TRY(transaction.commit());
  n_kept_ = n_kept;
  n_bytes_ = n_bytes;
  return {};
}

// --- responses

Status ConversationStore::put_response(const std::string& cache_namespace, const StoredResponse& response) {
  const Holder holder = holder_of(cache_namespace);
  KeptRows::Row row{.kind = Kept::kResponse, .name = response.id, .previous = response.previous_id,
                    .talk = response.conversation_id, .n_output = static_cast<int64_t>(response.n_output),
                    .items = json_to_string(response.items), .body = response.response};
  const Lock lock(mutex_);
  return write([&]() -> Status {
    // One that is gone has its items as long as others need them.
    TRY_ASSIGN(const int64_t has_previous,
               rows_.db().number(0, "select 1 from kept where kind = 1 and space = ? and name = ?", holder.space,
                                 row.previous));
    if (has_previous == 0) {
      Json items = response.in_front;
      append_items(items, response.items);
      row.items = json_to_string(items);
      row.previous.clear();
    }
    return rows_.put(holder, row).status();
  });
}

// The items of the responses that one goes on from, the last of them first.
Result<std::vector<std::string>> ConversationStore::items_before(const std::string& space,
                                                                 const KeptRows::Row& response) {
  constexpr size_t kMostInChain = 100'000;  // a database that somebody made might have a circle
  std::vector<std::string> chain;
  for (std::string previous = response.previous; !previous.empty();) {
    TRY_ASSIGN(Database::Rows rows,
               rows_.db().ask("select checksum, items, body, previous from kept where kind = 1 and space = ? and "
                              "name = ?", space, previous));
    TRY_ASSIGN(const bool is_there, rows.next());
    if (!is_there || chain.size() >= kMostInChain) {
      return rows_.corrupt(response.name + " goes on from a response that is not there");
    }
    KeptRows::Row row{.kind = Kept::kResponse, .name = previous};
    TRY(rows_.read_texts(rows, row));
    chain.push_back(std::move(row.items));
    previous = rows.text(3);
  }
  return chain;
}

Result<StoredResponse> ConversationStore::find_response(const std::string& cache_namespace, const std::string& id) {
  const std::string space = holder_of(cache_namespace).space;
  StoredResponse response{.id = id};
  const Lock lock(mutex_);
  TRY_ASSIGN(std::optional<Transaction> transaction, Transaction::begin_reading(rows_.db()));
  TRY_ASSIGN(const KeptRows::Found found, rows_.find(Kept::kResponse, space, id));
  response.previous_id = found.row.previous;
  response.conversation_id = found.row.talk;
  response.response = found.row.body;
  response.n_output = static_cast<size_t>(found.row.n_output);
  TRY_ASSIGN(response.items, parse_items(found.row.items));
  if (response.n_output > response.items.size()) return rows_.corrupt(id + " has more output than items");
  TRY_ASSIGN(const std::vector<std::string> chain, items_before(space, found.row));
  for (auto items = chain.rbegin(); items != chain.rend(); ++items) {
    TRY_ASSIGN(const Json before, parse_items(*items));
    append_items(response.in_front, before);
  }
  transaction.reset();
  rows_.touch(found.id);
  return response;
}

Result<Json> ConversationStore::find_item(const std::string& cache_namespace, std::string_view item_id) {
  // As it stands in an item. A text that says the same is told apart below.
  const std::string named = "\"id\":" + json_to_string(Json(std::string(item_id)));
  const Lock lock(mutex_);
  TRY_ASSIGN(Database::Rows rows,
             rows_.db().ask("select checksum, items, body from kept where kind = 1 and space = ? and is_gone = 0 and "
                            "instr(items, ?) > 0", holder_of(cache_namespace).space, named));
  for (;;) {
    TRY_ASSIGN(const bool is_there, rows.next());
    if (!is_there) return Json();
    KeptRows::Row row{.kind = Kept::kResponse, .name = "a response"};
    TRY(rows_.read_texts(rows, row));
    TRY_ASSIGN(Json items, parse_items(row.items));
    for (Json& item : items) {
      const auto id = item.is_object() ? item.find("id") : item.end();
      if (id != item.end() && *id == item_id) return std::move(item);
    }
  }
}

// --- conversations

Status ConversationStore::create_conversation(const std::string& cache_namespace,
                                              const StoredConversation& conversation) {
  const KeptRows::Row row{.kind = Kept::kConversation, .name = conversation.id, .created = conversation.created,
                          .items = json_to_string(conversation.items), .body = json_to_string(conversation.metadata)};
  const Lock lock(mutex_);
  return write([&] { return rows_.put(holder_of(cache_namespace), row).status(); });
}

Result<StoredConversation> ConversationStore::find_conversation(const std::string& cache_namespace,
                                                                const std::string& id) {
  int64_t version = 0;
  return read_conversation(holder_of(cache_namespace).space, id, version);
}

Result<StoredConversation> ConversationStore::read_conversation(const std::string& space, const std::string& id,
                                                                int64_t& version) {
  const Lock lock(mutex_);
  TRY_ASSIGN(const KeptRows::Found found, rows_.find(Kept::kConversation, space, id));
  StoredConversation conversation{.id = id, .created = found.row.created};
  TRY_ASSIGN(conversation.items, parse_items(found.row.items));
  TRY_ASSIGN(conversation.metadata, parse_stored(found.row.body));
  version = found.row.version;
  rows_.touch(found.id);
  return conversation;
}

Status ConversationStore::set_metadata(const std::string& cache_namespace, const std::string& id,
                                       const Json& metadata) {
  const Lock lock(mutex_);
  return write([&]() -> Status {
    TRY_ASSIGN(KeptRows::Found found, rows_.find(Kept::kConversation, holder_of(cache_namespace).space, id));
    found.row.body = json_to_string(metadata);
    return rows_.update(found);
  });
}

Status ConversationStore::commit_items(const std::string& space, const std::string& id, int64_t version,
                                       const Json& items) {
  const Lock lock(mutex_);
  const Status status = write([&]() -> Status {
    TRY_ASSIGN(KeptRows::Found found, rows_.find(Kept::kConversation, space, id));
    if (found.row.version != version) return {ErrorCode::kBusy, "another process has changed the conversation"};
    found.row.items = json_to_string(items);
    ++found.row.version;
    return rows_.update(found);
  });
  return status.code() == ErrorCode::kNotFound ? Status() : status;
}

Status ConversationStore::remove_entry(Kept kind, const std::string& space, const std::string& name) {
  const Lock lock(mutex_);
  return write([&]() -> Status {
    TRY_ASSIGN(const int64_t id, rows_.db().number(-1, "select id from kept where kind = ? and space = ? and name = ? "
                                                       "and is_gone = 0", static_cast<int64_t>(kind), space, name));
    return id < 0 ? Status(ErrorCode::kNotFound, "nothing of that id is kept") : rows_.remove(id);
  });
}

Result<std::unique_ptr<TakenConversation>> ConversationStore::take_conversation(const std::string& cache_namespace,
                                                                                const std::string& id) {
  const std::string space = holder_of(cache_namespace).space;
  {
    const Lock lock(taken_mutex_);
    if (!taken_.emplace(space, id).second) return Status(ErrorCode::kBusy, "the conversation is being changed");
  }
  std::unique_ptr<TakenConversation> taken(new TakenConversation(*this, space, id));
  TRY_ASSIGN(taken->conversation_, read_conversation(space, id, taken->version_));
  return taken;
}

void ConversationStore::release(const std::string& space, const std::string& id) {
  const Lock lock(taken_mutex_);
  taken_.erase({space, id});
}

Status TakenConversation::commit(const Json& items) {
  const Status status = store_->commit_items(space_, id_, version_, items);
  release();
  return status;
}

void TakenConversation::release() {
  if (store_ != nullptr) std::exchange(store_, nullptr)->release(space_, id_);
}

// --- known histories

Status ConversationStore::put_history(const Holder& holder, const StoredHistory& history) {
  const KeptRows::Row row{.kind = Kept::kHistory, .name = history.name, .version = history.numerics_version,
                          .items = history.text, .n_places = history.hashes.size()};
  const Lock lock(mutex_);
  const Status status = write([&]() -> Status {
    TRY_ASSIGN(const int64_t id, rows_.put(holder, row));
    for (size_t n = std::max<size_t>(history.first, 1); history.first > 0 && n <= history.hashes.size(); ++n) {
      TRY(rows_.db().run("insert into place values(?, ?, ?)", static_cast<int64_t>(history.hashes[n - 1]),
                         static_cast<int64_t>(n), id).status());
    }
    return {};
  });
  ++(status.ok() ? n_written_ : n_failed_);
  return status;
}

Result<std::optional<FoundHistory>> ConversationStore::find_history(const Holder& holder,
                                                                    std::span<const uint64_t> hashes,
                                                                    size_t n_known) {
  const Lock lock(reading_mutex());
  for (size_t n = hashes.size(); n > n_known; --n) {
    TRY_ASSIGN(Database::Rows rows,
               reading().db().ask("select name from place join kept on kept.id = history where hash = ? and n = ? and "
                                  "space = ? limit 1", static_cast<int64_t>(hashes[n - 1]), static_cast<int64_t>(n),
                                  holder.space));
    TRY_ASSIGN(const bool is_there, rows.next());
    if (is_there) return std::optional(FoundHistory{rows.text(0), n});
  }
  return std::optional<FoundHistory>();
}

Result<std::string> ConversationStore::read_history(const Holder& holder, const std::string& name) {
  const Lock lock(reading_mutex());
  TRY_ASSIGN(KeptRows::Found found, reading().find(Kept::kHistory, holder.space, name));
  return std::move(found.row.items);
}

Status ConversationStore::refuse_history(const Holder& holder, const std::string& name) {
  ++n_refused_;
  return remove_entry(Kept::kHistory, holder.space, name);
}

Result<std::vector<std::pair<int64_t, int64_t>>> ConversationStore::history_versions() {
  const Lock lock(mutex_);
  TRY_ASSIGN(Database::Rows rows,
             rows_.db().ask("select version, count(*) from kept where kind = 3 group by version order by version"));
  std::vector<std::pair<int64_t, int64_t>> versions;
  for (;;) {
    TRY_ASSIGN(const bool is_there, rows.next());
    if (!is_there) return versions;
    versions.emplace_back(rows.number(0), rows.number(1));
  }
}

// --- all

Status ConversationStore::forget(const std::string& cache_namespace) {
  const Lock lock(mutex_);
  return write([&] {
    return rows_.db().run("delete from kept where space = ?", holder_of(cache_namespace).space).status();
  });
}

Result<uint64_t> ConversationStore::bytes() {
  const Lock lock(mutex_);
  TRY_ASSIGN(const int64_t n_bytes, rows_.db().number(0, "select sum(bytes) from share"));
  return static_cast<uint64_t>(n_bytes);
}

void ConversationStore::say(const Status& error) const {
  if (options_.remark) options_.remark("what clients keep: " + error.message());
}

HistoryStats ConversationStore::stats() const {
  return {n_kept_, n_bytes_, n_written_, n_failed_, n_refused_};
}

}  // namespace ibid::serve
