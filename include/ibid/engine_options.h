// Options and statistics of an engine. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "ibid/numerics.h"
#include "ibid/result.h"

namespace ibid {

struct SchedulerOptions {
  // Target for the duration of a pass with prefill while other sessions decode, or may start to, and wait for it.
  double latency_target_ms = 40;
};

struct SchedulerStats {
  size_t n_passes = 0;
  size_t n_shared_passes = 0;  // with rows of more than one task
  size_t n_rows = 0;
  size_t most_sequences = 0;  // in one pass
};

// Maximum rows of a pass for the second-level caches of this machine: activations of more rows evict each other from
// the cache. Any number gives the same bits.
IBID_EXPORT size_t default_max_chunk();

// How a text's hidden states become its embedding: their mean, or the last one.
enum class Pooling : uint8_t { kMean, kLast };

struct EngineOptions {
  Numerics numerics = Numerics::kExact;
  KvDType kv_dtype = KvDType::kInt8;
  int n_threads = 0;                       // 0: one per core the process may use
  size_t max_seq_len = 0;                  // context length in positions, to 2^24; 0: the model's trained context
  size_t max_chunk = default_max_chunk();  // rows of one pass; 1 to 2^24
  SchedulerOptions scheduling = {};
  // Directory that keeps keys and values across processes; empty: none. load() succeeds with a directory that cannot be
  // used or that another process uses; see Engine::cache_directory_status(). It must be accessible to this user only
  // (0700), and is created so.
  std::string cache_directory = {};
  uint64_t cache_directory_bytes = 4'000'000'000;
  bool fingerprint = false;    // read the weights once more, so that sessions can be saved with keys and values
  size_t kv_budget_bytes = 0;  // for all keys and values, a page at least; 0: two contexts, at least 256 MB, at most
                               // half of the memory that is available
  // How to make embeddings, instead of what the model's file says; unset: as the file says.
  std::optional<Pooling> pooling = {};
};

}  // namespace ibid
