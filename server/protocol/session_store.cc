#include "server/protocol/session_store.h"

#include <utility>

#include "base/check.h"
#include "server/service/cache_namespace.h"

namespace ibid::serve {

namespace {

constexpr size_t kSessionBytes = 512;  // of an entry beside its texts
constexpr JsonLimits kSessionLimits = {.max_bytes = SIZE_MAX, .max_depth = 100, .max_values = SIZE_MAX};

Json parse_stored(const std::string& text) {
  Result<Json> json = parse_json(text, "a stored session", kSessionLimits);
  CHECK(json.ok()) << json.status().message();
  return std::move(*json);
}

}  // namespace

Fault SessionStore::no_such() const {
  return {.status = 404, .message = "there is no " + what_ + " of that id", .param = "id", .code = "not_found"};
}

Fault SessionStore::full() const {
  return {.status = 503, .message = what_ + "s may take " + std::to_string(budget_bytes_) + " bytes: delete some",
          .code = what_ + "s_full"};
}

size_t SessionStore::Entry::bytes() const {
  return kSessionBytes + cache_namespace.size() + id.size() + settings.size() + messages.size();
}

SessionStore::Space& SessionStore::space_of(const std::string& cache_namespace) {
  return spaces_[std::string(key_of_namespace(cache_namespace))];
}

SessionStore::Entry* SessionStore::entry_of(const std::string& cache_namespace, const std::string& id) const {
  const auto space = spaces_.find(key_of_namespace(cache_namespace));
  if (space == spaces_.end()) return nullptr;
  const auto entry = space->second.entries.find(id);
  return entry == space->second.entries.end() || entry->second.cache_namespace != cache_namespace ? nullptr
                                                                                                  : &entry->second;
}

SessionState SessionStore::state_of(const Entry& entry) {
  return {entry.id, entry.created, parse_stored(entry.settings), parse_stored(entry.messages)};
}

MaybeFault SessionStore::create(const std::string& cache_namespace, SessionState session) {
  Entry entry{.cache_namespace = cache_namespace, .id = std::move(session.id), .created = session.created,
              .settings = json_to_string(session.settings), .messages = json_to_string(session.messages), .stop = {}};
  const std::lock_guard lock(mutex_);
  Space& space = space_of(cache_namespace);
  if (space.bytes + entry.bytes() > budget_bytes_) return full();
  space.bytes += entry.bytes();
  const std::string id = entry.id;
  space.entries.emplace(id, std::move(entry));
  return {};
}

MaybeFault SessionStore::find(const std::string& cache_namespace, const std::string& id, SessionState& session) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = entry_of(cache_namespace, id);
  if (entry == nullptr) return no_such();
  session = state_of(*entry);
  return {};
}

std::vector<SessionState> SessionStore::list(const std::string& cache_namespace) const {
  const std::lock_guard lock(mutex_);
  std::vector<SessionState> sessions;
  const auto space = spaces_.find(key_of_namespace(cache_namespace));
  if (space == spaces_.end()) return sessions;
  for (const auto& [id, entry] : space->second.entries) {
    if (entry.cache_namespace == cache_namespace) sessions.push_back({.id = id, .created = entry.created});
  }
  return sessions;
}

MaybeFault SessionStore::take(const std::string& cache_namespace, const std::string& id, SessionState& session,
                              std::stop_token& stop) {
  const std::lock_guard lock(mutex_);
  Entry* entry = entry_of(cache_namespace, id);
  if (entry == nullptr) return no_such();
  if (entry->is_taken) {
    return Fault{.status = 409, .message = "an answer of this " + what_ + " is under way", .param = "id",
                 .code = what_ + "_busy"};
  }
  session = state_of(*entry);
  entry->is_taken = true;
  entry->stop = std::stop_source();
  stop = entry->stop.get_token();
  return {};
}

MaybeFault SessionStore::commit(const std::string& cache_namespace, const std::string& id, Json messages) {
  std::string text = json_to_string(messages);
  const std::lock_guard lock(mutex_);
  Entry* entry = entry_of(cache_namespace, id);
  if (entry == nullptr) return {};
  entry->is_taken = false;
  Space& space = space_of(cache_namespace);
  const size_t bytes = space.bytes - entry->messages.size() + text.size();
  if (bytes > budget_bytes_) return full();
  space.bytes = bytes;
  entry->messages = std::move(text);
  return {};
}

void SessionStore::release(const std::string& cache_namespace, const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (Entry* entry = entry_of(cache_namespace, id)) entry->is_taken = false;
}

MaybeFault SessionStore::set_settings(const std::string& cache_namespace, const std::string& id,
                                      const Json& settings) {
  std::string text = json_to_string(settings);
  const std::lock_guard lock(mutex_);
  Entry* entry = entry_of(cache_namespace, id);
  if (entry == nullptr) return no_such();
  Space& space = space_of(cache_namespace);
  const size_t bytes = space.bytes - entry->settings.size() + text.size();
  if (bytes > budget_bytes_) return full();
  space.bytes = bytes;
  entry->settings = std::move(text);
  return {};
}

MaybeFault SessionStore::remove(const std::string& cache_namespace, const std::string& id) {
  std::stop_source stop(std::nostopstate);
  {
    const std::lock_guard lock(mutex_);
    Entry* entry = entry_of(cache_namespace, id);
    if (entry == nullptr) return no_such();
    stop = entry->stop;
    Space& space = space_of(cache_namespace);
    space.bytes -= entry->bytes();
    space.entries.erase(id);
    if (space.entries.empty()) spaces_.erase(spaces_.find(key_of_namespace(cache_namespace)));
  }
  stop.request_stop();  // what it calls may ask for the session
  return {};
}

}  // namespace ibid::serve
