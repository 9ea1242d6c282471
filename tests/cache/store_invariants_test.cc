#include "tests/support/store_invariants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/kernels.h"

namespace ibid {
namespace {

using testing::HasSubstr;

// A valid store with this tree: root - 1 (shared, full) - 2 (namespace 1, full) - 4 (namespace 1, 3 tokens)
//                                           \ 3 (namespace 1, 2 tokens)
StoreSnapshot sound() {
  static const char pages[5] = {};
  StoreSnapshot store;
  const Tokens low(kPagePositions, 1);
  store.nodes = {{1, 0, 0, low, &pages[1], 1, 0, 1, 1, {2, 3}, {}},
                 {2, 1, 1, low, &pages[2], 2, 0, 1, 2, {4}, {{64, 2}}},
                 {3, 1, 1, {1, 2}, &pages[3], 1, 1, 1, 3, {}, {{2, 1}}},
                 {4, 2, 1, {5, 6, 7}, &pages[4], 1, 0, 1, 4, {}, {}}};
  store.root_children = {1};
  store.queue = {3, 4};
  store.spaces = {{0, "(shared)", 1, 10}, {1, "alice", 3, 33}};
  store.n_pins = 1;
  store.pages = 4;
  store.page_charge_bytes = 10;
  store.charge_bytes = 43;
  store.budget_bytes = 43;
  store.logits_bytes = 3;
  store.logits_budget_bytes = 3;
  store.pool_pages_in_use = 5;
  store.pool_budget_pages = 5;
  return store;
}

TEST(StoreInvariants, ValidStoreHasNoViolations) { EXPECT_THAT(validate_store(sound()), testing::IsEmpty()); }

TEST(StoreInvariants, EveryViolatedRuleIsReported) {
  struct Case {
    const char* expected;
    std::function<void(StoreSnapshot&)> breaks;
  };
  const std::vector<Case> cases = {
      {"is there twice", [](StoreSnapshot& s) { s.nodes[3].serial = 3; }},
      {"page that another node has", [](StoreSnapshot& s) { s.nodes[1].page = s.nodes[0].page; }},
      {"wrong number of ids", [](StoreSnapshot& s) { s.nodes[3].ids.clear(); }},
      {"is not full", [](StoreSnapshot& s) { s.nodes[1].ids.pop_back(); }},
      {"without holders", [](StoreSnapshot& s) { s.nodes[2].page_holders = 0; }},
      {"has no parent", [](StoreSnapshot& s) { s.nodes[3].parent = 9; }},
      {"another namespace", [](StoreSnapshot& s) { s.nodes[3].space = 2; }},
      {"not exactly once among", [](StoreSnapshot& s) { s.nodes[1].children.clear(); }},
      {"not exactly once among", [](StoreSnapshot& s) { s.root_children.push_back(1); }},
      {"a child that is not there", [](StoreSnapshot& s) { s.root_children.push_back(9); }},
      {"out of order", [](StoreSnapshot& s) { std::swap(s.nodes[0].children[0], s.nodes[0].children[1]); }},
      {"prefix of the other",
       [](StoreSnapshot& s) {
         s.nodes[2].ids = Tokens(2, 1);
         std::swap(s.nodes[0].children[0], s.nodes[0].children[1]);
         s.nodes[1].logits.clear();
       }},
      {"namespaces out of order", [](StoreSnapshot& s) { s.nodes[1].space = 2; }},
      {"not every node can be reached",
       [](StoreSnapshot& s) {
         s.nodes[1].parent = 4;
         s.nodes[0].children = {3};
         s.nodes[3].children = {2};
         s.nodes[3].ids = Tokens(kPagePositions, 4);
       }},
      {"queued twice", [](StoreSnapshot& s) { s.queue.push_back(4); }},
      {"the queue holds a leaf that is not there", [](StoreSnapshot& s) { s.queue.push_back(9); }},
      {"is queued and has children", [](StoreSnapshot& s) { s.queue.insert(s.queue.begin(), 1); }},
      {"should go after it", [](StoreSnapshot& s) { std::swap(s.queue[0], s.queue[1]); }},
      {"is a leaf and not queued", [](StoreSnapshot& s) { s.queue.pop_back(); }},
      {"miscounts its pages", [](StoreSnapshot& s) { ++s.spaces[1].pages; }},
      {"miscounts its bytes", [](StoreSnapshot& s) { ++s.spaces[1].bytes; }},
      {"kept without pages",
       [](StoreSnapshot& s) {
         s.spaces.push_back({7, "bob", 0, 0});
       }},
      {"namespace alice is there twice",
       [](StoreSnapshot& s) {
         s.spaces.push_back({7, "alice", 0, 0});
       }},
      {"namespace that is not there", [](StoreSnapshot& s) { s.spaces.pop_back(); }},
      {"too many logits",
       [](StoreSnapshot& s) {
         s.nodes[1].logits = {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}};
       }},
      {"ids that it does not have", [](StoreSnapshot& s) { s.nodes[2].logits[0].n_tokens = 3; }},
      {"ids that it does not have", [](StoreSnapshot& s) { s.nodes[2].logits[0].n_tokens = 0; }},
      {"same logits twice",
       [](StoreSnapshot& s) {
         s.nodes[2].logits.push_back({2, 0});
       }},
      {"its sibling should have", [](StoreSnapshot& s) { s.nodes[2].logits[0].n_tokens = 1; }},
      {"bytes of logits do not add up", [](StoreSnapshot& s) { ++s.logits_bytes; }},
      {"exceed their share", [](StoreSnapshot& s) { s.logits_budget_bytes = 2; }},
      {"pins do not add up", [](StoreSnapshot& s) { s.n_pins = 0; }},
      {"pages do not add up", [](StoreSnapshot& s) { s.pages = 3; }},
      {"bytes do not add up", [](StoreSnapshot& s) { s.charge_bytes = 30; }},
      {"the budget is exceeded", [](StoreSnapshot& s) { s.budget_bytes = 42; }},
      {"that the pool has not given", [](StoreSnapshot& s) { s.pool_pages_in_use = 3; }},
      {"the pool's budget is exceeded", [](StoreSnapshot& s) { s.pool_budget_pages = 4; }},
  };
  for (const Case& broken : cases) {
    StoreSnapshot store = sound();
    broken.breaks(store);
    EXPECT_THAT(validate_store(store), testing::Contains(HasSubstr(broken.expected)));
  }
}

}  // namespace
}  // namespace ibid
