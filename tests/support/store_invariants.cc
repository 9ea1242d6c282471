#include "tests/support/store_invariants.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/token_prefix.h"
#include "cache/pages/kv_layout.h"
#include "cache/store/cached_logits.h"

namespace ibid {

namespace {

using Node = StoreSnapshot::Node;

// Tests run the validator millions of times, so it builds sentences only for violated invariants.
class Validator {
 public:
  explicit Validator(const StoreSnapshot& store) : store_(store) {}

  std::vector<std::string> run() {
    index_nodes();
    for (const Node& node : store_.nodes) check_node(node);
    check_siblings(store_.root_children, nullptr);
    for (const Node& node : store_.nodes) check_siblings(node.children, &node);
    check_reachable();
    check_queue();
    check_states();
    check_spaces();
    check_sums();
    return std::move(broken_);
  }

 private:
  static std::string name(const Node* node) {
    return node == nullptr ? "the root" : "node " + std::to_string(node->serial);
  }
  void expect(bool holds, const char* what) {
    if (!holds) broken_.push_back(what);
  }
  void expect(bool holds, const Node* node, const char* what) {
    if (!holds) broken_.push_back(name(node) + what);
  }
  void expect(bool holds, const StoreSnapshot::Space& space, const char* what) {
    if (!holds) broken_.push_back("namespace " + space.name + what);
  }

  const Node* find(uint64_t serial) const {
    const auto found = std::lower_bound(by_serial_.begin(), by_serial_.end(), serial,
                                        [](const Node* node, uint64_t s) { return node->serial < s; });
    return found == by_serial_.end() || (*found)->serial != serial ? nullptr : *found;
  }
  size_t index_of(const Node* node) const { return static_cast<size_t>(node - store_.nodes.data()); }

  // Returns the number of ancestors; 0 if the chain is broken, which another check reports.
  size_t n_above(const Node& node) const {
    if (node.marks.empty()) return 0;
    size_t n = 0;
    for (uint64_t serial = node.parent; serial != 0; ++n) {
      const Node* parent = find(serial);
      if (parent == nullptr || n > store_.nodes.size()) return 0;
      serial = parent->parent;
    }
    return n;
  }

  // True if `first` is evicted before `second`, or at the same place in the order.
  static bool in_order(const Node& first, const Node& second) {
    if (first.marks.empty() != second.marks.empty()) return first.marks.empty();
    if (!first.marks.empty()) return first.last_used <= second.last_used;
    return std::pair(first.rank, first.last_used) <= std::pair(second.rank, second.last_used);
  }

  void index_nodes() {
    std::vector<std::pair<const void*, const Node*>> pages;
    for (const Node& node : store_.nodes) {
      by_serial_.push_back(&node);
      pages.emplace_back(node.page, &node);
    }
    std::sort(by_serial_.begin(), by_serial_.end(), [](const Node* a, const Node* b) { return a->serial < b->serial; });
    std::sort(pages.begin(), pages.end());
    for (size_t i = 0; i < by_serial_.size(); ++i) {
      const Node* node = by_serial_[i];
      expect(node->serial != 0 && (i == 0 || by_serial_[i - 1]->serial != node->serial), node, " is there twice");
      expect(pages[i].first != nullptr && (i == 0 || pages[i - 1].first != pages[i].first), pages[i].second,
             " has a page that another node has");
    }
  }

