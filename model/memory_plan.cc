#include "model/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "base/control_group.h"
#include "base/parallel.h"
#include "cache/pages/kv_layout.h"
#include "model/forward/activations.h"
#include "model/weights/kv_precision.h"
#include "model/weights/load_weights.h"
#include "weights/model_file.h"

namespace ibid {

Result<MemoryPlan> plan_memory(const ModelFile& file, const ModelConfig& config, const ModelOptions& options) {
  TRY(check_model_options(options));
  TRY_ASSIGN(KvLayout layout, kv_layout_of(file, config, options));
  return plan_memory(file, config, options, std::move(layout));
}

Result<MemoryPlan> plan_memory(const ModelFile& file, const ModelConfig& config, const ModelOptions& options,
                               KvLayout layout) {
  TRY(check_model_options(options));
  MemoryPlan plan;
  plan.max_seq_len = options.max_seq_len == 0 ? config.trained_context : options.max_seq_len;
  if (plan.max_seq_len > kMaxContext) {
    return Status(ErrorCode::kBadHyperparameter, file.path() + ": trained for a context of " +
                                                     std::to_string(plan.max_seq_len) + " positions, allowed: 1 to " +
                                                     std::to_string(kMaxContext) + "; choose a shorter one");
  }
  if (config.learned_positions && plan.max_seq_len > config.trained_context) {
    return Status(ErrorCode::kInvalidArgument, file.path() + ": a context of " + std::to_string(plan.max_seq_len) +
                                                   " positions, but the model has position embeddings for only " +
                                                   std::to_string(config.trained_context) + "; choose a shorter one");
  }
  const int n_threads = ThreadTeam::size_of(options.n_threads);
  plan.file_bytes = file.file_bytes();
  TRY_ASSIGN(const WeightPlan weights, plan_weights(file, config, options.numerics));
  plan.weights_bytes = weights.bytes;
  plan.activations_bytes = Activations::plan_bytes(config, std::min(options.max_chunk, plan.max_seq_len),
                                                   plan.max_seq_len, weights.quantized, n_threads);
  plan.kv_page_bytes = layout.page_bytes();
  plan.state_bytes = layout.state_bytes();
  plan.kv_bytes_per_position = layout.page_bytes() / kPagePositions;
  plan.kv_layout = std::move(layout);
  return plan;
}

Status check_memory(const MemoryPlan& plan, size_t kv_budget_bytes) {
  const size_t available = available_memory_bytes();
  const size_t wanted = plan.fixed_bytes() + kv_budget_bytes;
  if (wanted <= available) return {};
  return {ErrorCode::kOutOfMemory,
          "the model needs " + format_bytes(wanted) + " (weights " + format_bytes(plan.weights_bytes) + ", scratch " +
              format_bytes(plan.activations_bytes) + ", keys and values " + format_bytes(kv_budget_bytes) + "), and " +
              format_bytes(available) + " are available: choose a smaller model, a smaller --context or --kv int8"};
}

size_t available_memory_bytes() {
  size_t available = std::numeric_limits<size_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  size_t kib = 0;
  std::string unit;
  while (meminfo >> key >> kib && std::getline(meminfo, unit)) {
    if (key == "MemAvailable:") available = kib * 1024;
  }
  return std::min<size_t>(available, control_group_limits().available_bytes.value_or(available));
}

std::string format_bytes(size_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : value < 10 ? "%.2f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace ibid
