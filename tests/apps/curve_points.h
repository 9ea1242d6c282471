// Curve points and a setup in which all numbers differ, so that each can be found in a report.
#pragma once

#include <vector>

#include "bench/lab/report.h"
#include "bench/lab/turn_curve.h"

namespace ibid {

inline TurnCurvePoint point_at(size_t history, double warm_ms, double pass_ms) {
  TurnCurvePoint point;
  point.history = history;
  point.n_prompt = history + 60;
  point.n_prefilled_warm = 61;
  point.n_prefilled_cold = history + 62;
  point.n_prefilled_resumed = 63;
  point.warm_ms = {warm_ms - 0.125, warm_ms, warm_ms + 0.25};
  point.cold_ms = {1000.5, 1001.5, 1002.5};
  point.resumed_ms = {2000.5, 2001.5, 2002.5};
  point.pass_ms = {pass_ms, pass_ms, pass_ms};
  point.outside_pass_ms = warm_ms - pass_ms;
  point.same_text = point.same_bits = true;
  return point;
}

// Names that a line must escape.
inline BenchSetup hostile_setup() {
  BenchSetup setup;
  setup.model = "a<b>&\"c'.gguf";
  setup.machine = "A \"fast\" CPU, <2> CPUs";
  setup.commit = "abc</script>";
  setup.command = "ibid bench a<b>&\"c'.gguf --report FILE";
  setup.date = "2026-01-31";
  setup.kv = "f16";
  setup.numerics = "exact";
  setup.isa = "amx";
  setup.n_threads = 2;
  return setup;
}

inline std::vector<TurnCurvePoint> three_points() {
  return {point_at(0, 12.25, 11), point_at(1000, 33.75, 32), point_at(7777, 99.5, 98)};
}

}  // namespace ibid
