// StoreSnapshot: copy of the whole content of a LruKvCacheStore as plain data, taken under the store's lock. Tests
// check the invariants of the store on this copy (tests/support/store_invariants.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ibid/token.h"

namespace ibid {

struct StoreSnapshot {
  struct Logits {
    size_t n_tokens = 0;
    size_t bytes = 0;
  };
  struct Node {
    uint64_t serial = 0;
    uint64_t parent = 0;  // PrefixNode::serial of the parent; 0: the root
    uint64_t space = 0;   // number of the namespace; 0: the shared one
    Tokens ids;
    const void* page = nullptr;
    size_t page_holders = 0;
    size_t n_pins = 0;
    uint64_t rank = 0;
    uint64_t last_used = 0;
    std::vector<uint64_t> children;  // serials, in tree order
    std::vector<Logits> logits;      // in no particular order
    std::vector<size_t> marks;       // for each idle sequence that ends at this node: number of tokens of the sequence
    bool has_window = true;          // false if the window part was evicted
  };
  struct State {
    uint64_t space = 0;
    Tokens ids;
    size_t n_before = 0;  // number of tokens of the longest prefix state, from which this state would be recomputed
    size_t bytes = 0;
    std::vector<Tokens> tails;
  };
  struct Space {
    uint64_t id = 0;
    std::string name;
    size_t pages = 0;
    size_t bytes = 0;
  };

  std::vector<Node> nodes;              // in no particular order, without the root
  std::vector<uint64_t> root_children;  // serials of the root's children
  std::vector<uint64_t> queue;          // serials of the leaves, in heap order: the first leaf is evicted first
  std::vector<State> states;            // recurrent states, in the order of StateIndex
  std::vector<Space> spaces;
  size_t n_pins = 0;
  size_t n_marks = 0;
  size_t pages = 0;
  size_t charge_bytes = 0;
  size_t page_charge_bytes = 0;
  size_t budget_bytes = 0;
  size_t states_bytes = 0;
  size_t logits_bytes = 0;
  size_t logits_budget_bytes = 0;
  size_t pool_pages_in_use = 0;
  size_t pool_budget_pages = 0;
};

}  // namespace ibid