  void check_node(const Node& node) {
    expect(!node.ids.empty() && node.ids.size() <= kPagePositions, &node, " has a wrong number of ids");
    expect(node.ids.size() == kPagePositions || node.children.empty(), &node, " has children and is not full");
    expect(node.page_holders >= 1, &node, " holds a page without holders");
    const Node* parent = find(node.parent);
    expect(node.parent == 0 || parent != nullptr, &node, " has no parent");
    if (parent != nullptr) {
      expect(parent->space == 0 || parent->space == node.space, &node,
             " hangs below a private node of another namespace");
    }
    const std::vector<uint64_t>* siblings = node.parent == 0    ? &store_.root_children
                                            : parent != nullptr ? &parent->children
                                                                : nullptr;
    expect(siblings != nullptr && std::count(siblings->begin(), siblings->end(), node.serial) == 1, &node,
           " is not exactly once among its parent's children");
    const size_t begin = n_above(node) * kPagePositions;
    for (const size_t mark : node.marks) {
      expect(mark > begin && mark <= begin + node.ids.size(), &node, " has a mark of ids that it does not have");
    }
    expect(node.logits.size() <= kMaxCachedLogits, &node, " remembers too many logits");
    for (size_t i = 0; i < node.logits.size(); ++i) {
      const size_t n_tokens = node.logits[i].n_tokens;
      expect(n_tokens >= 1 && n_tokens <= node.ids.size(), &node, " remembers logits behind ids that it does not have");
      for (size_t j = 0; j < i; ++j) {
        expect(node.logits[j].n_tokens != n_tokens, &node, " remembers the same logits twice");
      }
    }
  }

  // Siblings must be sorted by namespace and tokens, and none may be a prefix of the next, and so of any other. Logits
  // must be at the first sibling that begins with their tokens.
  void check_siblings(const std::vector<uint64_t>& serials, const Node* parent) {
    const Node* last = nullptr;
    for (const uint64_t serial : serials) {
      const Node* node = find(serial);
      expect(node != nullptr, parent, " has a child that is not there");
      if (node == nullptr) continue;
      if (last != nullptr && last->space == node->space) {
        const size_t common = common_prefix_length(last->ids, node->ids);
        expect(last->ids < node->ids, parent, " has children out of order");
        expect(common < last->ids.size(), parent, " has children of which one is a prefix of the other");
        for (const StoreSnapshot::Logits& ending : node->logits) {
          expect(ending.n_tokens > common, node, " remembers logits that its sibling should have");
        }
      } else if (last != nullptr) {
        expect(last->space < node->space, parent, " has namespaces out of order");
      }
      last = node;
    }
  }

  // Every node must be reached once from the root: no cycles, no unreachable nodes.
  void check_reachable() {
    std::vector<bool> seen(store_.nodes.size(), false);
    size_t n_seen = 0;
    std::vector<uint64_t> open = store_.root_children;
    while (!open.empty()) {
      const Node* node = find(open.back());
      open.pop_back();
      if (node == nullptr || seen[index_of(node)]) continue;
      seen[index_of(node)] = true;
      ++n_seen;
      open.insert(open.end(), node->children.begin(), node->children.end());
    }
    expect(n_seen == store_.nodes.size(), "not every node can be reached from the root");
  }

  void check_queue() {
    std::vector<bool> queued(store_.nodes.size(), false);
    for (size_t place = 0; place < store_.queue.size(); ++place) {
      const Node* node = find(store_.queue[place]);
      expect(node != nullptr, "the queue holds a leaf that is not there");
      if (node == nullptr) continue;
      expect(!queued[index_of(node)], node, " is queued twice");
      queued[index_of(node)] = true;
      expect(node->children.empty(), node, " is queued and has children");
      const Node* before = place == 0 ? nullptr : find(store_.queue[(place - 1) / 2]);
      if (before == nullptr) continue;
      expect(in_order(*before, *node), node, " is queued behind one that should go after it");
    }
    for (const Node& node : store_.nodes) {
      expect(!node.children.empty() || queued[index_of(&node)], &node, " is a leaf and not queued");
    }
  }

