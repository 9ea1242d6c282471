// SessionStore: conversations that are a resource of this server: clients send what is new, and the server has the
// rest. /v1/sessions is one, /v1/conversations another. A session is messages (of /v1/conversations: items) and what a
// request says besides them; the ids of its answers are found again as for any other request
// (server/service/conversations.h), so a session does not keep its model loaded.
// Bounded by bytes within each API key, however many users it names: what does not fit is refused, nothing is
// forgotten. Nothing is found across namespaces. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "server/protocol/fault.h"

namespace ibid::serve {

// What a session is. `settings`: fields of chat completions that hold for every answer of it (model, tools ...); of
// /v1/conversations, its metadata.
struct SessionState {
  std::string id;
  int64_t created = 0;
  Json settings = Json::object();
  Json messages = Json::array();
};

class SessionStore {
 public:
  static constexpr size_t kDefaultBytes = 256u << 20;
  // what: the word for one of them in faults.
  explicit SessionStore(size_t budget_bytes = kDefaultBytes, std::string what = "session")
      : budget_bytes_(budget_bytes), what_(std::move(what)) {}

  // Faults: 503 when the key has no room left.
  MaybeFault create(const std::string& cache_namespace, SessionState session);
  // Fault: 404.
  MaybeFault find(const std::string& cache_namespace, const std::string& id, SessionState& session) const;
  std::vector<SessionState> list(const std::string& cache_namespace) const;

  // Takes the session for a change of its messages, which commit() or release() ends. stop: requested when the session
  // is removed meanwhile. Faults: 404; 409 while somebody else has it.
  MaybeFault take(const std::string& cache_namespace, const std::string& id, SessionState& session,
                  std::stop_token& stop);
  // Faults: 503 when the key has no room left; the messages are then as before. Nothing when it was removed.
  MaybeFault commit(const std::string& cache_namespace, const std::string& id, Json messages);
  void release(const std::string& cache_namespace, const std::string& id);
  // Faults: 404; 503 when the key has no room left.
  MaybeFault set_settings(const std::string& cache_namespace, const std::string& id, const Json& settings);

  // An answer that is under way is stopped. Fault: 404.
  MaybeFault remove(const std::string& cache_namespace, const std::string& id);

 private:
  struct Entry {
    std::string cache_namespace;
    std::string id;
    int64_t created = 0;
    std::string settings, messages;  // as text: the smallest form
    bool is_taken = false;
    std::stop_source stop;
    size_t bytes() const;
  };
  struct Space {  // of a key
    size_t bytes = 0;
    std::map<std::string, Entry> entries;
  };
  Fault no_such() const;
  Fault full() const;
  // Returns the entry of that id, or nullptr if the namespace has no such entry.
  Entry* entry_of(const std::string& cache_namespace, const std::string& id) const;
  Space& space_of(const std::string& cache_namespace);
  static SessionState state_of(const Entry& entry);

  const size_t budget_bytes_;
  const std::string what_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Space, std::less<>> spaces_;  // by key
};

// A session that was taken (SessionStore::take()), until it is committed. Released where that does not come.
class SessionHold {
 public:
  SessionHold(std::shared_ptr<SessionStore> sessions, std::string cache_namespace, std::string id)
      : sessions_(std::move(sessions)), cache_namespace_(std::move(cache_namespace)), id_(std::move(id)) {}
  ~SessionHold() { release(); }
  SessionHold(const SessionHold&) = delete;
  SessionHold& operator=(const SessionHold&) = delete;

  const std::string& id() const { return id_; }
  // As SessionStore::commit(), once. REQUIRES: it was neither committed nor released.
  MaybeFault commit(Json messages) {
    return std::exchange(sessions_, nullptr)->commit(cache_namespace_, id_, std::move(messages));
  }
  void release() {
    if (sessions_ != nullptr) std::exchange(sessions_, nullptr)->release(cache_namespace_, id_);
  }

 private:
  std::shared_ptr<SessionStore> sessions_;  // nullptr: it is over
  const std::string cache_namespace_, id_;
};

}  // namespace ibid::serve
