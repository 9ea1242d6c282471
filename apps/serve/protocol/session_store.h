// SessionStore: conversations that are a resource of this server (/v1/sessions): clients send what is new, and the
// server has the rest. A session is messages and what a request says besides them; the ids of its answers are found
// again as for any other request (apps/serve/service/conversations.h), so a session does not keep its model loaded.
// Bounded by bytes within each namespace: what does not fit is refused, nothing is forgotten. Nothing is found across
// namespaces. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/serve/protocol/fault.h"
#include "base/json_limits.h"

namespace ibid::serve {

// What a session is. `settings`: fields of chat completions that hold for every answer of it (model, tools ...).
struct SessionState {
  std::string id;
  int64_t created = 0;
  Json settings = Json::object();
  Json messages = Json::array();
};

class SessionStore {
 public:
  static constexpr size_t kDefaultBytes = 256u << 20;
  explicit SessionStore(size_t budget_bytes = kDefaultBytes) : budget_bytes_(budget_bytes) {}

  // Faults: 503 when the namespace is full.
  MaybeFault create(const std::string& cache_namespace, SessionState session);
  // Fault: 404.
  MaybeFault find(const std::string& cache_namespace, const std::string& id, SessionState& session) const;
  std::vector<SessionState> list(const std::string& cache_namespace) const;

  // Takes the session for a change of its messages, which commit() or release() ends. stop: requested when the session
  // is removed meanwhile. Faults: 404; 409 while somebody else has it.
  MaybeFault take(const std::string& cache_namespace, const std::string& id, SessionState& session,
                  std::stop_token& stop);
  // Faults: 503 when the namespace is full; the messages are then as before. Nothing when it was removed.
  MaybeFault commit(const std::string& cache_namespace, const std::string& id, Json messages);
  void release(const std::string& cache_namespace, const std::string& id);

  // An answer that is under way is stopped. Fault: 404.
  MaybeFault remove(const std::string& cache_namespace, const std::string& id);

 private:
  struct Entry {
    std::string id;
    int64_t created = 0;
    std::string settings, messages;  // as text: the smallest form
    bool is_taken = false;
    std::stop_source stop;
    size_t bytes() const;
  };
  struct Space {
    size_t bytes = 0;
    std::map<std::string, Entry> entries;
  };
  // nullptr: there is none.
  Entry* entry_of(const std::string& cache_namespace, const std::string& id) const;
  static SessionState state_of(const Entry& entry);

  const size_t budget_bytes_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Space> spaces_;
};

}  // namespace ibid::serve
