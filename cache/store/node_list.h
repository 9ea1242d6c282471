// NodeList: nodes of the prefix tree that a call collects, by a link in each node, so that collecting takes no memory
// and cannot fail. A node is in one list at a time. And RemovedNodes: a list that owns what left the tree.
#pragma once

#include <cstddef>
#include <memory>

namespace ibid {

struct PrefixNode;

// What NodeList keeps of a node.
class NodeLink {
  friend class NodeList;
  PrefixNode* next_ = nullptr;
};

// Last in, first out. Owns nothing.
class NodeList {
 public:
  bool empty() const { return first_ == nullptr; }
  PrefixNode& first() const { return *first_; }
  void push(PrefixNode& node);
  // REQUIRES: not empty.
  PrefixNode& pop();

 private:
  PrefixNode* first_ = nullptr;
};

// Nodes that left the tree. Their pages are zeroed as they are given back, which takes time. So they are given back
// when this object is destroyed, after the store's lock is released.
class RemovedNodes {
 public:
  // Each one that is added is counted in n_total as well.
  explicit RemovedNodes(size_t& n_total) : n_total_(n_total) {}
  RemovedNodes(const RemovedNodes&) = delete;
  RemovedNodes& operator=(const RemovedNodes&) = delete;
  ~RemovedNodes() { clear(); }
  void add(std::unique_ptr<PrefixNode> node);
  void clear();
  size_t size() const { return size_; }

 private:
  NodeList nodes_;
  size_t size_ = 0;
  size_t& n_total_;
};

}  // namespace ibid
