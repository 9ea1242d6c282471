// HeapPeak: how much of the heap the whole program has had at once. operator new of the program is replaced: link
// ibid_heap_peak. Memory that is mapped (base/arena.h, files) is not of the heap.
#pragma once

#include <cstddef>

namespace ibid {

class HeapPeak {
 public:
  // From now on. One at a time.
  HeapPeak();
  // The most that was in use at one time since then, beyond what was when this began.
  size_t bytes() const;

 private:
  size_t before_;
};

}  // namespace ibid
