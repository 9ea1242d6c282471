// Measures the peak heap use while a watch exists. Replaces operator new and delete of this executable. So a test on
// any machine detects an allocation whose size is a hostile count that was not checked.
#pragma once

#include <cstddef>

namespace ibid {

class AllocationWatch {
 public:
  AllocationWatch();
  // Maximum number of bytes allocated and not yet freed since construction.
  size_t peak_bytes() const;

 private:
  size_t start_;
};

}  // namespace ibid
