// What holds of every GGUF header that the reader accepts.
#pragma once

#include <cstddef>
#include <span>

#include "weights/gguf_header.h"

namespace ibid::fuzz {

// `header` was read from `file`: all that it hands out lies within the file, every key is found, and written
// again it is read as the same.
void check_gguf(std::span<const std::byte> file, const GgufHeader& header, bool with_tensors);

}  // namespace ibid::fuzz
