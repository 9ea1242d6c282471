// The options of a model that a user chooses; everything else is in its file.
#pragma once

#include <cstddef>
#include <optional>

#include "base/result.h"
#include "ibid/engine_options.h"
#include "kernels/kernels.h"
#include "kernels/ops/dispatch.h"
#include "kernels/ops/linear.h"

namespace ibid {

// How many rows one pass should have on a machine whose cores have second-level caches of that many bytes (0:
// unknown): 256 per MiB, at least 128, at most 512. With more rows their activations push each other out of the
// cache. The bits are the same for any number. default_max_chunk() is the number for this
// machine.
size_t rows_that_suit(size_t cache_bytes);

// The longest context that a user may ask for.
inline constexpr size_t kMaxContext = size_t{1} << 24;

struct ModelOptions {
  Numerics numerics = Numerics::kExact;
  KvDType kv_dtype = KvDType::kInt8;
  int n_threads = 0;          // 0: one per core the process may use
  size_t max_seq_len = 0;     // positions of a sequence; 0: the trained context
  std::optional<Isa> isa;     // instruction set; nothing: the one that active_isa() chooses
  size_t max_chunk = default_max_chunk();  // rows of one pass; at least 1
};

// kInvalidArgument with name, value and range for what is out of range.
Status check_model_options(const ModelOptions& options);

}  // namespace ibid
