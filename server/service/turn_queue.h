// TurnQueue: what waits, in a queue for each owner. The owners take turns, so that one with many does not keep the
// others waiting.
//
// A container of tickets. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <list>
#include <string>
#include <utility>
#include <vector>

namespace ibid::serve {

template <typename Ticket>
class TurnQueue {
 public:
  void push(const std::string& owner, Ticket ticket) {
    auto queue = std::ranges::find(queues_, owner, &Queue::owner);
    if (queue == queues_.end()) queue = queues_.insert(queues_.end(), Queue{owner, {}});
    queue->tickets.push_back(std::move(ticket));
    ++size_;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Whose turn it is. REQUIRES: it is not empty.
  Ticket& next() { return queues_.front().tickets.front(); }
  // Takes it out, and its owner is the last to have a turn again. REQUIRES: likewise.
  Ticket take() {
    Queue& first = queues_.front();
    Ticket ticket = std::move(first.tickets.front());
    first.tickets.pop_front();
    --size_;
    if (first.tickets.empty()) {
      queues_.pop_front();
    } else {
      queues_.splice(queues_.end(), queues_, queues_.begin());
    }
    return ticket;
  }

  // Takes out what `goes` says.
  template <typename Predicate>
  std::vector<Ticket> remove_if(const Predicate& goes) {
    std::vector<Ticket> gone;
    for (Queue& queue : queues_) {
      for (auto it = queue.tickets.begin(); it != queue.tickets.end();) {
        if (!goes(*it)) {
          ++it;
          continue;
        }
        gone.push_back(std::move(*it));
        it = queue.tickets.erase(it);
      }
    }
    size_ -= gone.size();
    queues_.remove_if([](const Queue& queue) { return queue.tickets.empty(); });
    return gone;
  }

 private:
  struct Queue {
    std::string owner;
    std::deque<Ticket> tickets;  // never empty between calls
  };
  std::list<Queue> queues_;  // the first has its turn
  size_t size_ = 0;
};

}  // namespace ibid::serve
