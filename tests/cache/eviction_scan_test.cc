#include "cache/store/eviction_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "cache/store/prefix_node.h"
#include "tests/cache/tiny_kv.h"

namespace ibid {
namespace {

// Returns the number of removable nodes in the subtree of this node, and whether all of them are removable.
std::pair<size_t, bool> removable(const PrefixNode& node) {
  size_t n = 0;
  bool all = true;
  for (const PrefixNode* child : node.children) {
    const auto [below, whole] = removable(*child);
    n += below;
    all = all && whole;
  }
  all = all && node.parent != nullptr && node.is_idle();
  return {n + (all ? 1 : 0), all};
}

TEST(EvictionScan, CountsRemovableNodesUpToTheLimit) {
  const KvLayout layout = tiny_layout(KvDType::kF32);
  KvPagePool pool(layout, 100 * layout.page_bytes());
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 rng(seed);
    const size_t n_nodes = 1 + rng() % 60;
    PrefixNode root;
    std::vector<std::unique_ptr<PrefixNode>> nodes;
    std::vector<KvPage> held;
    for (size_t i = 0; i < n_nodes; ++i) {
      nodes.push_back(std::make_unique<PrefixNode>());
      PrefixNode& node = *nodes.back();
      node.parent = i == 0 || rng() % 5 == 0 ? &root : nodes[rng() % i].get();
      node.parent->children.push_back(&node);
      node.page = *pool.allocate();
      if (rng() % 8 == 0) held.push_back(node.page);
    }
    std::vector<PrefixNode*> leaves;
    for (const auto& node : nodes) {
      if (node->children.empty()) leaves.push_back(node.get());
    }
    EvictionScan scan;
    scan.reserve(n_nodes);
    const size_t all = removable(root).first;
    EXPECT_EQ(scan.count(leaves, n_nodes), all) << seed;
    for (size_t n = 0; n <= n_nodes; ++n) EXPECT_EQ(scan.count(leaves, n), std::min(n, all));
    std::shuffle(leaves.begin(), leaves.end(), rng);
    EXPECT_EQ(scan.count(leaves, n_nodes), all) << "independent of the order of the leaves";
  }
}

}  // namespace
}  // namespace ibid
