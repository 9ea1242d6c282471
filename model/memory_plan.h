// The memory that a model will take, computed from its file before anything is allocated.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "cache/pages/kv_layout.h"
#include "model/config/config.h"
#include "model/config/model_options.h"

namespace ibid {

class ModelFile;

struct MemoryPlan {
  size_t file_bytes = 0;
  size_t weights_bytes = 0;              // packed panels
  size_t activations_bytes = 0;          // scratch of one pass of max_chunk rows
  size_t kv_bytes_per_position = 0;      // all layers, in the chosen type
  size_t kv_page_bytes = 0;              // 64 positions
  size_t state_bytes = 0;                // of all recurrent layers, behind one position; 0: there are none
  size_t max_seq_len = 0;
  KvLayout kv_layout;

  size_t fixed_bytes() const { return weights_bytes + activations_bytes; }
  // The memory that one sequence of n positions computes on: keys and values in whole pages (for layers with a window,
  // those they read), and recurrent states.
  size_t kv_bytes(size_t n_positions) const {
    return kv_layout.bytes_for(n_positions) + KvLayout::kStatesAtWork * state_bytes;
  }
};

// Errors: those of check_model_options(), of the tensor table and of kv_layout_of(); kBadHyperparameter when the model
// was trained for more than kMaxContext positions and no context was chosen; kInvalidArgument when the context is
// longer than the positions that a model has learned.
Result<MemoryPlan> plan_memory(const ModelFile& file, const ModelConfig& config, const ModelOptions& options);
// With the layout of kv_layout_of(), for callers that plan several times.
Result<MemoryPlan> plan_memory(const ModelFile& file, const ModelConfig& config, const ModelOptions& options,
                               KvLayout layout);

// kOutOfMemory when `wanted_bytes` does not fit: the message holds the parts, the sum and what is available.
Status check_memory(const MemoryPlan& plan, size_t kv_budget_bytes);

// Memory that this process may still take: the system's estimate, cut to the control group's limit.
size_t available_memory_bytes();

// A text for people, such as "1.21 GB" or "84.2 MB": three digits and a decimal unit.
std::string format_bytes(size_t bytes);

}  // namespace ibid
