// Properties of every GGUF header that the reader accepts.
#pragma once

#include <cstddef>
#include <span>

#include "weights/gguf_header.h"

namespace ibid::fuzz {

// Checks `header`, which was read from `file`: all its data is within the file, every key is found, and after
// writing and reading it again it is the same.
void check_gguf(std::span<const std::byte> file, const GgufHeader& header, bool with_tensors);

}  // namespace ibid::fuzz
