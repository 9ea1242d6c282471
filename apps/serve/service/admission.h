// Admission: which request runs next. Each namespace has a queue; they take turns, so that one with many requests
// does not keep the others waiting. What would be too much is refused at the door.
//
// A container of tickets: it knows no threads, clocks or models. Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ibid::serve {

struct AdmissionLimits {
  size_t max_running = 64;
  size_t max_waiting = 512;
  size_t max_waiting_prompt_bytes = 256u << 20;
};

// Ticket: a pointer to what waits, compared by address.
template <typename Ticket>
class Admission {
 public:
  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // Puts a request into its namespace's queue. Error: kBusy: as many wait as may, or so many bytes of prompts. A
  // request is never refused for its own size where nothing waits.
  Status enter(const std::string& name_space, size_t prompt_bytes, Ticket ticket) {
    if (n_waiting_ >= limits_.max_waiting && n_waiting_ > 0) {
      return {ErrorCode::kBusy, std::to_string(n_waiting_) + " requests are waiting, and no more may"};
    }
    if (n_waiting_ > 0 && waiting_bytes_ + prompt_bytes > limits_.max_waiting_prompt_bytes) {
      return {ErrorCode::kBusy, "requests with prompts of " + std::to_string(waiting_bytes_) +
                                    " bytes are waiting, and no more may"};
    }
    auto queue = queues_.begin();
    while (queue != queues_.end() && queue->name_space != name_space) ++queue;
    if (queue == queues_.end()) queue = queues_.insert(queues_.end(), Queue{name_space, {}});
    queue->waiting.push_back({std::move(ticket), prompt_bytes});
    ++n_waiting_;
    waiting_bytes_ += prompt_bytes;
    return {};
  }

  // The next to run, which runs from here on until leave(). Nothing: nobody waits, or as many run as may.
  std::optional<Ticket> next() {
    if (n_running_ >= limits_.max_running || queues_.empty()) return std::nullopt;
    Queue& first = queues_.front();
    Ticket ticket = std::move(first.waiting.front().ticket);
    drop(first, 0);
    ++n_running_;
    if (first.waiting.empty()) {
      queues_.pop_front();
    } else {
      queues_.splice(queues_.end(), queues_, queues_.begin());
    }
    return ticket;
  }

  // One that ran is over.
  void leave() { --n_running_; }

  // Takes out of the queues what `goes` says.
  template <typename Predicate>
  std::vector<Ticket> remove_if(const Predicate& goes) {
    std::vector<Ticket> gone;
    for (Queue& queue : queues_) {
      for (size_t i = 0; i < queue.waiting.size();) {
        if (!goes(queue.waiting[i].ticket)) {
          ++i;
          continue;
        }
        gone.push_back(std::move(queue.waiting[i].ticket));
        drop(queue, i);
      }
    }
    queues_.remove_if([](const Queue& queue) { return queue.waiting.empty(); });
    return gone;
  }

  size_t n_running() const { return n_running_; }
  size_t n_waiting() const { return n_waiting_; }

 private:
  struct Waiting {
    Ticket ticket;
    size_t prompt_bytes = 0;
  };
  struct Queue {
    std::string name_space;
    std::deque<Waiting> waiting;  // never empty between calls
  };

  void drop(Queue& queue, size_t i) {
    waiting_bytes_ -= queue.waiting[i].prompt_bytes;
    --n_waiting_;
    queue.waiting.erase(queue.waiting.begin() + static_cast<std::ptrdiff_t>(i));
  }

  const AdmissionLimits limits_;
  std::list<Queue> queues_;  // the first has its turn
  size_t n_running_ = 0;
  size_t n_waiting_ = 0;
  size_t waiting_bytes_ = 0;
};

}  // namespace ibid::serve