  void check_spaces() {
    std::set<std::string> names;
    size_t n_pages = 0;
    for (const StoreSnapshot::Space& space : store_.spaces) {
      size_t pages = 0, bytes = 0;
      for (const Node& node : store_.nodes) {
        if (node.space != space.id) continue;
        ++pages;
        for (const StoreSnapshot::Logits& ending : node.logits) bytes += ending.bytes;
      }
      for (const StoreSnapshot::State& state : store_.states) bytes += state.space == space.id ? state.bytes : 0;
      n_pages += pages;
      expect(space.pages == pages, space, " miscounts its pages");
      expect(space.bytes == pages * store_.page_charge_bytes + bytes, space, " miscounts its bytes");
      expect(space.id == 0 || space.bytes > 0, space, " is kept without pages or states");
      expect(space.id == 0 || names.insert(space.name).second, space, " is there twice");
    }
    expect(n_pages == store_.nodes.size(), "a node belongs to a namespace that is not there");
  }

  // States must be sorted and distinct, and each must record the length of the longest other state that is its prefix.
  void check_states() {
    using State = StoreSnapshot::State;
    const auto begins = [](const State& state, const State& other) {
      return state.space == other.space && state.ids.size() < other.ids.size() &&
             common_prefix_length(state.ids, other.ids) == state.ids.size();
    };
    for (size_t i = 0; i < store_.states.size(); ++i) {
      const State& state = store_.states[i];
      size_t n_before = 0;
      for (const State& other : store_.states) {
        if (begins(other, state)) n_before = std::max(n_before, other.ids.size());
      }
      expect(state.n_before == n_before, "a state does not know the one before it");
      expect(is_reached(state.space, state.ids), "nobody can go on from a state: the rows in front of it are gone");
      if (i == 0) continue;
      const State& last = store_.states[i - 1];
      expect(std::pair(last.space, last.ids) < std::pair(state.space, state.ids), "states are out of order");
    }
  }

  // True if keys and values of all tokens are cached, in the namespace or in the shared one.
  bool is_reached(uint64_t space, TokenSpan ids) const {
    std::vector<uint64_t> parents = {0};
    for (size_t begin = 0; begin < ids.size(); begin += kPagePositions) {
      const TokenSpan wanted = ids.subspan(begin, std::min(kPagePositions, ids.size() - begin));
      std::vector<uint64_t> next;
      for (const Node& node : store_.nodes) {
        const bool is_below = std::ranges::find(parents, node.parent) != parents.end();
        if (!is_below || (node.space != space && node.space != 0)) continue;
        if (common_prefix_length(node.ids, wanted) == wanted.size()) next.push_back(node.serial);
      }
      parents = std::move(next);
    }
    return !parents.empty();
  }

  void check_sums() {
    size_t states_bytes = 0;
    for (const StoreSnapshot::State& state : store_.states) states_bytes += state.bytes;
    expect(states_bytes == store_.states_bytes, "bytes of states do not add up");
    size_t pins = 0, marks = 0, logits_bytes = 0;
    for (const Node& node : store_.nodes) {
      pins += node.n_pins;
      marks += node.marks.size();
      for (const StoreSnapshot::Logits& ending : node.logits) logits_bytes += ending.bytes;
    }
    expect(pins == store_.n_pins, "pins do not add up");
    expect(marks == store_.n_marks, "marks do not add up");
    expect(store_.pages == store_.nodes.size(), "pages do not add up");
    expect(logits_bytes == store_.logits_bytes, "bytes of logits do not add up");
    expect(logits_bytes <= store_.logits_budget_bytes, "logits exceed their share of the budget");
    expect(store_.charge_bytes == store_.nodes.size() * store_.page_charge_bytes + logits_bytes + states_bytes,
           "bytes do not add up");
    expect(store_.charge_bytes - states_bytes <= store_.budget_bytes, "the budget is exceeded");
    expect(store_.nodes.size() <= store_.pool_pages_in_use, "the store holds pages that the pool has not given");
    expect(store_.pool_pages_in_use <= store_.pool_budget_pages, "the pool's budget is exceeded");
  }

  const StoreSnapshot& store_;
  std::vector<const Node*> by_serial_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> validate_store(const StoreSnapshot& snapshot) { return Validator(snapshot).run(); }

}  // namespace ibid
