#include "model/tensors/head_tiles.h"

#include <cstring>

namespace ibid {

void HeadTiles::take_heads(const std::byte* in, size_t head_bytes, std::byte* out) const {
  for (size_t head = 0; head < n_groups * of_group; ++head) {
    std::memcpy(out + head * head_bytes, in + source(head * width) / width * head_bytes, head_bytes);
  }
}

}  // namespace ibid
