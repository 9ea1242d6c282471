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
  // Target in milliseconds for a pass that contains prefill, while other sessions decode or may start to.
  double latency_target_ms = 40;
};

struct SchedulerStats {
  size_t n_passes = 0;
  size_t n_shared_passes = 0;  // passes that computed rows for several turns, embeddings or scores together
  size_t n_rows = 0;
  size_t n_scored_rows = 0;   // rows whose tokens are scored (Engine::score())
  size_t n_sequences = 0;     // sum over all passes of the number of sequences in the pass
  size_t most_sequences = 0;  // maximum number of sequences in one pass
};

// Returns the value of EngineOptions::max_chunk that suits the second-level caches of this machine: the activations of
// more rows would not fit. Results have the same bits for any number of rows.
IBID_EXPORT size_t default_max_chunk();

// How the hidden states of a text become its embedding: by their mean, or by taking the state of the last position.
enum class Pooling : uint8_t { kMean, kLast };

struct EngineOptions {
  Numerics numerics = Numerics::kExact;
  KvDType kv_dtype = KvDType::kInt8;
  int n_threads = 0;                       // number of threads; 0: one per core that the process may use
  size_t max_seq_len = 0;                  // context length in positions, at most 2^24; 0: the model's trained context
  size_t max_chunk = default_max_chunk();  // maximum rows of one pass; 1 to 2^24
  SchedulerOptions scheduling = {};
  // Directory that keeps keys and values across processes; empty: no directory. load() succeeds even if the directory
  // cannot be used or another process uses it; see Engine::cache_directory_status(). The directory must be accessible
  // to this user only (0700), and is created so.
  std::string cache_directory = {};
  uint64_t cache_directory_bytes = 4'000'000'000;
  // Bytes a second of whole pages that are written to the directory while no processor is idle; 0: writing waits for an
  // idle processor.
  uint64_t cache_write_bytes_per_s = 0;
  // Server that speaks RESP (Redis, Valkey) with keys and values that several nodes share: redis://HOST:PORT,
  // rediss://HOST:PORT (TLS) or unix:PATH; empty: none. It is searched after the directory. load() succeeds even if the
  // server cannot be reached, and no call fails because of it later.
  std::string cache_server = {};
  // File with the key that encrypts what the server gets: 64 hexadecimal digits, accessible to this user only. Empty:
  // no key; load() then fails with kInvalidArgument unless the server is on this machine.
  std::string cache_key_file = {};
  // Bytes a second of whole pages that are sent to the server while no processor is idle; 0: sending waits for an idle
  // processor.
  uint64_t cache_server_write_bytes_per_s = 200'000'000;
  // Share of the records that are read from the directory, 0 to 1, which are recomputed while a processor is idle and
  // compared bit by bit. Wrong ones are removed (docs/audit.md).
  double audit_share = 0;
  // Hash the weights (one more read), so that ChatSession::save() can include keys and values.
  bool fingerprint = false;
  // Limit for all KV, at least a page. 0: as much as two full contexts need, but between 256 MB and half of the free
  // memory.
  size_t kv_budget_bytes = 0;
  // How to compute embeddings, whatever the model's file specifies. Unset: as the file specifies.
  std::optional<Pooling> pooling = {};
};

}  // namespace ibid
