#include "server/service/known_conversations.h"

#include <algorithm>
#include <utility>

#include "server/store/cache_namespace.h"

namespace ibid::serve {
namespace {

// Maximum number of candidates that are compared for one hash: forks of one history share the hashes of its prefixes.
constexpr size_t kMostCandidates = 8;

}  // namespace

KnownConversations::KnownConversations(size_t budget_bytes) : budget_bytes_(budget_bytes) {}
KnownConversations::~KnownConversations() = default;

std::optional<KnownConversations::Place> KnownConversations::find(const Wanted& wanted) const {
  for (size_t n = wanted.hashes.size(); n > 0; --n) {
    const auto [first, last] = by_hash_.equal_range(wanted.hashes[n - 1]);
    std::optional<Place> best;
    size_t n_compared = 0;
    for (auto it = first; it != last && n_compared < kMostCandidates; ++it, ++n_compared) {
      const Conversation& candidate = it->second.known->conversation();
      const bool at_end = candidate.size() == n;
      if (it->second.n != n || candidate.cache_namespace() != wanted.cache_namespace || (best && !at_end)) continue;
      if (candidate.session().engine().get() != &wanted.engine) continue;  // two engines may have loaded the same model
      if (!candidate.can_go_on_from(n) || !candidate.begins(wanted.messages, n)) continue;
      best = it->second;
      if (at_end) break;
    }
    if (best) return best;
  }
  return std::nullopt;
}

std::optional<KnownConversations::Place> KnownConversations::find_number(uint64_t number) const {
  const auto found = by_number_.find(number);
  return found == by_number_.end() ? std::optional<Place>() : found->second;
}

std::optional<KnownConversations::Place> KnownConversations::find_kept(const std::string& name) const {
  const auto found = kept_.find(name);
  return found == kept_.end() ? std::optional<Place>() : find_number(found->second);
}

void KnownConversations::rename(const Place& place, std::string name) {
  Known& known = *place.known;
  kept_.erase(known.kept);
  known.kept = std::move(name);
  kept_.emplace(known.kept, known.number);
}

void KnownConversations::use(const Place& place) {
  List& known = place.space->known;
  known.splice(known.end(), known, place.known);
}

uint64_t KnownConversations::add(Known known) {
  Space& space = spaces_[std::string(owner_of_namespace(known.conversation().cache_namespace()))];
  known.number = ++n_added_;
  space.n_bytes += known.n_bytes;
  n_bytes_ += known.n_bytes;
  if (!known.kept.empty()) kept_.emplace(known.kept, known.number);
  const auto it = space.known.insert(space.known.end(), std::move(known));
  by_number_.emplace(it->number, Place{&space, it, it->conversation().size()});
  for (size_t n = 1; n <= it->conversation().size(); ++n) {
    by_hash_.emplace(it->conversation().hash_of(n), Place{&space, it, n});
  }
  return it->number;
}

KnownConversations::Known KnownConversations::take_out(const Place& place) {
  Known known = remove(*place.space, place.known);
  if (place.space->known.empty())
    spaces_.erase(spaces_.find(owner_of_namespace(known.conversation().cache_namespace())));
  return known;
}

KnownConversations::Known KnownConversations::remove(Space& space, List::iterator it) {
  for (size_t n = 1; n <= it->conversation().size(); ++n) {
    const auto [first, last] = by_hash_.equal_range(it->conversation().hash_of(n));
    const auto entry = std::find_if(first, last, [&](const auto& one) { return one.second.known == it; });
    if (entry != last) by_hash_.erase(entry);
  }
  Known known = std::move(*it);
  by_number_.erase(known.number);
  kept_.erase(known.kept);
  space.known.erase(it);
  space.n_bytes -= known.n_bytes;
  n_bytes_ -= known.n_bytes;
  return known;
}

std::vector<KnownConversations::Known> KnownConversations::make_room() {
  std::vector<Known> gone;
  while (n_bytes_ > budget_bytes_) {
    const auto largest = std::max_element(spaces_.begin(), spaces_.end(), [](const auto& a, const auto& b) {
      return a.second.n_bytes < b.second.n_bytes;
    });
    gone.push_back(remove(largest->second, largest->second.known.begin()));
    if (largest->second.known.empty()) spaces_.erase(largest);
  }
  return gone;
}

std::vector<KnownConversations::Known> KnownConversations::take_out_if(
    const std::function<bool(const Conversation&)>& goes) {
  std::vector<Known> gone;
  for (auto& [name, space] : spaces_) {
    for (auto it = space.known.begin(); it != space.known.end();) {
      const auto here = it++;
      if (goes(here->conversation())) gone.push_back(remove(space, here));
    }
  }
  std::erase_if(spaces_, [](const auto& one) { return one.second.known.empty(); });
  return gone;
}

}  // namespace ibid::serve
