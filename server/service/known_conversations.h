// KnownConversations: the index of Conversations (server/service/conversations.h). It finds a conversation by the
// hashes of its prefixes or by its number, and is bounded by bytes. If a conversation is also stored
// (server/store/conversation_store.h), Known::kept is its name there. Not thread-safe. Removed conversations are
// returned, so that the caller can destroy them, which is slow, without a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "server/service/conversation.h"

namespace ibid::serve {

class KnownConversations {
 public:
  struct Known {
    Conversation conversation;
    size_t n_bytes = 0;
    uint64_t number = 0;    // assigned by add()
    std::string kept = {};  // the conversation's name in the store; empty: not stored
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
  bool has_kept(const std::string& name) const { return kept_.contains(name); }

  // Returns a copy of the first place.n messages of the conversation at `place`, and marks the original as used;
  // nullopt if there is no memory for the copy.
  std::optional<Conversation> copy_of(const Place& place);

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
  std::unordered_set<std::string> kept_;
  uint64_t n_added_ = 0;
  size_t n_bytes_ = 0;
};

struct KnownConversations::Space {
  List known;
  size_t n_bytes = 0;
};

}  // namespace ibid::serve
