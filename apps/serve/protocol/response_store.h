// ResponseStore: responses that a client may go on from by their id (previous_response_id), and ask for again.
//
// Each has its own messages and points to the one that it went on from, so a conversation costs what was said, not its
// square, and any response can have several that go on from it. Bounded by bytes within each namespace; the least
// recently used goes first. Nothing is found across namespaces. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/json_limits.h"

namespace ibid::serve {

class ResponseStore {
 public:
  static constexpr size_t kDefaultBytes = 64u << 20;
  explicit ResponseStore(size_t budget_bytes = kDefaultBytes) : budget_bytes_(budget_bytes) {}

  // Messages and those in front of them; as text, because that is the smallest form of them.
  struct Link;
  using LinkPtr = std::shared_ptr<const Link>;

  struct Found {
    LinkPtr link;               // for put(), of the response that goes on from it
    Json history;               // all messages up to the response's own answer
    std::string response;       // the response's object as it was sent
  };
  std::optional<Found> find(const std::string& cache_namespace, const std::string& id);

  // Keeps a response. previous: nullptr, or that of a response that was found. One that is larger than the budget is
  // not kept.
  void put(const std::string& cache_namespace, const std::string& id, LinkPtr previous, const Json& messages,
           std::string response);
  // False: there is none.
  bool remove(const std::string& cache_namespace, const std::string& id);

  // What a namespace's responses take now, those included that others go on from.
  size_t bytes(const std::string& cache_namespace) const;

 private:
  using Bytes = std::shared_ptr<std::atomic<size_t>>;  // of a namespace: links give theirs back when they go
  struct Entry {
    LinkPtr link;
    std::string response;
    std::list<std::string>::iterator place;
  };
  struct Space {
    Bytes bytes = std::make_shared<std::atomic<size_t>>(0);
    std::list<std::string> order;  // ids, the least recently used first
    std::unordered_map<std::string, Entry> entries;
  };
  static void remove_entry(Space& space, const std::string& id);

  const size_t budget_bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, Space> spaces_;
};

}  // namespace ibid::serve
