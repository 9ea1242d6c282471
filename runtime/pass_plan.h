// How many rows of whose request the next pass of the model takes, and how long a pass may be expected to take.
// Arithmetic only: no clock, no lock, no model; the Scheduler asks.
//
// A request of few rows (a sampled id and its drafts) is *decoding*: somebody sees every one of its passes. More
// rows are *prefill*: somebody waits for the last of them. Decoding goes first, always; prefill gets the rows that
// the time limit leaves (Agrawal et al. 2024, Sarathi-Serve: chunked prefill beside decodes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ibid {

enum class Priority {
  kHigh,    // before others
  kNormal,
  kLow,     // work that nobody waits for: when there is nothing else to do
};

// An id and the most drafts behind it (runtime/speculation.h).
inline constexpr size_t kDecodeRows = 8;
// Prefill comes in multiples of this, but for a prompt's last rows: what the kernels multiply at once.
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

// Rows for each request; 0: not in this pass. The requests stand in the order in which they came.
// Decoding ones get all of their rows, first come first served. Of the rows for prefill the oldest request gets
// half at least, so that none waits for ever; the others go to the shortest first, by priority, so that a short
// prompt is not kept waiting by a long one; what is left goes to the oldest. Low priority gets nothing beside others.
// At least one request gets rows. REQUIRES: requests is not empty, limits.max_rows > 0.
std::vector<size_t> plan_pass(std::span<const PassRequest> requests, const PassLimits& limits);

// What passes have cost lately. Exponentially weighted, so that it follows histories that grow and neighbours that
// come and go.
class PassCost {
 public:
  void record(size_t n_decode_rows, size_t n_prefill_rows, int64_t duration_ns);

  // Rows of prefill that, beside so many rows of decoding, take about budget_ns; SIZE_MAX while nothing is known.
  size_t prefill_rows(size_t n_decode_rows, int64_t budget_ns) const;
  // Of a pass that only decodes; 0 while nothing is known.
  int64_t step_ns() const { return static_cast<int64_t>(step_ns_); }

 private:
  double step_ns_ = 0;  // of a pass that only decodes; 0: not known
  double row_ns_ = 0;   // more for a row of prefill; 0: not known
};

}  // namespace ibid
