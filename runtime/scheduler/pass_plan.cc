#include "runtime/scheduler/pass_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace ibid {
namespace {

// Weight of the newest measurement in the moving average. With 1/2, the average adapts within a few passes, although
// the history grows by a chunk in each pass.
constexpr double kNewest = 0.5;

// Fraction of the allowed time that a pass aims at. Rows cost more from pass to pass as the history grows, and passes
// that are too long delay decoding.
constexpr double kAim = 0.875;

void average_in(double& average, double value) {
  average = average == 0 ? value : average + kNewest * (value - average);
}

size_t rounded_down(size_t n, size_t multiple) { return n / multiple * multiple; }

// Returns as many of the `wanted` rows as fit into `room`: all, or a multiple of the kernels' row block.
size_t chunk(size_t wanted, size_t room) {
  return wanted <= room ? wanted : std::max(rounded_down(room, kPrefillRows), std::min(room, kPrefillRows));
}

// Distributes `left` rows among the requests whose indexes are in `prefill`. REQUIRES: prefill is not empty.
void share_prefill(std::span<const PassRequest> requests, std::vector<size_t> prefill, size_t left,
                   std::vector<size_t>& rows) {
  const auto order = [&](size_t i) { return std::tuple(requests[i].priority, requests[i].n_rows, requests[i].age); };
  std::sort(prefill.begin(), prefill.end(), [&](size_t a, size_t b) { return order(a) < order(b); });
  const size_t oldest = *std::min_element(prefill.begin(), prefill.end(),
                                          [&](size_t a, size_t b) { return requests[a].age < requests[b].age; });
  rows[oldest] = chunk(requests[oldest].n_rows, prefill.size() == 1 ? left : (left + 1) / 2);
  left -= rows[oldest];
  for (const size_t i : prefill) {
    if (i == oldest || left < std::min(kPrefillRows, requests[i].n_rows)) continue;
    rows[i] = chunk(requests[i].n_rows, left);
    left -= rows[i];
  }
  rows[oldest] = chunk(requests[oldest].n_rows, rows[oldest] + left);
}

// Calls give(i, n) for each request that gets n > 0 of the `left` rows, the oldest first.
template <typename Give>
void share_score_rows(std::span<const PassRequest> requests, std::vector<size_t> scoring, size_t left,
                      const Give& give) {
  std::ranges::sort(scoring, {}, [&](size_t i) { return requests[i].age; });
  for (const size_t i : scoring) {
    const size_t n = std::min(requests[i].n_rows, left);
    if (n > 0) give(i, n);
    left -= n;
  }
}

}  // namespace

std::vector<size_t> plan_pass(std::span<const PassRequest> requests, const PassLimits& limits) {
  CHECK(!requests.empty() && limits.max_rows > 0);
  const bool only_low =
      std::all_of(requests.begin(), requests.end(), [](const PassRequest& r) { return r.priority == Priority::kLow; });
  std::vector<size_t> decoding, prefill, scoring;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!only_low && requests[i].priority == Priority::kLow) continue;
    const bool decodes = limits.decodes(requests[i].n_rows);
    (requests[i].gives_way ? scoring : decodes ? decoding : prefill).push_back(i);
  }
  std::vector<PassRequest> shares(requests.begin(), requests.end());
  if (decoding.empty()) {
    share_score_rows(requests, std::exchange(scoring, {}), kScoreRows, [&](size_t i, size_t n) {
      shares[i].n_rows = n;
      prefill.push_back(i);
    });
  }
  std::vector<size_t> rows(requests.size(), 0);
  size_t n_taken = 0;
  const size_t reserve = prefill.empty() ? 0 : std::min(kPrefillRows, limits.max_rows / 2);
  for (const size_t i : decoding) {
    if (n_taken > 0 && n_taken + requests[i].n_rows > limits.max_rows - reserve) break;
    rows[i] = requests[i].n_rows;
    n_taken += rows[i];
  }
  if (!prefill.empty() && n_taken < limits.max_rows) {
    const size_t wanted = std::max(limits.prefill_rows, kPrefillRows);
    share_prefill(shares, std::move(prefill), std::min(limits.max_rows - n_taken, wanted), rows);
  }
  const size_t n_left = limits.max_rows - std::accumulate(rows.begin(), rows.end(), size_t{0});
  share_score_rows(requests, std::move(scoring), std::min({limits.score_rows, kScoreRows, n_left}),
                   [&](size_t i, size_t n) { rows[i] = n; });
  return rows;
}

size_t ScoreShare::rows(double decode_pass_ns) const {
  if (owed_ns_ > 0 || decode_pass_ns == 0) return 0;
  if (last_rows_ == 0) return 1;
  const double fit = row_ns_ > 0 ? kAim * decode_pass_ns / row_ns_ : static_cast<double>(kScoreRows);
  return std::clamp<size_t>(static_cast<size_t>(std::min(fit, static_cast<double>(kScoreRows))), 1, 2 * last_rows_);
}

void ScoreShare::record(size_t n_score_rows, bool has_prefill, int64_t duration_ns, double decode_pass_ns) {
  const auto ns = static_cast<double>(duration_ns);
  if (n_score_rows == 0) {
    owed_ns_ = std::max(owed_ns_ - ns, 0.0);
    return;
  }
  const double piece_ns = std::max(ns - decode_pass_ns, 0.0);
  owed_ns_ = 4 * piece_ns;
  last_rows_ = n_score_rows;
  if (!has_prefill) average_in(row_ns_, piece_ns / static_cast<double>(n_score_rows));
}

void PassCost::record(size_t n_decode_rows, size_t n_prefill_rows, int64_t duration_ns) {
  const auto ns = static_cast<double>(duration_ns);
  if (n_prefill_rows == 0) {
    average_in(decode_pass_ns_, ns);
    return;
  }
  // The duration of smaller passes depends more on reading the weights than on rows, so it does not show the cost of a
  // row.
  if (n_prefill_rows < kPrefillRows) return;
  const double prefill_ns = n_decode_rows == 0 ? ns : ns - decode_pass_ns_;
  average_in(row_ns_, std::max(prefill_ns, 0.0) / static_cast<double>(n_prefill_rows));
}

size_t PassCost::prefill_rows(size_t n_decode_rows, int64_t budget_ns) const {
  if (row_ns_ == 0) return SIZE_MAX;
  const double left_ns = kAim * static_cast<double>(budget_ns) - (n_decode_rows == 0 ? 0 : decode_pass_ns_);
  const double rows = std::max(left_ns, 0.0) / row_ns_;
  return rows < 1e9 ? static_cast<size_t>(rows) : SIZE_MAX;
}

}  // namespace ibid
