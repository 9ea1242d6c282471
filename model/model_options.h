// What a user chooses about a model; everything else is in its file.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/dispatch.h"
#include "kernels/kernels.h"
#include "kernels/linear.h"

namespace ibid {

struct ModelOptions {
  Numerics numerics = Numerics::kExact;
  KvDType kv_dtype = KvDType::kF16;
  int n_threads = 0;          // 0: one per core the process may use
  size_t max_seq_len = 0;     // positions of a sequence; 0: the trained context
  std::optional<Isa> isa;     // instruction set; nothing: the one that active_isa() chooses
  size_t max_chunk = 512;     // rows of one pass: their int8 activations stay in the second-level cache
};

}  // namespace ibid
