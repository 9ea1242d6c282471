// HeapPeak: the peak heap use of the program. Replaces operator new: link ibid_heap_peak. Mapped memory (base/arena.h,
// files) is not counted.
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
