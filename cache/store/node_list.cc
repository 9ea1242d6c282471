#include "cache/store/node_list.h"

#include <utility>

#include "cache/store/prefix_node.h"

namespace ibid {

void NodeList::push(PrefixNode& node) { node.link.next_ = std::exchange(first_, &node); }

PrefixNode& NodeList::pop() {
  PrefixNode& node = *first_;
  first_ = std::exchange(node.link.next_, nullptr);
  return node;
}

void RemovedNodes::add(std::unique_ptr<PrefixNode> node) {
  nodes_.push(*node.release());
  ++size_;
  ++n_total_;
}

void RemovedNodes::clear() {
  while (!nodes_.empty()) const std::unique_ptr<PrefixNode> node(&nodes_.pop());
  size_ = 0;
}

}  // namespace ibid
