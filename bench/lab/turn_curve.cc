#include "bench/lab/turn_curve.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/lab/report.h"

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
  fit.outside_pass_us_per_1000 = slope_per_1000(with_history, [](const auto& p) { return 1e3 * p.outside_pass_ms; });
  const TurnCurvePoint& deepest = *std::max_element(with_history.begin(), with_history.end(),
                                                    [](const auto& a, const auto& b) { return a.history < b.history; });
  if (deepest.warm_ms.median > 0) {
    const double grown_ms = fit.outside_pass_us_per_1000 * 1e-3 * static_cast<double>(deepest.history) / 1000;
    fit.outside_pass_percent = 100 * grown_ms / deepest.warm_ms.median;
  }
  return fit;
}

bool all_same_text(std::span<const TurnCurvePoint> points) {
  return std::all_of(points.begin(), points.end(), [](const TurnCurvePoint& p) { return p.same_text; });
}

bool all_same_bits(std::span<const TurnCurvePoint> points) {
  return std::all_of(points.begin(), points.end(), [](const TurnCurvePoint& p) { return p.same_bits; });
}

namespace {

constexpr int kRowCharacters = 200;

template <typename... Values>
std::string line_of(const char* format, Values... values) {
  char text[kRowCharacters];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double ratio(double more, double less) { return less > 0 ? more / less : 0; }

}  // namespace

std::string turn_curve_table_header() {
  return "\nThe time to the first token against the history, in ms:\n"
         "  reuse: the session holds the history; again: a cold prefill of all of it\n"
         "  disk: the conversation is opened from disk; pass: the model alone\n" +
         line_of("%7s %5s %8s %9s %7s %8s %7s %8s  %s\n", "history", "read", "reuse", "again", "ratio", "disk", "ratio",
                 "pass", "answers");
}

std::string turn_curve_table_row(const TurnCurvePoint& point) {
  const char* const verdict = point.same_bits && point.same_text ? "same bits"
                              : point.same_text                  ? "OTHER BITS"
                                                                 : "OTHER TEXT";
  return line_of("%7zu %5zu %8.2f %9.2f %6.1fx %8.2f %6.2fx %8.2f  %s\n", point.history, point.n_prefilled_warm,
                 point.warm_ms.median, point.cold_ms.median, ratio(point.cold_ms.median, point.warm_ms.median),
                 point.resumed_ms.median, ratio(point.resumed_ms.median, point.warm_ms.median), point.pass_ms.median,
                 verdict);
}

std::string turn_curve_summary(std::span<const TurnCurvePoint> points) {
  std::string text = std::string("answers with reuse, without and from disk: ") +
                     (all_same_text(points) ? "same text" : "OTHER TEXT") + ", " +
                     (all_same_bits(points) ? "same bits" : "OTHER BITS") + "\n";
  const TurnCurveFit fit = fit_of(points);
  if (!fit.known) return text;
  text += line_of("with 1,000 tokens more of history the turn takes %.2f ms longer\n", 1e-3 * fit.turn_us_per_1000);
  text += line_of("and a bare pass %.2f ms, which is attention; turn minus pass, round by round,\n",
                  1e-3 * fit.pass_us_per_1000);
  text += line_of("changes by %.2f ms: %.2f %% of the turn at the longest history\n",
                  1e-3 * fit.outside_pass_us_per_1000, fit.outside_pass_percent);
  return text;
}

std::string turn_curve_json_line(const BenchSetup& setup, const TurnCurvePoint& point) {
  const auto spread = [](const Spread& s) { return Json{{"q1", s.q1}, {"median", s.median}, {"q3", s.q3}}; };
  const Json line = {{"engine", "ibid"},
                     {"model", setup.model},
                     {"threads", setup.n_threads},
                     {"kv", setup.kv},
                     {"numerics", setup.numerics},
                     {"isa", setup.isa},
                     {"machine", setup.machine},
                     {"date", setup.date},
                     {"commit", setup.commit},
                     {"command", setup.command},
                     {"rounds", setup.rounds},
                     {"other_processes_percent", setup.others_percent},
                     {"what", "turn_curve"},
                     {"history", point.history},
                     {"n_prompt", point.n_prompt},
                     {"n_read_warm", point.n_prefilled_warm},
                     {"n_read_cold", point.n_prefilled_cold},
                     {"n_read_resumed", point.n_prefilled_resumed},
                     {"warm_ms", spread(point.warm_ms)},
                     {"cold_ms", spread(point.cold_ms)},
                     {"resumed_ms", spread(point.resumed_ms)},
                     {"pass_ms", spread(point.pass_ms)},
                     {"besides_pass_ms", point.outside_pass_ms},
                     {"same_text", point.same_text},
                     {"same_bits", point.same_bits}};
  return json_to_string(line);
}

bool is_report_path(const std::string& path) { return path.ends_with(".jsonl"); }

Status write_turn_curve(const std::string& path, const BenchSetup& setup, std::span<const TurnCurvePoint> points) {
  std::string lines;
  for (const TurnCurvePoint& point : points) lines += turn_curve_json_line(setup, point) + "\n";
  return write_public_file(path, lines);
}

}  // namespace ibid
