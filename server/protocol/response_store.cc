#include "server/protocol/response_store.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "server/service/cache_namespace.h"

namespace ibid::serve {

namespace {

// What an entry takes beside its texts: nodes of the list and of the map, the link.
constexpr size_t kEntryBytes = 512;
constexpr JsonLimits kStoredLimits = {.max_bytes = SIZE_MAX, .max_depth = 100, .max_values = SIZE_MAX};

Json parse_stored(const std::string& items) {
  Result<Json> json = parse_json(items, "a stored response", kStoredLimits);
  CHECK(json.ok()) << json.status().message();
  return std::move(*json);
}

}  // namespace

struct ResponseStore::Link {
  Link(LinkPtr in_front, std::string own, size_t n_bytes, Bytes all)
      : previous(std::move(in_front)), items(std::move(own)), n(n_bytes), bytes(std::move(all)) {
    *bytes += n;
  }
  // A chain is as long as a conversation: its links go one after the other, not one inside the other.
  ~Link() {
    *bytes -= n;
    while (previous != nullptr && previous.use_count() == 1) {
      LinkPtr next = std::move(previous->previous);
      previous = std::move(next);
    }
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  mutable LinkPtr previous;  // taken out of links that go
  std::string items;  // a JSON array
  size_t n;
  Bytes bytes;
};

std::optional<ResponseStore::Found> ResponseStore::find(const std::string& cache_namespace, const std::string& id) {
  Found found;
  {
    const std::lock_guard lock(mutex_);
    const auto space = spaces_.find(key_of_namespace(cache_namespace));
    if (space == spaces_.end()) return {};
    const Entry* entry = entry_of(space->second, cache_namespace, id);
    if (entry == nullptr) return {};
    auto& order = space->second.order;
    order.splice(order.end(), order, entry->place);
    found.link = entry->link;
    found.n_output = entry->n_output;
    found.conversation_id = entry->conversation_id;
    found.response = entry->response;
  }
  std::vector<const Link*> links;
  for (const Link* link = found.link.get(); link != nullptr; link = link->previous.get()) links.push_back(link);
  found.items = Json::array();
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    for (Json& item : parse_stored((*link)->items)) found.items.push_back(std::move(item));
  }
  return found;
}

Json ResponseStore::find_item(const std::string& cache_namespace, std::string_view item_id) const {
  // As it stands in an item. A text that says the same is told apart below.
  const std::string named = "\"id\":" + json_to_string(Json(std::string(item_id)));
  std::vector<LinkPtr> links;
  {
    const std::lock_guard lock(mutex_);
    const auto space = spaces_.find(key_of_namespace(cache_namespace));
    if (space == spaces_.end()) return {};
    for (const auto& [id, entry] : space->second.entries) {
      if (entry.cache_namespace == cache_namespace) links.push_back(entry.link);
    }
  }
  for (const LinkPtr& link : links) {
    if (link->items.find(named) == std::string::npos) continue;
    for (Json& item : parse_stored(link->items)) {
      if (item["id"] == item_id) return std::move(item);
    }
  }
  return {};
}

void ResponseStore::put(const std::string& cache_namespace, const std::string& id, Record record) {
  std::string text = json_to_string(record.items);
  const size_t n = text.size() + record.response.size() + id.size() + record.conversation_id.size() +
                   cache_namespace.size() + kEntryBytes;
  if (n > budget_bytes_) return;
  const std::lock_guard lock(mutex_);
  Space& space = spaces_[std::string(key_of_namespace(cache_namespace))];
  remove_entry(space, id);
  while (*space.bytes + n > budget_bytes_ && !space.order.empty()) {
    // An id of the list is a copy: the entry owns what it is erased by.
    const std::string oldest = space.order.front();
    remove_entry(space, oldest);
  }
  // What is in front is held by this call; without room for both it is not kept.
  if (*space.bytes + n > budget_bytes_) return;
  const auto place = space.order.insert(space.order.end(), id);
  auto link = std::make_shared<const Link>(std::move(record.previous), std::move(text), n, space.bytes);
  space.entries.emplace(id, Entry{cache_namespace, std::move(link), record.n_output, std::move(record.conversation_id),
                                  std::move(record.response), place});
}

bool ResponseStore::remove(const std::string& cache_namespace, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto space = spaces_.find(key_of_namespace(cache_namespace));
  if (space == spaces_.end() || entry_of(space->second, cache_namespace, id) == nullptr) return false;
  remove_entry(space->second, id);
  if (space->second.entries.empty()) spaces_.erase(space);
  return true;
}

size_t ResponseStore::bytes(const std::string& cache_namespace) const {
  const std::lock_guard lock(mutex_);
  const auto space = spaces_.find(key_of_namespace(cache_namespace));
  return space == spaces_.end() ? 0 : space->second.bytes->load();
}

ResponseStore::Entry* ResponseStore::entry_of(Space& space, const std::string& cache_namespace,
                                              const std::string& id) {
  const auto entry = space.entries.find(id);
  return entry == space.entries.end() || entry->second.cache_namespace != cache_namespace ? nullptr : &entry->second;
}

void ResponseStore::remove_entry(Space& space, const std::string& id) {
  const auto entry = space.entries.find(id);
  if (entry == space.entries.end()) return;
  space.order.erase(entry->second.place);
  space.entries.erase(entry);
}

}  // namespace ibid::serve
