#pragma once

#include <cstdint>

namespace ibid {

// Limits of one render; kTemplateBudget names the one that was exceeded.
struct TemplateBudget {
  uint64_t max_steps = 1'000'000;  // the render may take 1000 more for each message
  uint32_t max_depth = 128;
  uint64_t max_output_bytes = 8u << 20;  // without the bytes of the messages and variables, which are added
  uint64_t max_range = 100'000;
};

}  // namespace ibid
