// Counts the heap: how many bytes live at most while a watch exists. This executable's operator new and
// delete are replaced for it. A hostile count that is allocated from before it is checked shows here,
// whatever the machine.
#pragma once

#include <cstddef>

namespace ibid {

class AllocationWatch {
 public:
  AllocationWatch();
  // The highest number of bytes allocated and not yet freed since construction.
  size_t peak_bytes() const;

 private:
  size_t start_;
};

}  // namespace ibid
