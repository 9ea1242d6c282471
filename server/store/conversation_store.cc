#include "server/store/conversation_store.h"

#include <algorithm>

#include "base/check.h"

namespace ibid::serve {
namespace {

using Lock = std::lock_guard<std::mutex>;

constexpr JsonLimits kStoredLimits = {.max_bytes = SIZE_MAX, .max_depth = 100, .max_values = SIZE_MAX};
constexpr size_t kMostUses = 1024;  // maximum number of entries whose use is not written yet; the oldest are dropped

Result<Json> parse_stored(const std::string& text) {
  Result<Json> json = parse_json(text, "stored data", kStoredLimits);
  if (!json.ok()) return Status(ErrorCode::kCorrupt, json.status().message());
  return json;
}

// Appends the items of a list that is given as JSON text.
Status append_items(Json& items, const std::string& text) {
  TRY_ASSIGN(const Json more, parse_stored(text));
  if (!more.is_array()) return {ErrorCode::kCorrupt, "stored data: not a list of items"};
  items.insert(items.end(), more.begin(), more.end());
  return {};
}

}  // namespace

Result<std::unique_ptr<ConversationStore>> ConversationStore::open(Options options) {
  std::unique_ptr<ConversationStore> store(new ConversationStore(std::move(options)));
  const auto& [directory, budget_bytes, remark, vfs] = store->options_;
  TRY_ASSIGN(store->writer_.rows, store->is_on_disk() ? KeptRows::open(directory, vfs, budget_bytes, remark)
                                                      : KeptRows::open_in_memory(budget_bytes));
  TRY_ASSIGN(const int64_t seed, store->writer_.rows->db().number(0, "select hash_seed from store"));
  store->hash_seed_ = static_cast<uint64_t>(seed);
  TRY(store->write([](KeptRows& rows) { return rows.make_room(-1); }));
  if (!store->is_on_disk()) return store;
  TRY_ASSIGN(store->reader_.rows, KeptRows::open_reader(directory, vfs));
  return store;
}

std::unique_ptr<ConversationStore> ConversationStore::open_or_in_memory(Options options) {
  Options in_memory{.budget_bytes = options.budget_bytes, .remark = options.remark};
  Result<std::unique_ptr<ConversationStore>> opened = open(std::move(options));
  if (!opened.ok()) {
    if (in_memory.remark) in_memory.remark("conversations are not stored on disk: " + opened.status().message());
    opened = open(std::move(in_memory));
    CHECK(opened.ok()) << opened.status().message();
  }
  return *std::move(opened);
}

ConversationStore::~ConversationStore() {
  // Writes in which order entries were last used. If this fails, entries only lose their place in LRU order.
  if (!used_.empty()) (void)write([](KeptRows&) { return Status(); });
}

Status ConversationStore::write(const std::function<Status(KeptRows&)>& change) {
  std::vector<int64_t> used;
  {
    const Lock lock(mutex_);
    used = std::exchange(used_, {});
  }
  Status status;
  {
    const Lock lock(writer_.mutex);
    KeptRows& rows = *writer_.rows;
    status = rows.db().transact([&]() -> Status {
      for (const int64_t id : used) TRY(rows.touch(id));
      return change(rows);
    });
  }
  if (!status.ok()) {
    const Lock lock(mutex_);
    used_.insert(used_.begin(), used.begin(), used.end());
  }
  return status;
}

Result<ConversationStore::Rows> ConversationStore::find(Kept kind, const std::string& space, const std::string& name) {
  const auto [lock, kept] = reading();
  return kept.find(kind, space, name);
}

void ConversationStore::count_use(int64_t id) {
  const Lock lock(mutex_);
  std::erase(used_, id);
  if (used_.size() >= kMostUses) used_.erase(used_.begin());
  used_.push_back(id);
}

Status ConversationStore::remove(Kept kind, const std::string& space, const std::string& name) {
  return write([&](KeptRows& rows) -> Status {
    TRY_ASSIGN(const int64_t id, rows.db().number(-1,
                                                  "select id from kept where kind = ? and space = ? and name = ? "
                                                  "and is_gone = 0",
                                                  static_cast<int64_t>(kind), space, name));
    return id < 0 ? Status(ErrorCode::kNotFound, "nothing is stored under this id") : rows.remove(id);
  });
}

Status ConversationStore::put_response(const std::string& cache_namespace, const StoredResponse& response) {
  const Holder holder = holder_of(cache_namespace);
  KeptRows::Row row{.kind = Kept::kResponse,
                    .name = response.id,
                    .conversation = response.conversation_id,
                    .n_output = static_cast<int64_t>(response.n_output),
                    .body = response.response};
  return write([&](KeptRows& rows) -> Status {
    // A removed response keeps its row while others continue it, so this row may refer to it.
    TRY_ASSIGN(row.previous, rows.db().number(0, "select id from kept where kind = 1 and space = ? and name = ?",
                                              holder.space, response.previous_id));
    Json items = row.previous == 0 ? response.in_front : Json::array();
    items.insert(items.end(), response.items.begin(), response.items.end());
    row.items = json_to_string(items);
    return rows.put(holder, row).status();
  });
}

Result<StoredResponse> ConversationStore::find_response(const std::string& cache_namespace, const std::string& id) {
  TRY_ASSIGN(const Rows chain, find(Kept::kResponse, holder_of(cache_namespace).space, id));
  const KeptRows::Row& row = chain.back();
  StoredResponse response{.id = id,
                          .n_output = static_cast<size_t>(row.n_output),
                          .conversation_id = row.conversation,
                          .response = row.body};
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    response.previous_id = chain[i].name;
    TRY(append_items(response.in_front, chain[i].items));
  }
  TRY(append_items(response.items, row.items));
  if (response.n_output > response.items.size()) {
    return Status(ErrorCode::kCorrupt, id + " has more output than items");
  }
  count_use(row.id);
  return response;
}

