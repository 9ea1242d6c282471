// TurnCurve: the time to the first token against the length of the history, measured in three ways: in the session that
// has the history in memory, with the same text prefilled cold, and in a saved conversation resumed from disk. Plain
// data, its arithmetic, and its output: a table for the terminal, and JSON lines. bench/lab/turn_curve_bench.h measures
// it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/lab/figure.h"
#include "bench/lab/report.h"

namespace ibid {

// One message after `history` tokens. Times are to its first token, in milliseconds.
struct TurnCurvePoint {
  size_t history = 0;   // tokens of the conversation before the message
  size_t n_prompt = 0;  // tokens of the whole prompt
  // Tokens prefilled in the first round.
  size_t n_prefilled_warm = 0, n_prefilled_cold = 0, n_prefilled_resumed = 0;

  Spread warm_ms;     // time in the session whose keys and values are in memory
  Spread cold_ms;     // time with the saved conversation but no cached keys and values; includes load()
  Spread resumed_ms;  // with the saved conversation, in a new engine with the files of keys and values; includes load()
  // One bare forward pass, without a session: as many rows as the warm turn prefills, at the same positions.
  Spread pass_ms;
  double outside_pass_ms = 0;  // median over the rounds of the warm time minus the pass time

  bool same_text = false;  // the greedy answers of the three ways have the same tokens, in every round
  bool same_bits = false;  // true if the logits after the answers are bit-identical
};

// How the warm turn grows with its history, in microseconds per 1,000 tokens: medians of the slopes between all pairs
// of points (Theil 1950, Sen 1968), so that single disturbed points have little effect.
struct TurnCurveFit {
  bool known = false;  // true if at least two points have a history
  double turn_us_per_1000 = 0;
  double pass_us_per_1000 = 0;          // growth of a pass without a session: only attention depends on the history
  double outside_pass_us_per_1000 = 0;  // growth of the turn minus the pass, compared round by round
  // Share of the longest warm turn, in percent, that grows with the history and is not attention.
  double outside_pass_percent = 0;
};
// Uses only the points with a history, because without one a turn also prefills the beginning of the template.
TurnCurveFit fit_of(std::span<const TurnCurvePoint> points);

// True if same_text (same_bits) is true for all points, or there are no points.
bool all_same_text(std::span<const TurnCurvePoint> points);
bool all_same_bits(std::span<const TurnCurvePoint> points);

// Lines with their line ends: a header, rows that can be printed as they are measured, and after the last row a
// summary: whether the answers were the same, and how the warm turn grows.
std::string turn_curve_table_header();
std::string turn_curve_table_row(const TurnCurvePoint& point);
std::string turn_curve_summary(std::span<const TurnCurvePoint> points);

// {"engine", ..., "what": "turn_curve", "history": ...}: one object, beginning with the setup's fields.
std::string turn_curve_json_line(const BenchSetup& setup, const TurnCurvePoint& point);

// True if `path` ends in .jsonl.
bool is_report_path(const std::string& path);
// Writes the JSON lines of the points, of which bench/draw.py makes pictures, pages and rows. Error: kIo.
Status write_turn_curve(const std::string& path, const BenchSetup& setup, std::span<const TurnCurvePoint> points);

}  // namespace ibid
