#include "apps/serve/service/conversations.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apps/serve/service/seen_message.h"

namespace ibid::serve {
namespace {

// So many candidates of one hash are compared; forks of one history share the hashes of its beginning.
constexpr size_t kMostCandidates = 8;
// So many prompts without a template are compared, the latest first.
constexpr size_t kMostPlain = 64;

}  // namespace

struct Conversations::Parts {
  struct Known {
    Conversation conversation;
    size_t n_bytes = 0;
    uint64_t number = 0;
  };
  using KnownList = std::list<Known>;  // the least recently used first
  struct Space {
    KnownList known;
    size_t n_bytes = 0;
  };
  struct Place {
    Space* space = nullptr;
    KnownList::iterator known;
    size_t n = 0;  // messages that the hash is of
  };

  explicit Parts(const ConversationOptions& o) : options(o) {}

  // Of the known conversations, the one that shares most messages with a history, and how many.
  std::optional<Place> find(const Json& messages, const std::vector<uint64_t>& hashes, std::string_view name) {
    for (size_t n = hashes.size(); n > 0; --n) {
      const auto [first, last] = by_hash.equal_range(hashes[n - 1]);
      std::optional<Place> best;
      size_t n_compared = 0;
      for (auto it = first; it != last && n_compared < kMostCandidates; ++it, ++n_compared) {
        const Conversation& candidate = it->second.known->conversation;
        const bool at_end = candidate.size() == n;
        if (it->second.n != n || candidate.cache_namespace() != name || (best && !at_end)) continue;
        if (!candidate.can_go_on_from(n) || !candidate.begins(messages, n)) continue;
        best = it->second;
        if (at_end) break;
      }
      if (best) return best;
    }
    return std::nullopt;
  }

  // Takes it out of what is known. The space may be gone then.
  Known take_out(Space& space, KnownList::iterator it) {
    Known known = remove(space, it);
    if (space.known.empty()) spaces.erase(known.conversation.cache_namespace());
    return known;
  }
  Known remove(Space& space, KnownList::iterator it) {
    for (size_t n = 1; n <= it->conversation.size(); ++n) {
      const auto [first, last] = by_hash.equal_range(it->conversation.hash_of(n));
      const auto entry = std::find_if(first, last, [&](const auto& one) { return one.second.known == it; });
      if (entry != last) by_hash.erase(entry);
    }
    Known known = std::move(*it);
    by_number.erase(known.number);
    space.known.erase(it);
    space.n_bytes -= known.n_bytes;
    n_bytes -= known.n_bytes;
    return known;
  }

  void add(Known known) {
    Space& space = spaces[known.conversation.cache_namespace()];
    known.number = ++n_added;
    space.n_bytes += known.n_bytes;
    n_bytes += known.n_bytes;
    const auto it = space.known.insert(space.known.end(), std::move(known));
    by_number.emplace(it->number, Place{&space, it, it->conversation.size()});
    for (size_t n = 1; n <= it->conversation.size() && !it->conversation.is_plain(); ++n) {
      by_hash.emplace(it->conversation.hash_of(n), Place{&space, it, n});
    }
  }

  // What has to go for the budget. The caller destroys it without the lock.
  std::vector<Known> make_room() {
    std::vector<Known> gone;
    while (n_bytes > options.budget_bytes) {
      const auto largest = std::max_element(spaces.begin(), spaces.end(), [](const auto& a, const auto& b) {
        return a.second.n_bytes < b.second.n_bytes;
      });
      gone.push_back(remove(largest->second, largest->second.known.begin()));
      if (largest->second.known.empty()) spaces.erase(largest);
      ++stats.n_forgotten;
    }
    return gone;
  }

  template <typename Predicate>
  std::vector<Known> remove_if(const Predicate& goes) {
    std::vector<Known> gone;
    for (auto& [name, space] : spaces) {
      for (auto it = space.known.begin(); it != space.known.end();) {
        const auto here = it++;
        if (goes(here->conversation)) gone.push_back(remove(space, here));
      }
    }
    std::erase_if(spaces, [](const auto& one) { return one.second.known.empty(); });
    return gone;
  }

  // A copy of the known conversation that the history goes on from, and at which message; nothing: it is better read
  // anew. What was known stays where it is until the copy is put back, so that two may go on from it at once.
  std::optional<std::pair<Conversation, size_t>> take_known(const Json& messages,
                                                            const std::vector<uint64_t>& hashes,
                                                            std::string_view name) {
    const std::lock_guard lock(mutex);
    const std::optional<Place> place = find(messages, hashes, name);
    const bool at_end = place && place->n == place->known->conversation.size();
    if (place && (at_end || place->known->conversation.has_answer(place->n))) {
      if (std::optional<Conversation> copy = copy_of(*place)) {
        ++(at_end ? stats.n_continued : stats.n_forked);
        return std::pair(*std::move(copy), place->n);
      }
    }
    ++stats.n_unknown;
    return std::nullopt;
  }

  // Nothing: there is no memory for it.
  std::optional<Conversation> copy_of(const Place& place) {
    Result<Conversation> copy = place.known->conversation.fork(place.n);
    if (!copy.ok()) return std::nullopt;
    if (place.n == place.known->conversation.size()) copy->goes_on_from(place.known->number);
    place.space->known.splice(place.space->known.end(), place.space->known, place.known);
    return *std::move(copy);
  }

