#include "server/store/conversation_store.h"

#include <algorithm>

#include "base/check.h"
#include "base/json_members.h"
#include "server/store/shared_rows.h"
#include "server/store/sqlite_rows.h"

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

std::vector<std::string> ids_of(const Json& items) {
  std::vector<std::string> ids;
  for (const Json& item : items) {
    if (const std::string* id = text_member(item, "id")) ids.push_back(*id);
  }
  return ids;
}

}  // namespace

Result<std::unique_ptr<ConversationStore>> ConversationStore::open(Options options) {
  std::unique_ptr<ConversationStore> store(new ConversationStore(std::move(options)));
  const auto& [server, directory, budget_bytes, remark, vfs] = store->options_;
  if (server != nullptr) {
    store->rows_ = std::make_unique<SharedRows>(server, budget_bytes, remark);
  } else {
    TRY_ASSIGN(store->rows_, SqliteRows::open({directory, budget_bytes, remark, vfs}));
  }
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
  if (rows_ != nullptr && !used_.empty()) (void)write([](KeptRows::Change&) { return Status(); });
}

Status ConversationStore::write(const std::function<Status(KeptRows::Change&)>& change) {
  std::vector<KeptRows::Key> used;
  {
    const Lock lock(mutex_);
    used = std::exchange(used_, {});
  }
  const Status status = rows_->change([&](KeptRows::Change& all) -> Status {
    for (const KeptRows::Key& key : used) TRY(all.touch(key));
    return change(all);
  });
  if (!status.ok()) {
    const Lock lock(mutex_);
    used_.insert(used_.begin(), used.begin(), used.end());
  }
  return status;
}

void ConversationStore::count_use(KeptRows::Key key) {
  const Lock lock(mutex_);
  std::erase(used_, key);
  if (used_.size() >= kMostUses) used_.erase(used_.begin());
  used_.push_back(std::move(key));
}

Status ConversationStore::put_response(const std::string& cache_namespace, const StoredResponse& response) {
  const Holder holder = holder_of(cache_namespace);
  return write([&](KeptRows::Change& change) -> Status {
    KeptRows::Row row{.kind = Kept::kResponse,
                      .name = response.id,
                      .conversation = response.conversation_id,
                      .n_output = static_cast<int64_t>(response.n_output),
                      .body = response.response};
    bool continues = false;
    if (!response.previous_id.empty()) {
      TRY_ASSIGN(continues, change.can_continue(holder.space, response.previous_id));
    }
    if (continues) row.previous = response.previous_id;
    Json items = continues ? Json::array() : response.in_front;
    items.insert(items.end(), response.items.begin(), response.items.end());
    row.items = json_to_string(items);
    row.item_ids = ids_of(items);
    return change.put(holder, row);
  });
}

Result<StoredResponse> ConversationStore::find_response(const std::string& cache_namespace, const std::string& id) {
  const KeptRows::Key key{Kept::kResponse, holder_of(cache_namespace).space, id};
  TRY_ASSIGN(const Rows chain, rows_->find(key));
  const KeptRows::Row& row = chain.back();
  StoredResponse response{.id = id,
                          .previous_id = row.previous,
                          .n_output = static_cast<size_t>(row.n_output),
                          .conversation_id = row.conversation,
                          .response = row.body};
  for (size_t i = 0; i + 1 < chain.size(); ++i) TRY(append_items(response.in_front, chain[i].items));
  TRY(append_items(response.items, row.items));
  if (response.n_output > response.items.size()) {
    return Status(ErrorCode::kCorrupt, id + " has more output than items");
  }
  count_use(key);
  return response;
}

Result<Json> ConversationStore::find_item(const std::string& cache_namespace, const std::string& item_id) {
  Json found;
  const auto search = [&](const KeptRows::Row& row) -> Result<bool> {
    Json items = Json::array();
    TRY(append_items(items, row.items));
    for (Json& item : items) {
      if (!item.is_object() || item.value("id", Json()) != item_id) continue;
      found = std::move(item);
      return true;
    }
    return false;
  };
  TRY(rows_->visit_responses(holder_of(cache_namespace).space, item_id, search));
  return found;
}

