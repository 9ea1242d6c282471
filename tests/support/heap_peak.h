// HeapPeak: the peak heap use of the program. Replaces operator new: link ibid_heap_peak. Does not count mapped memory
// (base/arena.h).
#pragma once

#include <cstddef>

namespace ibid {

class HeapPeak {
 public:
  // Starts to measure. REQUIRES: no other HeapPeak exists.
  HeapPeak();
  // Peak heap use since construction, minus the use at construction.
  size_t bytes() const;

 private:
  size_t before_;
};

}  // namespace ibid
