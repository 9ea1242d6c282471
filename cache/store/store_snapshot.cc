#include "cache/store/store_snapshot.h"

#include <utility>

#include "cache/store/prefix_tree.h"
#include "cache/store/state_index.h"
#include "cache/store/store_spaces.h"

namespace ibid {

StoreSnapshot snapshot_of(const PrefixTree& tree, const StateIndex& states, const StoreSpaces& spaces,
                          const KvPagePool& pool) {
  const auto serials = [](const auto& nodes) {
    std::vector<uint64_t> all;
    all.reserve(nodes.size());
    for (const PrefixNode* node : nodes) all.push_back(node->serial);
    return all;
  };
  StoreSnapshot copy;
  copy.nodes.reserve(tree.size());
  for (const auto& [page, node] : tree.nodes()) {
    std::vector<StoreSnapshot::Ending> endings;
    for (const auto& ending : node->endings.all()) {
      if (ending != nullptr) endings.push_back({ending->n_ids, ending->charge_bytes()});
    }
    copy.nodes.push_back({node->serial, node->parent->serial, node->space,
                          Tokens(node->tokens().begin(), node->tokens().end()), node->page.data(),
                          node->page.use_count(), node->holds.n_pins(), node->rank.rank(), node->rank.last_used(),
                          serials(node->children), std::move(endings), node->holds.mark_lengths(),
                          pool.layout().window() == 0 || pool.has_window(node->page)});
  }
  for (const StateIndex::Kept* kept : states.all()) {
    const size_t n_before = kept->before == nullptr ? 0 : kept->before->ids.size();
    std::vector<Tokens> tails;
    for (const StateIndex::Tail& tail : kept->tails) tails.push_back(tail.ids);
    copy.states.push_back({kept->space, kept->ids, n_before, states.charge(*kept), std::move(tails)});
  }
  copy.states_bytes = states.bytes();
  copy.root_children = serials(tree.root().children);
  copy.queue = serials(tree.leaves());
  for (const auto& [id, space] : spaces.all()) {
    copy.spaces.push_back({id, space.name, space.stats.pages, space.stats.bytes});
  }
  copy.n_pins = tree.holds().n_pins();
  copy.n_marks = tree.holds().n_marks();
  copy.pages = spaces.total().pages;
  copy.charge_bytes = spaces.total().bytes;
  copy.endings_bytes = tree.endings().bytes();
  return copy;
}

}  // namespace ibid
