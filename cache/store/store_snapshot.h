// StoreSnapshot: a copy of everything in a LruKvCacheStore as plain data, taken under the store's lock. The rules that
// hold between any two calls are checked on it (tests/support/store_invariants.h), so no check needs to see the store's
// own parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ibid/token.h"

namespace ibid {

class KvPagePool;
class PrefixTree;
class StateIndex;
class StoreSpaces;

struct StoreSnapshot {
  struct Ending {
    size_t n_ids = 0;
    size_t bytes = 0;
  };
  struct Node {
    uint64_t serial = 0;
    uint64_t parent = 0;  // serial of the parent, 0: the root
    uint64_t space = 0;   // 0: shared
    Tokens ids;
    const void* page = nullptr;
    size_t page_holders = 0;
    size_t n_pins = 0;
    uint64_t rank = 0;
    uint64_t last_used = 0;
    std::vector<uint64_t> children;  // serials, in the order of the tree
    std::vector<Ending> endings;     // in no order
    std::vector<size_t> marks;       // of sequences at rest: how many of their ids the path has
    bool has_window = true;          // its rows behind a window are there
  };
  struct State {
    uint64_t space = 0;
    Tokens ids;
    size_t n_before = 0;  // ids of the one before it
    size_t bytes = 0;
    std::vector<Tokens> tails;
  };
  struct Space {
    uint64_t id = 0;
    std::string name;
    size_t pages = 0;
    size_t bytes = 0;
  };

  std::vector<Node> nodes;              // in no order, without the root
  std::vector<uint64_t> root_children;  // serials
  std::vector<uint64_t> queue;          // serials of the leaves, a heap: the first goes first
  std::vector<State> states;            // recurrent ones, in order
  std::vector<Space> spaces;
  size_t n_pins = 0;
  size_t n_marks = 0;
  size_t pages = 0;
  size_t charge_bytes = 0;
  size_t page_charge_bytes = 0;
  size_t budget_bytes = 0;
  size_t states_bytes = 0;
  size_t endings_bytes = 0;
  size_t endings_budget_bytes = 0;
  size_t pool_pages_in_use = 0;
  size_t pool_budget_pages = 0;
};

// What tree, states and namespaces hold; the budgets and the pool's figures are not filled in. May throw
// std::bad_alloc.
StoreSnapshot snapshot_of(const PrefixTree& tree, const StateIndex& states, const StoreSpaces& spaces,
                          const KvPagePool& pool);

}  // namespace ibid
