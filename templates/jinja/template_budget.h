#pragma once

#include <cstdint>

namespace ibid {

// Limits of one render; the error kTemplateBudget names the exceeded limit.
struct TemplateBudget {
  uint64_t max_steps = 1'000'000;  // limit for a render without messages; each message adds 1000 steps
  uint32_t max_depth = 128;
  uint64_t max_output_bytes = 8u << 20;  // the size of messages and variables is added to this limit
  uint64_t max_range = 100'000;
};

}  // namespace ibid
