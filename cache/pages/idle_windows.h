// IdleWindows: the second parts of pages that nobody has leased, in the order in which the pool gives them up.
//
// Two lists. The parts behind a sequence are of no use to it any more, and go before anything else. The ends are what a
// sequence that rests, or one that begins with the same prompt, goes on from: without them all of it is read again, so
// they go after everything else. Within a list the part that was returned first is the first to go.
//
// Not thread-safe: the pool locks. Nothing allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cache/pages/page_slabs.h"

namespace ibid {

// The second part of a page: nobody's yet; leased so many times; idle; or gone.
struct PageWindow {
  PageSlabs::Slot* memory = nullptr;  // null: gone
  uint32_t n_leases = 0;
  uint32_t n_readers = 0;             // it keeps its place in the order, and stays until they have done
  bool is_idle = false;
  bool is_end = false;                // as whoever had it last returned it,
  bool is_wanted = false;             // or as the store says

 private:
  friend class IdleWindows;
  size_t list_ = 0;
  PageWindow* older_ = nullptr;
  PageWindow* younger_ = nullptr;
};

class IdleWindows {
 public:
  enum List : size_t { kBehind, kEnds };

  // As the youngest of its list. REQUIRES: it is not idle.
  void push(PageWindow& window);
  void remove(PageWindow& window);
  // To be called when is_end or is_wanted of a window has changed.
  void update(PageWindow& window);

  // The one of a list that goes first; null: there is none, or all are being read.
  PageWindow* first(List list) const;
  size_t size(List list) const { return ends_[list].size; }
  size_t size() const { return size(kBehind) + size(kEnds); }

 private:
  struct Ends {
    PageWindow* oldest = nullptr;
    PageWindow* youngest = nullptr;
    size_t size = 0;
  };
  static List list_of(const PageWindow& window) { return window.is_end || window.is_wanted ? kEnds : kBehind; }

  std::array<Ends, 2> ends_;
};

}  // namespace ibid
