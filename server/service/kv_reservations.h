// KvReservations: how much of each engine's memory for keys, values and recurrent states the answers under way need
// at most, so that answers wait until there is room instead of running out of memory: what several share is counted
// several times. An answer whose length nobody said has room for the expected one, and more as it grows. A request that
// is alone on an engine may have all of it.
//
// A ledger: it reserves nothing in the pool itself. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

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

  // The lengths that decide how much memory the answers to one prompt need.
  struct Need {
    size_t n_prompt = 0;
    size_t n_dropped = 0;  // ids of its conversation that the prompt does not keep; a turn holds their rows to its end
    size_t n_answer = 0;   // ids of an answer
    size_t n_answers = 1;
  };
  static size_t bytes_for(const KvLayout& layout, size_t max_seq_len, const Need& need) {
    const size_t n_read = std::min(need.n_prompt, max_seq_len);
    const size_t n_said = std::min(need.n_answer, max_seq_len - n_read);
    // An answer writes its first rows into a copy of the prompt's last page.
    const size_t n_pages = KvLayout::pages_for(n_read) + KvLayout::pages_for(need.n_dropped) +
                           need.n_answers * (KvLayout::pages_for(n_said) + 1);
    const size_t n_states = std::max<size_t>(need.n_answers, 1) * KvLayout::kStatesAtWork;
    return n_pages * layout.page_bytes() + n_states * layout.state_bytes();
  }
  static Room room_for(const Engine& engine, const Need& need) {
    return {.engine = &engine,
            .n_bytes = bytes_for(engine.pool().layout(), engine.max_seq_len(), need),
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

  // The same request turns out to need another room. All together may then be more than there is.
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
