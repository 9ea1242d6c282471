// TurnCurve: the time to the first token against the length of the history, measured in three ways: in the session
// that holds the history, with the same text read again, and in a conversation that was saved and goes on from
// disk. Plain data, its arithmetic, and its texts: a table for the terminal, a CSV file, a page with pictures
// (turn_curve_page.cc). bench/lab/turn_curve_bench.h measures it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/lab/figure.h"
#include "bench/lab/report.h"

namespace ibid {

// One message behind `history` others. Times are to its first token, in milliseconds.
struct TurnCurvePoint {
  size_t history = 0;   // ids of the conversation before the message
  size_t n_prompt = 0;  // ids of the whole prompt
  // Ids that ran through the model, in the first round.
  size_t n_read_warm = 0, n_read_cold = 0, n_read_resumed = 0;

  Spread warm_ms;     // the session holds keys and values
  Spread cold_ms;     // the saved conversation, nothing held anywhere: from load() on
  Spread resumed_ms;  // the saved conversation in a new engine that has the files of keys and values: from load() on
  // One pass of as many rows as the warm turn reads, at the same positions, without any session around it.
  Spread pass_ms;
  double besides_pass_ms = 0;  // median over the rounds of warm minus pass

  bool same_text = false;  // the greedy answers of the three are the same ids, in every round
  bool same_bits = false;  // and so are the bits of the logits behind them
};

// How the warm turn grows with its history, in microseconds per 1,000 tokens: medians of the slopes between all pairs
// of points (Theil 1950, Sen 1968), which one disturbed point does not move.
struct TurnCurveFit {
  bool known = false;  // there are two points with a history at least
  double turn_us_per_1000 = 0;
  double pass_us_per_1000 = 0;     // of the bare pass: attention, and nothing else of it depends on the history
  double besides_us_per_1000 = 0;  // of the turn minus the pass, round by round
  // The part of the deepest warm turn that grew with the history and is not attention, in per cent of that turn.
  double besides_percent = 0;
};
// Computed over the points with a history, because without one a turn reads the template's beginning too.
TurnCurveFit fit_of(std::span<const TurnCurvePoint> points);

// Whether it holds for all points. Without any point it does.
bool all_same_text(std::span<const TurnCurvePoint> points);
bool all_same_bits(std::span<const TurnCurvePoint> points);

// Lines with their ends: header, rows that can be printed as they are measured, and what follows the last of them:
// whether the answers were the same, and how the warm turn grows.
std::string turn_curve_table_header();
std::string turn_curve_table_row(const TurnCurvePoint& point);
std::string turn_curve_summary(std::span<const TurnCurvePoint> points);

// {"engine", ..., "what": "turn_curve", "history": ...}: one object, with the setup's fields in front.
std::string turn_curve_json_line(const BenchSetup& setup, const TurnCurvePoint& point);

// Header and a line for each point (RFC 4180): times in ms with their quartiles, the verdicts as 1 or 0, and in every
// line how it was measured.
std::string turn_curve_csv(const BenchSetup& setup, std::span<const TurnCurvePoint> points);

// One HTML file that needs nothing else: pictures as inline SVG, colours for light and dark, no scripts, the numbers in
// a table below. It is well-formed XML but for its first line. `rounds`: of each point.
std::string turn_curve_page(const BenchSetup& setup, std::span<const TurnCurvePoint> points, size_t rounds);

// Whether `path` ends in .html or .csv, which is what write_turn_curve() goes by.
bool is_report_path(const std::string& path);
// Writes the page or the CSV file (bench/lab/report.h). REQUIRES: is_report_path(path). Error: kIo.
Status write_turn_curve(const std::string& path, const BenchSetup& setup,
                        std::span<const TurnCurvePoint> points, size_t rounds);

}  // namespace ibid
