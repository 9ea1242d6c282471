// Computes from a model's file how much memory the model will need, before anything is allocated.
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
  size_t weights_bytes = 0;          // bytes of the packed weights
  size_t activations_bytes = 0;      // bytes of scratch buffers for a pass of max_chunk rows
  size_t kv_bytes_per_position = 0;  // bytes of keys and values of all layers, in the chosen KV type
  size_t kv_page_bytes = 0;          // bytes of a page of kPagePositions positions
  size_t state_bytes = 0;            // bytes of a sequence's state in all recurrent layers; 0: no recurrent layers
  size_t max_seq_len = 0;
  KvLayout kv_layout;

  size_t fixed_bytes() const { return weights_bytes + activations_bytes; }
  // Bytes of one sequence of n positions during a pass: keys and values in whole pages (sliding-window layers: only the
  // pages within the window), and recurrent states.
  size_t kv_bytes(size_t n_positions) const {
    return kv_layout.bytes_for(n_positions) + KvLayout::kStatesAtWork * state_bytes;
  }
};

// Plans the memory of the model in `file`. Errors: those of check_model_options(), of the tensor table and of
// kv_layout_of(); kBadHyperparameter if the trained context exceeds kMaxContext and the options set no context;
// kInvalidArgument if the context exceeds the model's learned positions.
Result<MemoryPlan> plan_memory(const ModelFile& file, const ModelConfig& config, const ModelOptions& options);
// Plans the memory for a layout that kv_layout_of() has returned. For callers that plan several times.
Result<MemoryPlan> plan_memory(const ModelFile& file, const ModelConfig& config, const ModelOptions& options,
                               KvLayout layout);

// Checks that the model fits. Error: kOutOfMemory if weights, scratch and kv_budget_bytes exceed
// available_memory_bytes(), naming the sizes.
Status check_memory(const MemoryPlan& plan, size_t kv_budget_bytes);

// Memory that this process may still allocate: the OS estimate, limited by the process's control groups.
size_t available_memory_bytes();

// Human-readable size with a decimal unit, such as "1.21 GB" or "84.2 MB".
std::string format_bytes(size_t bytes);

}  // namespace ibid
