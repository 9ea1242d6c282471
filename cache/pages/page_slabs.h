// PageSlabs: the memory of pages of one size, in slabs that are taken from the system as they are needed.
//
// It hands out zeroed memory, as slots, and keeps what comes back for reuse. It knows neither budget nor holders: the
// pool does, which also locks. Under AddressSanitizer nobody may touch a page that nobody has.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/arena.h"
#include "base/result.h"

namespace ibid {

class PageSlabs {
 public:
  struct Slot {
    std::byte* data = nullptr;
    Slot* next_free = nullptr;
    bool was_used = false;
  };

  // At most max_pages pages at a time. page_bytes 0: there are none.
  PageSlabs(size_t page_bytes, size_t max_pages) : page_bytes_(page_bytes), max_pages_(max_pages) {}

  size_t page_bytes() const { return page_bytes_; }
  // Whether it has n pages to hand out, with new slabs if need be. Error: kOutOfMemory, of the system.
  Status provide(size_t n);
  // REQUIRES: provide(1) succeeded since the last call.
  Slot* take();
  // REQUIRES: the page is zero.
  void give_back(Slot* slot);
  // Returns memory of pages that nobody has to the system, which gives it back zeroed at the next touch.
  void return_memory();

  size_t touched_free_bytes() const { return n_touched_ * page_bytes_; }  // of pages that nobody has
  size_t reserved_bytes() const { return n_pages_ * page_bytes_; }        // address space of all

 private:
  struct Slab {
    Arena arena;
    std::unique_ptr<Slot[]> slots;
  };

  Status grow();
  void push_free(Slot* slot);

  const size_t page_bytes_;
  const size_t max_pages_;
  std::vector<Slab> slabs_;
  Slot* touched_ = nullptr;  // handed out first, so that memory that was never touched stays so
  Slot* fresh_ = nullptr;    // as the system gave them
  size_t n_touched_ = 0;
  size_t n_fresh_ = 0;
  size_t n_pages_ = 0;
};

}  // namespace ibid
