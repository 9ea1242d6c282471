// KvReservations: how much of each engine's memory for keys and values the answers under way are going to need. It is
// an estimate, taken so that answers wait in front of the door instead of running out of memory in the middle: what
// several share is counted several times. Whoever is alone on an engine may have all of it.
//
// A ledger: it reserves nothing in the pool itself. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

#include "apps/serve/service/answer_request.h"
#include "runtime/engine/engine.h"

namespace ibid::serve {

class KvReservations {
 public:
  // What one request needs of an engine, or has.
  struct Room {
    const Engine* engine = nullptr;
    size_t n_bytes = 0;
    size_t budget_bytes = 0;
    bool is_held = false;
  };

  // n_prompt ids are read once, and each answer adds its own.
  static Room room_for(Engine& engine, const AnswerRequest& request, size_t n_prompt, size_t expected_answer) {
    const size_t n_answer = request.options.max_tokens == 0 ? expected_answer : request.options.max_tokens;
    const size_t n_most = engine.max_seq_len();
    const size_t n_read = std::min(n_prompt, n_most);
    const size_t n_pages = KvLayout::pages_for(n_read) +
                           request.n * (KvLayout::pages_for(std::min(n_answer, n_most - n_read)) + 1);
    return {.engine = &engine,
            .n_bytes = n_pages * engine.pool().layout().page_bytes(),
            .budget_bytes = engine.pool().budget_bytes()};
  }

  // False: there is no room for it now.
  bool try_reserve(Room& room) {
    Held& held = held_[room.engine];
    if (held.n > 0 && held.n_bytes + room.n_bytes > room.budget_bytes) return false;
    ++held.n;
    held.n_bytes += room.n_bytes;
    room.is_held = true;
    return true;
  }

  // The same request turns out to need another room. It may then be more than there is.
  void correct(Room& room, const Room& better) {
    if (!room.is_held) return;
    held_[room.engine].n_bytes += better.n_bytes - room.n_bytes;
    room.n_bytes = better.n_bytes;
  }

  void give_back(Room& room) {
    if (!room.is_held) return;
    room.is_held = false;
    const auto found = held_.find(room.engine);
    found->second.n_bytes -= room.n_bytes;
    if (--found->second.n == 0) held_.erase(found);
  }

  // For a request that found too little: it waits until it is alone.
  void give_back_and_want_all(Room& room) {
    give_back(room);
    room.n_bytes = room.budget_bytes;
  }

  // How many have room of the same engine.
  size_t n_holders(const Room& room) const {
    const auto found = held_.find(room.engine);
    return found == held_.end() ? 0 : found->second.n;
  }

 private:
  struct Held {
    size_t n = 0;
    size_t n_bytes = 0;
  };
  std::map<const Engine*, Held> held_;
};

}  // namespace ibid::serve
