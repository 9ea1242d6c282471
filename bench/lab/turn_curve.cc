#include "bench/lab/turn_curve.h"

#include <algorithm>

namespace ibid {

namespace {

template <typename Value>
double slope_per_1000(std::span<const TurnCurvePoint> points, Value value) {
  std::vector<double> slopes;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = i + 1; j < points.size(); ++j) {
      const double run = static_cast<double>(points[j].history) - static_cast<double>(points[i].history);
      if (run != 0) slopes.push_back(1000 * (value(points[j]) - value(points[i])) / run);
    }
  }
  return slopes.empty() ? 0 : spread_of(std::move(slopes)).median;
}

}  // namespace

TurnCurveFit fit_of(std::span<const TurnCurvePoint> points) {
  std::vector<TurnCurvePoint> with_history;
  std::copy_if(points.begin(), points.end(), std::back_inserter(with_history),
               [](const TurnCurvePoint& point) { return point.history > 0; });
  TurnCurveFit fit;
  if (with_history.size() < 2) return fit;
  fit.known = true;
  fit.turn_us_per_1000 = slope_per_1000(with_history, [](const auto& p) { return 1e3 * p.warm_ms.median; });
  fit.pass_us_per_1000 = slope_per_1000(with_history, [](const auto& p) { return 1e3 * p.pass_ms.median; });
  fit.besides_us_per_1000 = slope_per_1000(with_history, [](const auto& p) { return 1e3 * p.besides_pass_ms; });
  const TurnCurvePoint& deepest = *std::max_element(
      with_history.begin(), with_history.end(), [](const auto& a, const auto& b) { return a.history < b.history; });
  if (deepest.warm_ms.median > 0) {
    const double grown_ms = fit.besides_us_per_1000 * 1e-3 * static_cast<double>(deepest.history) / 1000;
    fit.besides_percent = 100 * grown_ms / deepest.warm_ms.median;
  }
  return fit;
}

bool all_same_text(std::span<const TurnCurvePoint> points) {
  return std::all_of(points.begin(), points.end(), [](const TurnCurvePoint& p) { return p.same_text; });
}

bool all_same_bits(std::span<const TurnCurvePoint> points) {
  return std::all_of(points.begin(), points.end(), [](const TurnCurvePoint& p) { return p.same_bits; });
}

}  // namespace ibid