Result<Json> ConversationStore::find_item(const std::string& cache_namespace, const std::string& item_id) {
  const std::string space = holder_of(cache_namespace).space;
  Connection own;
  if (is_on_disk()) {
    TRY_ASSIGN(own.rows, KeptRows::open_reader(options_.directory, options_.vfs));
  }
  Connection& searched = is_on_disk() ? own : writer_;
  const Lock lock(searched.mutex);
  // The text searched for is the id as serialised in an item. Other texts that contain it are rejected below.
  TRY_ASSIGN(Database::Rows names,
             searched.rows->db().ask("select name from kept where kind = 1 and space = ? and is_gone = 0 and "
                                     "instr(items, ?) > 0",
                                     space, "\"id\":" + json_to_string(Json(item_id))));
  for (;;) {
    TRY_ASSIGN(const bool is_there, names.next());
    if (!is_there) return Json();
    TRY_ASSIGN(const Rows chain, searched.rows->find(Kept::kResponse, space, names.text(0)));
    Json items = Json::array();
    TRY(append_items(items, chain.back().items));
    for (Json& item : items) {
      if (item.is_object() && item.value("id", Json()) == item_id) return std::move(item);
    }
  }
}

Status ConversationStore::remove_response(const std::string& cache_namespace, const std::string& id) {
  return remove(Kept::kResponse, holder_of(cache_namespace).space, id);
}

Status ConversationStore::create_conversation(const std::string& cache_namespace,
                                              const StoredConversation& conversation) {
  const KeptRows::Row row{.kind = Kept::kConversation,
                          .name = conversation.id,
                          .created = conversation.created,
                          .items = json_to_string(conversation.items),
                          .body = json_to_string(conversation.metadata)};
  return write([&](KeptRows& rows) { return rows.put(holder_of(cache_namespace), row).status(); });
}

Result<StoredConversation> ConversationStore::find_conversation(const std::string& cache_namespace,
                                                                const std::string& id) {
  TRY_ASSIGN(const Rows found, find(Kept::kConversation, holder_of(cache_namespace).space, id));
  const KeptRows::Row& row = found.back();
  StoredConversation conversation{.id = id, .created = row.created, .version = row.version};
  TRY(append_items(conversation.items, row.items));
  TRY_ASSIGN(conversation.metadata, parse_stored(row.body));
  count_use(row.id);
  return conversation;
}

Status ConversationStore::set_metadata(const std::string& cache_namespace, const std::string& id,
                                       const Json& metadata) {
  const Holder holder = holder_of(cache_namespace);
  return write([&](KeptRows& rows) -> Status {
    TRY_ASSIGN(Rows found, rows.find(Kept::kConversation, holder.space, id));
    found.back().body = json_to_string(metadata);
    return rows.put(holder, found.back()).status();
  });
}

Status ConversationStore::remove_conversation(const std::string& cache_namespace, const std::string& id) {
  return remove(Kept::kConversation, holder_of(cache_namespace).space, id);
}

Result<std::unique_ptr<LockedConversation>> ConversationStore::take_conversation(const std::string& cache_namespace,
                                                                                 const std::string& id) {
  Holder holder = holder_of(cache_namespace);
  {
    const Lock lock(mutex_);
    if (!taken_.emplace(holder.space, id).second)
      return Status(ErrorCode::kBusy, "another request is changing the conversation");
  }
  std::unique_ptr<LockedConversation> taken(new LockedConversation(*this, std::move(holder), id));
  TRY_ASSIGN(taken->conversation_, find_conversation(cache_namespace, id));
  return taken;
}

