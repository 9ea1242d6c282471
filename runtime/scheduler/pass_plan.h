// Plans the next pass of the model: how many rows of each request it takes, and how long it may be expected to
// take. This is arithmetic only, without clock, lock or model; the Scheduler asks it.
//
// A request of few rows (a sampled id and its drafts) is *decoding*: somebody sees the result of each of its
// passes. A request of more rows is *prefill*: somebody waits for the last of them. Decoding always goes first.
// Prefill gets the rows that the time limit leaves (Agrawal et al. 2024, Sarathi-Serve: chunked prefill beside
// decodes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ibid/turn.h"

namespace ibid {

// An id and the most drafts behind it (sampling/speculation.h).
inline constexpr size_t kDecodeRows = 8;
// Prefill gets multiples of this many rows, except for a prompt's last rows: the kernels multiply that many at
// once.
inline constexpr size_t kPrefillRows = 16;

struct PassRequest {
  size_t n_rows = 0;  // at least 1
  Priority priority = Priority::kNormal;
  uint64_t age = 0;   // the lower, the longer its prompt has been there; all different
};

struct PassLimits {
  size_t max_rows = 0;      // of the model
  size_t prefill_rows = 0;  // that the time allows; at least kPrefillRows are given where max_rows has room

  // Whether so many rows decode, and are fed together.
  bool decodes(size_t n_rows) const { return n_rows <= kDecodeRows && n_rows <= max_rows; }
};

// Returns the rows for each request; 0: not in this pass. The requests stand in the order in which they came.
// Decoding requests get all of their rows, first come first served. Of the rows for prefill the oldest request gets
// at least half, so that none waits for ever. The others go to the shortest request first, by priority, so that a
// long prompt does not keep a short one waiting; what is left goes to the oldest. Low priority gets nothing beside
// others. At least one request gets rows. REQUIRES: requests is not empty, limits.max_rows > 0.
std::vector<size_t> plan_pass(std::span<const PassRequest> requests, const PassLimits& limits);

// Records what passes have cost lately. Recent passes count more, exponentially, so that the estimate follows
// histories that grow and neighbours that come and go.
class PassCost {
 public:
  void record(size_t n_decode_rows, size_t n_prefill_rows, int64_t duration_ns);

  // Rows of prefill that, beside so many rows of decoding, take about budget_ns; SIZE_MAX while nothing is known.
  size_t prefill_rows(size_t n_decode_rows, int64_t budget_ns) const;

 private:
  double decode_pass_ns_ = 0;  // of a pass that only decodes; 0: not known
  double row_ns_ = 0;   // more for a row of prefill; 0: not known
};

}  // namespace ibid
