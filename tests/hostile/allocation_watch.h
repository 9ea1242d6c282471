// Measures the peak heap use while a watch exists. Replaces operator new and delete of this executable. An allocation
// by a hostile count that is not checked first shows here, on every machine.
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
