// Plans the next pass of the model: the rows of each request, and the expected duration. Pure arithmetic without clock,
// lock or model; used by Scheduler.
//
// A request of few rows (a sampled token and its drafts) is *decoding*: each of its passes has a visible result. A
// request of more rows is *prefill*: only its last pass has a visible result. Decoding always comes first; prefill gets
// the rows that the time limit leaves (Agrawal et al. 2024, Sarathi-Serve: chunked prefill beside decodes). A request
// that *gives way* scores given tokens: without decoding requests it is treated like prefill; beside decoding requests
// it gets the rows that ScoreShare allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ibid/turn.h"

namespace ibid {

// Maximum rows of a decoding request: a token and its longest draft (sampling/speculation.h).
inline constexpr size_t kDecodeRows = 8;
// Prefill gets multiples of this, the row block of the kernels, except for a prompt's last rows.
inline constexpr size_t kPrefillRows = 16;
// Maximum rows of a pass that are scored: enough for the kernels to be efficient, while their logits need little
// memory.
inline constexpr size_t kScoreRows = 128;

struct PassRequest {
  size_t n_rows = 0;  // at least 1
  Priority priority = Priority::kNormal;
  uint64_t age = 0;  // arrival order: lower for earlier requests; all different
  bool gives_way = false;
};

struct PassLimits {
  size_t max_rows = 0;      // maximum rows of a pass
  size_t prefill_rows = 0;  // rows that fit the time limit; at least kPrefillRows are given if max_rows allows
  size_t score_rows = 0;    // rows for all requests that score given tokens, while other requests decode

  // True if a request of n_rows decodes, so that all its rows are fed together.
  bool decodes(size_t n_rows) const { return n_rows <= kDecodeRows && n_rows <= max_rows; }
};

// Returns the rows for each request; 0: not in this pass. `requests` is in order of arrival. At least one request gets
// rows.
// - Decoding requests get all their rows, first come first served.
// - The oldest prefill request gets at least half of the prefill rows, so that no prefill starves. The other prefill
//   rows go by priority, then to the shortest request, so that a long prompt does not delay a short one; the remainder
//   goes to the oldest request.
// - Requests of low priority get no rows beside requests of other priorities.
// - Requests with gives_way set get kScoreRows in total at most, the oldest first.
// REQUIRES: requests is not empty, limits.max_rows > 0.
std::vector<size_t> plan_pass(std::span<const PassRequest> requests, const PassLimits& limits);

// Determines the rows of requests that give way (they score given tokens) beside decoding requests. A piece (their rows
// in one pass) takes at most as long as a pass that only decodes, so that no gap between tokens doubles. After a piece,
// decoding requests get four times its duration for themselves, so that pieces take at most a fifth of the time. The
// first piece has one row; a later piece has at most twice as many as the piece before.
class ScoreShare {
 public:
  // Rows of the next pass; 0: none. decode_pass_ns: duration of a pass that only decodes; 0: unknown.
  size_t rows(double decode_pass_ns) const;
  // Call after each pass with decoding rows. has_prefill: the pass had prefill rows too, so it does not show the cost
  // of scored rows.
  void record(size_t n_score_rows, bool has_prefill, int64_t duration_ns, double decode_pass_ns);

 private:
  size_t last_rows_ = 0;  // number of scored rows in the last pass with scored rows
  double row_ns_ = 0;     // additional time per scored row; 0: unknown
  double owed_ns_ = 0;    // time that decoding requests get for themselves next
};

// Cost of recent passes. Exponential moving averages, so that the estimate follows growing histories and changing load.
class PassCost {
 public:
  void record(size_t n_decode_rows, size_t n_prefill_rows, int64_t duration_ns);

  // Duration of a pass that only decodes; 0: unknown.
  double decode_pass_ns() const { return decode_pass_ns_; }

  // Additional time of a prefill row; 0: unknown.
  double row_ns() const { return row_ns_; }

  // Number of prefill rows with which a pass with n_decode_rows takes about budget_ns; SIZE_MAX: unknown.
  size_t prefill_rows(size_t n_decode_rows, int64_t budget_ns) const;

 private:
  double decode_pass_ns_ = 0;  // time of a pass that only decodes; 0: unknown
  double row_ns_ = 0;          // additional time per prefill row; 0: unknown
};

}  // namespace ibid
