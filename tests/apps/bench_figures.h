#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/lab/report.h"

namespace ibid {

inline Figure figure_of(const char* what, std::array<size_t, kMaxFigureKeys> at, double value) {
  Figure figure;
  figure.kind = find_figure_kind(what);
  figure.at = at;
  figure.value = {value, value, value};
  return figure;
}

inline Figure decode_at(size_t depth, double tps) {
  Figure figure = figure_of("decode", {depth}, tps);
  figure.value = {tps - 10, tps, tps + 5};
  figure.throughput = {"gbps", 30, 60};
  return figure;
}

inline std::vector<Rival> rivals_of(std::string_view text) {
  Result<std::vector<Rival>> rivals = parse_rival_lines(text, "rival.jsonl");
  EXPECT_TRUE(rivals.ok()) << rivals.status().to_string();
  return rivals.ok() ? *std::move(rivals) : std::vector<Rival>();
}

}  // namespace ibid
