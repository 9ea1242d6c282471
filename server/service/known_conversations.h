// KnownConversations: the index of Conversations (server/service/conversations.h). It finds a conversation by the
// hashes of its prefixes or by its number, and is bounded by bytes. If a conversation is also stored
// (server/store/conversation_store.h), Known::kept is its name there. Not thread-safe, so the caller has a lock. Slow
// work is for the caller, without the lock: removed conversations are returned, so that the caller destroys them, and
// forks are made of a SharedConversation, which the caller shares with the index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/service/conversation.h"

namespace ibid::serve {

// A conversation that several requests may continue at once. Thread-safe.
class SharedConversation {
 public:
  explicit SharedConversation(Conversation conversation) : conversation_(std::move(conversation)) {}

  const Conversation& conversation() const { return conversation_; }
  // Returns a copy of the first n messages. Waits for other forks of this conversation, and for the end of its idle
  // work, at most as long as one layer of the model takes. Errors: those of Conversation::fork().
  Result<Conversation> fork(size_t n) const {
    const std::lock_guard lock(forking_);  // a session runs one call at a time
    return conversation_.fork(n);
  }

 private:
  mutable std::mutex forking_;
  const Conversation conversation_;  // during a fork, all const functions except fork() may be called
};

class KnownConversations {
 public:
  struct Known {
    std::shared_ptr<const SharedConversation> shared;
    size_t n_bytes = 0;
    uint64_t number = 0;    // assigned by add()
    std::string kept = {};  // the conversation's name in the store; empty: not stored

    const Conversation& conversation() const { return shared->conversation(); }
  };
  struct Space;
  using List = std::list<Known>;  // the least recently used one is first
  struct Place {
    Space* space = nullptr;
    List::iterator known;
    size_t n = 0;  // length in messages of the shared prefix
  };

  explicit KnownConversations(size_t budget_bytes);
  ~KnownConversations();

  // A history to be found.
  struct Wanted {
    const Engine& engine;
    const std::string& cache_namespace;
    const Json& messages;
    std::vector<uint64_t> hashes;  // hashes of the history's prefixes, the shortest first
  };
  // Returns the conversation of that engine and namespace that shares the longest prefix with the history.
  std::optional<Place> find(const Wanted& wanted) const;
  std::optional<Place> find_number(uint64_t number) const;
  // Returns the conversation that has this name in the store.
  std::optional<Place> find_kept(const std::string& name) const;
  // Gives a conversation another name in the store.
  void rename(const Place& place, std::string name);

  // Marks a conversation as used.
  void use(const Place& place);

  // Adds a conversation and returns its number.
  uint64_t add(Known known);
  // Removes and returns a conversation. If it was the last one of its owner, also removes the owner from spaces_.
  Known take_out(const Place& place);
  // Evicts conversations until the budget is respected, and returns them.
  std::vector<Known> make_room();
  std::vector<Known> take_out_if(const std::function<bool(const Conversation&)>& goes);

  size_t size() const { return by_number_.size(); }
  size_t n_bytes() const { return n_bytes_; }

 private:
  Known remove(Space& space, List::iterator it);

  const size_t budget_bytes_;
  std::map<std::string, Space, std::less<>> spaces_;  // the conversations of each owner of namespaces
  std::unordered_multimap<uint64_t, Place> by_hash_;
  std::unordered_map<uint64_t, Place> by_number_;
  std::unordered_map<std::string, uint64_t> kept_;  // numbers by the names in the store
  uint64_t n_added_ = 0;
  size_t n_bytes_ = 0;
};

struct KnownConversations::Space {
  List known;
  size_t n_bytes = 0;
};

}  // namespace ibid::serve
