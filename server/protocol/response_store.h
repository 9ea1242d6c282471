// ResponseStore: responses that a client may go on from by their id (previous_response_id), and ask for again.
//
// Each has its own items, those of its input and those of its output, and points to the one that it went on from. So a
// conversation costs what was said, not its square, and any response can have several that go on from it. Bounded by
// bytes within each API key, however many users it names; the least recently used goes first. Nothing is found across
// namespaces. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json_limits.h"

namespace ibid::serve {

class ResponseStore {
 public:
  static constexpr size_t kDefaultBytes = 64u << 20;
  explicit ResponseStore(size_t budget_bytes = kDefaultBytes) : budget_bytes_(budget_bytes) {}

  // Items and those in front of them; as text, because that is the smallest form of them.
  struct Link;
  using LinkPtr = std::shared_ptr<const Link>;

  struct Record {
    LinkPtr previous = nullptr;        // of a response that was found, which this one goes on from
    Json items = Json::array();        // its own: those of its input, then those of its output
    size_t n_output = 0;               // of them
    std::string conversation_id = {};  // whose items stand in front of it; empty: none
    std::string response = {};         // its object, as it was sent
  };
  struct Found {
    LinkPtr link;               // for Record::previous of the response that goes on from it
    Json items;                 // all of them, up to the response's own output
    size_t n_output = 0;
    std::string conversation_id;
    std::string response;
  };
  std::optional<Found> find(const std::string& cache_namespace, const std::string& id);

  // Of all responses, the item that has this id (responses_items.h); null: there is none. Costs a search of all texts.
  Json find_item(const std::string& cache_namespace, std::string_view item_id) const;

  // Keeps a response. One that is larger than the budget is not kept.
  void put(const std::string& cache_namespace, const std::string& id, Record record);
  // False: there is none.
  bool remove(const std::string& cache_namespace, const std::string& id);

  // Returns the bytes of all responses of the namespace's API key, those included that others go on from.
  size_t bytes(const std::string& cache_namespace) const;

 private:
  using Bytes = std::shared_ptr<std::atomic<size_t>>;  // of a key: links give theirs back when they go
  struct Entry {
    std::string cache_namespace;
    LinkPtr link;
    size_t n_output = 0;
    std::string conversation_id;
    std::string response;
    std::list<std::string>::iterator place;
  };
  struct Space {
    Bytes bytes = std::make_shared<std::atomic<size_t>>(0);
    std::list<std::string> order;  // ids, the least recently used first
    std::unordered_map<std::string, Entry> entries;
  };
  static void remove_entry(Space& space, const std::string& id);
  // Returns the entry of that id, or nullptr if the namespace has no such entry.
  static Entry* entry_of(Space& space, const std::string& cache_namespace, const std::string& id);

  const size_t budget_bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, Space, std::less<>> spaces_;  // by key
};

}  // namespace ibid::serve
