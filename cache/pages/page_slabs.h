// PageSlabs: memory for pages of one size, taken from the system in slabs on demand.
//
// Returns zeroed slots and reuses freed ones. The pool enforces the budget, counts the holders, and locks.
// AddressSanitizer poisons free pages.
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

  // Creates slabs for at most max_pages pages. page_bytes 0: there are no pages.
  PageSlabs(size_t page_bytes, size_t max_pages) : page_bytes_(page_bytes), max_pages_(max_pages) {}

  size_t page_bytes() const { return page_bytes_; }
  // Makes n pages available, in new slabs if necessary. Error: kOutOfMemory (system).
  Status provide(size_t n);
  // Returns a zeroed page. REQUIRES: provide(1) succeeded since the last take().
  Slot* take();
  // Frees a page. REQUIRES: it is zeroed.
  void give_back(Slot* slot);
  // Returns the memory of free pages to the system. At their next use the system supplies zeroed memory.
  void return_memory();

  size_t touched_free_bytes() const { return n_touched_ * page_bytes_; }  // bytes of free pages that were used before
  size_t reserved_bytes() const { return n_pages_ * page_bytes_; }        // address space reserved for all pages

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
  Slot* touched_ = nullptr;  // free pages that were used before; take() prefers them to untouched memory
  Slot* fresh_ = nullptr;    // free pages that were never touched since the system supplied them
  size_t n_touched_ = 0;
  size_t n_fresh_ = 0;
  size_t n_pages_ = 0;
};

}  // namespace ibid
