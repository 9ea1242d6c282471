// The options of an engine, and what it counts. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "ibid/numerics.h"
#include "ibid/result.h"

namespace ibid {

struct SchedulerOptions {
  // How long a pass with prefill may take while another session decodes, or may begin to, and waits for it.
  double latency_target_ms = 40;
};

struct SchedulerStats {
  size_t n_passes = 0;
  size_t n_shared_passes = 0;  // with rows of more than one task
  size_t n_rows = 0;
  size_t most_sequences = 0;   // in one pass
};

// How many rows one pass of the model should have on a machine with second-level caches like this one's: with more,
// their activations push each other out of the cache. The bits are the same for any number.
IBID_EXPORT size_t default_max_chunk();

// What becomes of the hidden states of a text's positions where a model makes embeddings, a vector for each text: their
// mean, or the last one.
enum class Pooling : uint8_t { kMean, kLast };

struct EngineOptions {
  Numerics numerics = Numerics::kExact;
  KvDType kv_dtype = KvDType::kInt8;
  int n_threads = 0;           // 0: one per core the process may use
  size_t max_seq_len = 0;      // the context in positions, to 2^24; 0: what the model was trained for
  size_t max_chunk = default_max_chunk();  // rows of one pass; 1 to 2^24
  SchedulerOptions scheduling = {};
  // Where keys and values outlive the process; empty: nowhere. A directory that cannot be used, or that another
  // process uses, is no error: Engine::cache_directory_status() says so. It must be this user's alone (0700); one
  // that is made is.
  std::string cache_directory = {};
  uint64_t cache_directory_bytes = 4'000'000'000;
  bool fingerprint = false;    // read the weights once more, so that sessions can be saved with their keys and values
  size_t kv_budget_bytes = 0;  // for all keys and values, a page at least; 0: two contexts, at least 256 MB, at most
                               // half of the memory that is available
  // Embeddings of a model whose file says nothing of them, or others than it says; nothing: as the file says.
  std::optional<Pooling> pooling = {};
};

}  // namespace ibid
