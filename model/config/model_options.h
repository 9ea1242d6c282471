// The options of a model that a user may choose. All other properties are in the model file.
#pragma once

#include <cstddef>
#include <optional>

#include "base/result.h"
#include "ibid/engine_options.h"
#include "kernels/kernels.h"
#include "kernels/ops/dispatch.h"
#include "kernels/ops/linear.h"

namespace ibid {

// Returns the best number of rows per pass for cores with second-level caches of cache_bytes (0: unknown): 256 per MiB,
// in [128, 512]. The activations of more rows evict each other from the cache. Results have the same bits for any
// number. default_max_chunk() returns the number for this machine.
size_t rows_for_cache(size_t cache_bytes);

// Maximum context that a user may request.
inline constexpr size_t kMaxContext = size_t{1} << 24;

struct ModelOptions {
  Numerics numerics = Numerics::kExact;
  KvDType kv_dtype = KvDType::kInt8;
  int n_threads = 0;                       // number of threads; 0: one per core the process may use
  size_t max_seq_len = 0;                  // maximum positions of a sequence; 0: the trained context
  std::optional<Isa> isa;                  // instruction set; nullopt: that of active_isa()
  size_t max_chunk = default_max_chunk();  // maximum rows of a pass; at least 1
};

// Checks all options. Error: kInvalidArgument with name, value and range of an option that is out of range.
Status check_model_options(const ModelOptions& options);

}  // namespace ibid
