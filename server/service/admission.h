// Admission: which request runs next. Owners take turns (server/service/turn_queue.h). What would be too much is
// refused at the door.
//
// A container of tickets: it knows no threads, clocks or models. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/service/turn_queue.h"

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

  // Puts a request into its owner's queue. Error: kBusy: as many wait as may, or so many bytes of prompts. A request is
  // never refused for its own size where nothing waits.
  Status enter(const std::string& owner, size_t prompt_bytes, Ticket ticket) {
    if (n_waiting() >= limits_.max_waiting && n_waiting() > 0) {
      return {ErrorCode::kBusy, std::to_string(n_waiting()) + " requests are waiting, and no more may"};
    }
    if (n_waiting() > 0 && waiting_bytes_ + prompt_bytes > limits_.max_waiting_prompt_bytes) {
      return {ErrorCode::kBusy, "requests with prompts of " + std::to_string(waiting_bytes_) +
                                    " bytes are waiting, and no more may"};
    }
    queue_.push(owner, {std::move(ticket), prompt_bytes});
    waiting_bytes_ += prompt_bytes;
    return {};
  }

  // The next to run, which runs from here on until leave(). Nothing: nobody waits, or as many run as may.
  std::optional<Ticket> next() {
    if (!has_room() || queue_.empty()) return std::nullopt;
    Waiting first = queue_.take();
    waiting_bytes_ -= first.prompt_bytes;
    ++n_running_;
    return std::move(first.ticket);
  }

  // Another may run.
  bool has_room() const { return n_running_ < limits_.max_running; }
  // One that ran is over.
  void leave() { --n_running_; }

  // One that ran waits for something else, in a queue of its own, and counts as waiting; until it goes on, or is over.
  void park(size_t prompt_bytes) {
    leave();
    ++n_parked_;
    waiting_bytes_ += prompt_bytes;
  }
  void leave_parked(size_t prompt_bytes) {
    --n_parked_;
    waiting_bytes_ -= prompt_bytes;
  }
  void go_on(size_t prompt_bytes) {
    leave_parked(prompt_bytes);
    ++n_running_;
  }

  // Takes out of the queues what `goes` says.
  template <typename Predicate>
  std::vector<Ticket> remove_if(const Predicate& goes) {
    std::vector<Ticket> gone;
    for (Waiting& waiting : queue_.remove_if([&](const Waiting& one) { return goes(one.ticket); })) {
      waiting_bytes_ -= waiting.prompt_bytes;
      gone.push_back(std::move(waiting.ticket));
    }
    return gone;
  }

  size_t n_running() const { return n_running_; }
  size_t n_waiting() const { return queue_.size() + n_parked_; }

 private:
  struct Waiting {
    Ticket ticket;
    size_t prompt_bytes = 0;
  };

  const AdmissionLimits limits_;
  TurnQueue<Waiting> queue_;
  size_t n_running_ = 0;
  size_t n_parked_ = 0;
  size_t waiting_bytes_ = 0;
};

}  // namespace ibid::serve
