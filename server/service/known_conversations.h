// KnownConversations: the index behind Conversations (server/service/conversations.h): what is known, found by the
// hashes of its beginnings, or by its number; bounded by bytes. A known conversation may be kept in the store as well
// (server/store/conversation_store.h); its name there stands here.
//
// Not thread-safe. Whoever takes something out destroys it, which takes a while, without a lock.
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
    uint64_t number = 0;    // by add()
    std::string kept = {};  // its name in the store; empty: it is not there
  };
  struct Space;
  using List = std::list<Known>;  // the least recently used first
  struct Place {
    Space* space = nullptr;
    List::iterator known;
    size_t n = 0;  // messages that the hash is of
  };

  explicit KnownConversations(size_t budget_bytes);
  ~KnownConversations();

  // A history that is looked for.
  struct Wanted {
    const Engine& engine;
    const std::string& cache_namespace;
    const Json& messages;
    std::vector<uint64_t> hashes;  // of its beginnings, the shortest first
  };
  // The one of that engine and namespace that shares most messages with a history, and how many.
  std::optional<Place> find(const Wanted& wanted) const;
  std::optional<Place> find_number(uint64_t number) const;
  bool has_kept(const std::string& name) const { return kept_.contains(name); }

  // A copy that goes on from the place; what was known stays, and counts as used. Nothing: there is no memory for it.
  std::optional<Conversation> copy_of(const Place& place);

  // Returns its number.
  uint64_t add(Known known);
  // The space may be gone then.
  Known take_out(const Place& place);
  // What had to go for the budget.
  std::vector<Known> make_room();
  std::vector<Known> take_out_if(const std::function<bool(const Conversation&)>& goes);

  size_t size() const { return by_number_.size(); }
  size_t n_bytes() const { return n_bytes_; }

 private:
  Known remove(Space& space, List::iterator it);

  const size_t budget_bytes_;
  std::map<std::string, Space, std::less<>> spaces_;  // by the owner of namespaces
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
