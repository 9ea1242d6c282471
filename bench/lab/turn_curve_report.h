// A TurnCurve as people and programs read it: a table for the terminal, a CSV file, a page with pictures.
// Text only: nothing is measured here.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "bench/lab/report.h"
#include "bench/lab/turn_curve.h"

namespace ibid {

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
// Writes the page or the CSV file (bench/lab/public_file.h). REQUIRES: is_report_path(path). Error: kIo.
Status write_turn_curve(const std::string& path, const BenchSetup& setup,
                        std::span<const TurnCurvePoint> points, size_t rounds);

}  // namespace ibid