Status ConversationStore::remove_response(const std::string& cache_namespace, const std::string& id) {
  const KeptRows::Key key{Kept::kResponse, holder_of(cache_namespace).space, id};
  return write([&](KeptRows::Change& change) { return change.remove(key); });
}

Status ConversationStore::create_conversation(const std::string& cache_namespace,
                                              const StoredConversation& conversation) {
  const KeptRows::Row row{.kind = Kept::kConversation,
                          .name = conversation.id,
                          .created = conversation.created,
                          .items = json_to_string(conversation.items),
                          .body = json_to_string(conversation.metadata)};
  return write([&](KeptRows::Change& change) { return change.put(holder_of(cache_namespace), row); });
}

Result<StoredConversation> ConversationStore::find_conversation(const std::string& cache_namespace,
                                                                const std::string& id) {
  const KeptRows::Key key{Kept::kConversation, holder_of(cache_namespace).space, id};
  TRY_ASSIGN(const Rows found, rows_->find(key));
  const KeptRows::Row& row = found.back();
  StoredConversation conversation{.id = id, .created = row.created, .version = row.version};
  TRY(append_items(conversation.items, row.items));
  TRY_ASSIGN(conversation.metadata, parse_stored(row.body));
  count_use(key);
  return conversation;
}

Status ConversationStore::set_metadata(const std::string& cache_namespace, const std::string& id,
                                       const Json& metadata) {
  const Holder holder = holder_of(cache_namespace);
  return write([&](KeptRows::Change& change) -> Status {
    TRY_ASSIGN(KeptRows::Row row, change.row({Kept::kConversation, holder.space, id}));
    row.body = json_to_string(metadata);
    return change.put(holder, row);
  });
}

Status ConversationStore::remove_conversation(const std::string& cache_namespace, const std::string& id) {
  const KeptRows::Key key{Kept::kConversation, holder_of(cache_namespace).space, id};
  return write([&](KeptRows::Change& change) { return change.remove(key); });
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
  const Status status = store_->write([&](KeptRows::Change& change) -> Status {
    TRY_ASSIGN(KeptRows::Row row, change.row({Kept::kConversation, holder_.space, conversation_.id}));
    if (row.version != conversation_.version) {
      return {ErrorCode::kBusy, "another process or node has changed the conversation"};
    }
    ++row.version;
    row.items = json_to_string(items);
    return change.put(holder_, row);
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
                          .hashes = history.hashes,
                          .first = history.first};
  const Status status = write([&](KeptRows::Change& change) { return change.put(holder, row); });
  ++(status.ok() ? n_written_ : n_failed_);
  return status;
}

Result<std::optional<FoundHistory>> ConversationStore::find_history(const Holder& holder,
                                                                    std::span<const uint64_t> hashes, size_t n_known) {
  return rows_->find_history(holder.space, hashes, n_known);
}

Result<std::string> ConversationStore::read_history(const Holder& holder, const std::string& name) {
  TRY_ASSIGN(Rows found, rows_->find({Kept::kHistory, holder.space, name}));
  return std::move(found.back().items);
}

Status ConversationStore::refuse_history(const Holder& holder, const std::string& name) {
  ++n_refused_;
  return write([&](KeptRows::Change& change) { return change.remove({Kept::kHistory, holder.space, name}); });
}

Status ConversationStore::forget(const std::string& cache_namespace) {
  const std::string space = holder_of(cache_namespace).space;
  bool has_more = true;
  while (has_more) {
    TRY(write([&](KeptRows::Change& change) -> Status {
      TRY_ASSIGN(has_more, change.forget(space));
      return {};
    }));
  }
  return {};
}

void ConversationStore::say(const Status& error) const {
  if (options_.remark) options_.remark("conversation store: " + error.message());
}

Result<uint64_t> ConversationStore::bytes() {
  TRY_ASSIGN(const KeptRows::Sizes sizes, rows_->sizes());
  return sizes.n_bytes;
}

HistoryStats ConversationStore::stats() {
  const KeptRows::Sizes sizes = rows_->known_sizes();
  return {.n_kept = sizes.n_histories,
          .n_bytes = sizes.history_bytes,
          .n_written = n_written_,
          .n_failed = n_failed_,
          .n_refused = n_refused_};
}

}  // namespace ibid::serve