Status LockedConversation::commit(const Json& items) {
  const Status status = store_->write([&](KeptRows& rows) -> Status {
    TRY_ASSIGN(ConversationStore::Rows found, rows.find(Kept::kConversation, holder_.space, conversation_.id));
    KeptRows::Row& row = found.back();
    if (row.version != conversation_.version) return {ErrorCode::kBusy, "another process has changed the conversation"};
    ++row.version;
    row.items = json_to_string(items);
    return rows.put(holder_, row).status();
  });
  release();
  return status.code() == ErrorCode::kNotFound ? Status() : status;
}

void LockedConversation::release() {
  if (store_ == nullptr) return;
  const Lock lock(store_->mutex_);
  store_->taken_.erase({holder_.space, conversation_.id});
  store_ = nullptr;
}

Status ConversationStore::put_history(const Holder& holder, const StoredHistory& history) {
  const KeptRows::Row row{.kind = Kept::kHistory,
                          .name = history.name,
                          .version = history.numerics_version,
                          .items = history.text,
                          .n_places = history.hashes.size()};
  const Status status = write([&](KeptRows& rows) -> Status {
    TRY_ASSIGN(const int64_t id, rows.put(holder, row));
    TRY(rows.db().run("delete from place where history = ?", id));
    for (size_t n = std::max<size_t>(history.first, 1); history.first > 0 && n <= history.hashes.size(); ++n) {
      TRY(rows.db().run("insert into place values(?, ?, ?)", static_cast<int64_t>(history.hashes[n - 1]),
                        static_cast<int64_t>(n), id));
    }
    return {};
  });
  ++(status.ok() ? n_written_ : n_failed_);
  return status;
}

Result<std::optional<FoundHistory>> ConversationStore::find_history(const Holder& holder,
                                                                    std::span<const uint64_t> hashes, size_t n_known) {
  const auto [lock, kept] = reading();
  for (size_t n = hashes.size(); n > n_known; --n) {
    TRY_ASSIGN(Database::Rows rows,
               kept.db().ask("select name from place join kept on kept.id = history where hash = ? and n = ? "
                             "and space = ? limit 1",
                             static_cast<int64_t>(hashes[n - 1]), static_cast<int64_t>(n), holder.space));
    TRY_ASSIGN(const bool is_there, rows.next());
    if (is_there) return std::optional(FoundHistory{rows.text(0), n});
  }
  return std::optional<FoundHistory>();
}

Result<std::string> ConversationStore::read_history(const Holder& holder, const std::string& name) {
  TRY_ASSIGN(Rows found, find(Kept::kHistory, holder.space, name));
  return std::move(found.back().items);
}

Status ConversationStore::refuse_history(const Holder& holder, const std::string& name) {
  ++n_refused_;
  return remove(Kept::kHistory, holder.space, name);
}

Result<std::vector<std::pair<int64_t, int64_t>>> ConversationStore::history_versions() {
  const auto [lock, kept] = reading();
  TRY_ASSIGN(Database::Rows rows, kept.db().ask("select version, count(*) from kept where kind = 3 "
                                                "group by version order by version"));
  std::vector<std::pair<int64_t, int64_t>> versions;
  for (;;) {
    TRY_ASSIGN(const bool is_there, rows.next());
    if (!is_there) return versions;
    versions.emplace_back(rows.number(0), rows.number(1));
  }
}

Status ConversationStore::forget(const std::string& cache_namespace) {
  return write([&](KeptRows& rows) {
    return rows.db().run("delete from kept where space = ?", holder_of(cache_namespace).space);
  });
}

void ConversationStore::say(const Status& error) const {
  if (options_.remark) options_.remark("conversation store: " + error.message());
}

Result<uint64_t> ConversationStore::bytes() {
  const auto [lock, kept] = reading();
  TRY_ASSIGN(const int64_t n_bytes, kept.db().number(0, "select sum(bytes) from share"));
  return static_cast<uint64_t>(n_bytes);
}

HistoryStats ConversationStore::stats() {
  HistoryStats stats{.n_written = n_written_, .n_failed = n_failed_, .n_refused = n_refused_};
  const auto [lock, kept] = reading();
  Result<Database::Rows> rows = kept.db().ask("select sum(n), sum(bytes) from share where kind = 3");
  if (!rows.ok() || !rows->next().ok()) return stats;
  stats.n_kept = static_cast<uint64_t>(rows->number(0));
  stats.n_bytes = static_cast<uint64_t>(rows->number(1));
  return stats;
}

}  // namespace ibid::serve
