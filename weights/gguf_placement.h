// Finds where a GGUF file's tensors lie: offsets from the header are checked, and become views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "weights/gguf_header.h"

namespace ibid {

// As the header says: bytes from the start of the tensor data, and the size that dtype and shape need.
struct GgufExtent {
  uint64_t offset;
  uint64_t bytes;
};

// Sets view.data of every tensor of `header` (its dtypes and shapes are checked already) from `extents`, one
// each. The data begins at the first multiple of header.alignment from `header_end` on. Bytes behind the last
// tensor become a warning. Errors: kBadOffset for overlaps, holes other than padding and offsets past the
// end; kTruncated when the layout is sound and the file ends too early.
Status place_gguf_tensors(std::span<const std::byte> file, uint64_t header_end, std::string_view what,
                          std::span<const GgufExtent> extents, GgufHeader& header);

}  // namespace ibid
