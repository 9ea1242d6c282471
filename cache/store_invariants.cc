#include "cache/store_invariants.h"

#include <algorithm>
#include <map>
#include <set>

#include "cache/token_prefix.h"
#include "kernels/kernels.h"

namespace ibid {

namespace {

class Validator {
 public:
  explicit Validator(const StoreSnapshot& store) : store_(store) {}

  std::vector<std::string> run() {
    index_nodes();
    for (const StoreSnapshot::Node& node : store_.nodes) check_node(node);
    check_siblings(store_.root_children, "the root");
    for (const StoreSnapshot::Node& node : store_.nodes) check_siblings(node.children, name(node));
    check_reachable();
    check_leaves();
    check_spaces();
    check_sums();
    return std::move(broken_);
  }

 private:
  static std::string name(const StoreSnapshot::Node& node) { return "node " + std::to_string(node.serial); }

  void expect(bool holds, const std::string& what) {
    if (!holds) broken_.push_back(what);
  }

  const StoreSnapshot::Node* find(uint64_t serial) const {
    const auto found = by_serial_.find(serial);
    return found == by_serial_.end() ? nullptr : found->second;
  }

  void index_nodes() {
    std::set<const void*> pages;
    for (const StoreSnapshot::Node& node : store_.nodes) {
      expect(node.serial != 0 && by_serial_.emplace(node.serial, &node).second,
             name(node) + " is there twice");
      expect(node.page != nullptr && pages.insert(node.page).second,
             name(node) + " has a page that another node has");
    }
  }

  void check_node(const StoreSnapshot::Node& node) {
    expect(!node.ids.empty() && node.ids.size() <= kPagePositions, name(node) + " has a wrong number of ids");
    expect(node.ids.size() == kPagePositions || node.children.empty(),
           name(node) + " has children and is not full");
    expect(node.page_holders >= 1, name(node) + " holds a page without holders");
    const StoreSnapshot::Node* parent = find(node.parent);
    expect(node.parent == 0 || parent != nullptr, name(node) + " has no parent");
    if (parent != nullptr) {
      expect(parent->space == 0 || parent->space == node.space,
             name(node) + " hangs below a private node of another namespace");
    }
    const std::vector<uint64_t>* siblings = node.parent == 0    ? &store_.root_children
                                            : parent != nullptr ? &parent->children
                                                                : nullptr;
    expect(siblings != nullptr && std::count(siblings->begin(), siblings->end(), node.serial) == 1,
           name(node) + " is not exactly once among its parent's children");
  }

  // Sorted by namespace and ids, and none a prefix of the next: then none is a prefix of any other.
  void check_siblings(const std::vector<uint64_t>& serials, const std::string& parent) {
    const StoreSnapshot::Node* last = nullptr;
    for (const uint64_t serial : serials) {
      const StoreSnapshot::Node* node = find(serial);
      expect(node != nullptr, parent + " has a child that is not there");
      if (node == nullptr) continue;
      if (last != nullptr && last->space == node->space) {
        expect(last->ids < node->ids, parent + " has children out of order");
        expect(common_prefix_length(last->ids, node->ids) < last->ids.size(),
               parent + " has children of which one is a prefix of the other");
      } else if (last != nullptr) {
        expect(last->space < node->space, parent + " has namespaces out of order");
      }
      last = node;
    }
  }

  // From the root every node is met once: no cycles, no islands.
  void check_reachable() {
    std::set<uint64_t> seen;
    std::vector<uint64_t> open = store_.root_children;
    while (!open.empty()) {
      const uint64_t serial = open.back();
      open.pop_back();
      if (!seen.insert(serial).second) continue;
      if (const StoreSnapshot::Node* node = find(serial)) {
        open.insert(open.end(), node->children.begin(), node->children.end());
      }
    }
    expect(seen.size() == store_.nodes.size(), "not every node can be reached from the root");
  }

  void check_leaves() {
    const std::set<uint64_t> listed(store_.leaves.begin(), store_.leaves.end());
    expect(listed.size() == store_.leaves.size(), "a leaf is queued twice");
    uint64_t last_used = 0;
    for (const uint64_t serial : store_.leaves) {
      const StoreSnapshot::Node* node = find(serial);
      expect(node != nullptr, "the queue holds a leaf that is not there");
      if (node == nullptr) continue;
      expect(node->children.empty(), name(*node) + " is queued and has children");
      expect(node->last_used >= last_used, name(*node) + " is queued behind a younger leaf");
      last_used = node->last_used;
    }
    for (const StoreSnapshot::Node& node : store_.nodes) {
      expect(!node.children.empty() || listed.count(node.serial) == 1,
             name(node) + " is a leaf and not queued");
    }
  }

  void check_spaces() {
    std::map<uint64_t, size_t> pages;
    for (const StoreSnapshot::Node& node : store_.nodes) ++pages[node.space];
    std::set<std::string> names;
    for (const StoreSnapshot::Space& space : store_.spaces) {
      expect(pages[space.id] == space.pages, "namespace " + space.name + " miscounts its pages");
      expect(space.id == 0 || space.pages > 0, "namespace " + space.name + " is kept without pages");
      expect(space.id == 0 || names.insert(space.name).second, "namespace " + space.name + " is there twice");
      pages.erase(space.id);
    }
    expect(pages.empty(), "a node belongs to a namespace that is not there");
  }

  void check_sums() {
    size_t pins = 0;
    for (const StoreSnapshot::Node& node : store_.nodes) pins += node.n_pins;
    expect(pins == store_.n_pins, "pins do not add up");
    expect(store_.pages == store_.nodes.size(), "pages do not add up");
    expect(store_.charge_bytes == store_.nodes.size() * store_.page_charge_bytes, "bytes do not add up");
    expect(store_.charge_bytes <= store_.budget_bytes, "the budget is exceeded");
    expect(store_.nodes.size() <= store_.pool_pages_in_use,
           "the store holds pages that the pool has not given");
    expect(store_.pool_pages_in_use <= store_.pool_budget_pages, "the pool's budget is exceeded");
  }

  const StoreSnapshot& store_;
  std::map<uint64_t, const StoreSnapshot::Node*> by_serial_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> validate_store(const StoreSnapshot& snapshot) { return Validator(snapshot).run(); }

}  // namespace ibid