  // The known prompt that, with its answer, is most of this one.
  std::optional<Conversation> take_known_plain(const Engine& engine, const Json& prompt, std::string_view name) {
    const std::lock_guard lock(mutex);
    const auto space = spaces.find(name);
    size_t n_most = 0, n_compared = 0;
    KnownList::iterator best;
    if (space != spaces.end()) {
      for (auto it = space->second.known.end(); it != space->second.known.begin() && n_compared < kMostPlain;) {
        const Conversation& candidate = (--it)->conversation;
        if (!candidate.is_plain() || candidate.session().engine().get() != &engine) continue;
        ++n_compared;
        const size_t n = candidate.n_begins_plain(prompt);
        if (n > n_most) n_most = n, best = it;
      }
    }
    if (n_most == 0) {
      ++stats.n_unknown;
      return std::nullopt;
    }
    std::optional<Conversation> copy = copy_of({&space->second, best, best->conversation.size()});
    ++(copy ? stats.n_continued : stats.n_unknown);
    return copy;
  }

  const ConversationOptions options;
  mutable std::mutex mutex;  // guards what follows
  std::map<std::string, Space, std::less<>> spaces;  // by namespace
  std::unordered_multimap<uint64_t, Place> by_hash;
  std::unordered_map<uint64_t, Place> by_number;
  uint64_t n_added = 0;
  size_t n_bytes = 0;
  ConversationStats stats;
};

Conversations::Conversations(const ConversationOptions& options) : parts_(std::make_unique<Parts>(options)) {}
Conversations::~Conversations() = default;

Result<Conversation> Conversations::take(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                         const Json& messages, const Json& variables, WhenFull when_full) {
  if (!messages.is_array() || messages.empty()) {
    return {ErrorCode::kInvalidArgument, "messages is an array of at least one message"};
  }
  std::vector<uint64_t> hashes;
  hashes.reserve(messages.size());
  uint64_t hash = Conversation::start_of(cache_namespace, *engine);
  for (const Json& message : messages) hashes.push_back(hash = chain_hash(hash, message));

  std::optional<std::pair<Conversation, size_t>> known = parts_->take_known(messages, hashes, cache_namespace);
  if (!known) {
    SessionOptions options;
    options.variables = variables;
    options.cache_namespace = cache_namespace;
    options.when_full = when_full;
    options.repair_when_idle = parts_->options.repair_when_idle;
    TRY_ASSIGN(ChatSession session, ChatSession::create(engine, std::move(options)));
    known.emplace(Conversation(cache_namespace, std::move(session)), 0);
  }
  Conversation& conversation = known->first;
  TRY(conversation.session().set_variables(variables));
  TRY(conversation.session().set_when_full(when_full));
  TRY(conversation.go_on(messages, known->second));
  return std::move(conversation);
}

Result<Conversation> Conversations::take_plain(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                               Json prompt) {
  std::optional<Conversation> known = parts_->take_known_plain(*engine, prompt, cache_namespace);
  if (!known) {
    SessionOptions options;
    options.cache_namespace = cache_namespace;
    options.repair_when_idle = false;
    options.plain = true;
    TRY_ASSIGN(ChatSession session, ChatSession::create(engine, std::move(options)));
    known.emplace(cache_namespace, std::move(session), true);
  }
  TRY(known->replace_plain(prompt));
  return *std::move(known);
}

void Conversations::put(Conversation conversation) {
  if (conversation.size() == 0) return;
  const size_t n_bytes = conversation.n_bytes();
  std::vector<Parts::Known> gone;  // destroyed without the lock
  std::optional<Parts::Known> before;
  const std::lock_guard lock(parts_->mutex);
  const auto found = parts_->by_number.find(conversation.origin());
  if (found != parts_->by_number.end()) {
    const Parts::Place place = found->second;
    // What a full context took messages from can be left at its end alone: then the shorter one stays, too.
    const bool is_covered = conversation.is_plain() || conversation.can_go_on_from(place.n);
    if (is_covered) before = parts_->take_out(*place.space, place.known);
  }
  parts_->add({std::move(conversation), n_bytes});
  gone = parts_->make_room();
}

void Conversations::forget_namespace(std::string_view cache_namespace) {
  std::vector<Parts::Known> gone;
  const std::lock_guard lock(parts_->mutex);
  gone = parts_->remove_if([&](const Conversation& one) { return one.cache_namespace() == cache_namespace; });
}

void Conversations::forget_engine(const Engine& engine) {
  std::vector<Parts::Known> gone;
  const std::lock_guard lock(parts_->mutex);
  gone = parts_->remove_if([&](const Conversation& one) { return one.session().engine().get() == &engine; });
}

ConversationStats Conversations::stats() const {
  const std::lock_guard lock(parts_->mutex);
  ConversationStats stats = parts_->stats;
  for (const auto& [name, space] : parts_->spaces) stats.n_known += space.known.size();
  stats.n_bytes = parts_->n_bytes;
  return stats;
}

}  // namespace ibid::serve
