#include "model/model_options.h"

#include <unistd.h>

#include <algorithm>

namespace ibid {

size_t rows_that_suit(size_t cache_bytes) {
  if (cache_bytes == 0) cache_bytes = size_t{1} << 20;
  return std::clamp<size_t>(cache_bytes >> 12, 128, 512);  // a row for every 4 KiB
}

size_t default_max_chunk() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return rows_that_suit(bytes > 0 ? static_cast<size_t>(bytes) : 0);
}

}  // namespace ibid
