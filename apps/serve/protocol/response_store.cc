#include "apps/serve/protocol/response_store.h"

#include <utility>
#include <vector>

#include "base/check.h"

namespace ibid::serve {

namespace {

// What an entry takes beside its texts: nodes of the list and of the map, the link.
constexpr size_t kEntryBytes = 512;
constexpr JsonLimits kStoredLimits = {.max_bytes = SIZE_MAX, .max_depth = 100, .max_values = SIZE_MAX};

}  // namespace

struct ResponseStore::Link {
  Link(LinkPtr in_front, std::string own, size_t n_bytes, Bytes all)
      : previous(std::move(in_front)), messages(std::move(own)), n(n_bytes), bytes(std::move(all)) {
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
  std::string messages;  // a JSON array
  size_t n;
  Bytes bytes;
};

std::optional<ResponseStore::Found> ResponseStore::find(const std::string& cache_namespace, const std::string& id) {
  Found found;
  {
    const std::lock_guard lock(mutex_);
    const auto space = spaces_.find(cache_namespace);
    if (space == spaces_.end()) return {};
    const auto entry = space->second.entries.find(id);
    if (entry == space->second.entries.end()) return {};
    auto& order = space->second.order;
    order.splice(order.end(), order, entry->second.place);
    found.link = entry->second.link;
    found.response = entry->second.response;
  }
  std::vector<const Link*> links;
  for (const Link* link = found.link.get(); link != nullptr; link = link->previous.get()) links.push_back(link);
  found.history = Json::array();
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    Result<Json> messages = parse_json((*link)->messages, "a stored response", kStoredLimits);
    CHECK(messages.ok()) << messages.status().message();
    for (Json& message : *messages) found.history.push_back(std::move(message));
  }
  return found;
}

void ResponseStore::put(const std::string& cache_namespace, const std::string& id, LinkPtr previous,
                        const Json& messages, std::string response) {
  std::string text = json_to_string(messages);
  const size_t n = text.size() + response.size() + id.size() + kEntryBytes;
  if (n > budget_bytes_) return;
  const std::lock_guard lock(mutex_);
  Space& space = spaces_[cache_namespace];
  remove_entry(space, id);
  while (*space.bytes + n > budget_bytes_ && !space.order.empty()) {
    // An id of the list is a copy: the entry owns what it is erased by.
    const std::string oldest = space.order.front();
    remove_entry(space, oldest);
  }
  // What is in front is held by this call; without room for both it is not kept.
  if (*space.bytes + n > budget_bytes_) return;
  const auto place = space.order.insert(space.order.end(), id);
  auto link = std::make_shared<const Link>(std::move(previous), std::move(text), n, space.bytes);
  space.entries.emplace(id, Entry{std::move(link), std::move(response), place});
}

bool ResponseStore::remove(const std::string& cache_namespace, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto space = spaces_.find(cache_namespace);
  if (space == spaces_.end() || !space->second.entries.contains(id)) return false;
  remove_entry(space->second, id);
  if (space->second.entries.empty()) spaces_.erase(space);
  return true;
}

size_t ResponseStore::bytes(const std::string& cache_namespace) const {
  const std::lock_guard lock(mutex_);
  const auto space = spaces_.find(cache_namespace);
  return space == spaces_.end() ? 0 : space->second.bytes->load();
}

void ResponseStore::remove_entry(Space& space, const std::string& id) {
  const auto entry = space.entries.find(id);
  if (entry == space.entries.end()) return;
  space.order.erase(entry->second.place);
  space.entries.erase(entry);
}

}  // namespace ibid::serve
