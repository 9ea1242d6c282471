// Figure: one measured number of a model, with what it was measured at; and the fields by which such numbers
// are written to and read from JSON lines, ours and those of the programs that time other engines.
//
// Plain data. The kinds are a table: whatever prints, reads or compares figures goes by it.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"

namespace ibid {

inline constexpr size_t kMaxFigureKeys = 2;

struct FigureKind {
  const char* what;                              // the field "what"
  std::array<const char*, kMaxFigureKeys> keys;  // the fields that say at what; nullptr: not used
  const char* label;                             // for people; # stands for the first key's value, @ for the second's
  const char* value;                             // the field of the number
  const char* unit;
  bool less_is_better;
};

// load | memory | prefill n | decode depth | turn history n | chat_turn system_tokens turn | conversation |
// serve_... users rounds (a load of several users on a server)
// turn nullptr: no such kind.
const FigureKind* find_figure_kind(std::string_view what);

// Median and quartiles of the samples of a figure.
struct Spread {
  double q1 = 0;
  double median = 0;
  double q3 = 0;
};
// REQUIRES: not empty. Quartiles lie between samples where they have to (linear interpolation).
Spread spread_of(std::vector<double> samples);

// What a figure means in units of the machine, and what the machine did in them at that moment.
struct Throughput {
  const char* field =
      nullptr;  // "gbps" (bytes read) or "gops" (two operations per multiply-add); nullptr: none
  double value = 0;
  double peak = 0;  // 0: not known

  double percent() const { return peak > 0 ? 100 * value / peak : 0; }
};

struct Figure {
  const FigureKind* kind = nullptr;
  std::array<size_t, kMaxFigureKeys> at{};  // the values of kind->keys
  Spread value;
  Throughput throughput;
  std::string note;               // for people, behind the row
  Json details = Json::object();  // more fields of the JSON line

  // For people: "44 tokens behind 1024".
  std::string label() const;
  // what, keys, value, q1, q3, throughput and details; fractions rounded to five digits.
  Json as_json() const;
};
using FigureSink = std::function<void(const Figure&)>;

// The largest fall of the rate from one prefill length to the next longer one: a smooth engine has none.
struct PrefillStep {
  size_t from = 0, to = 0;
  double ratio = 1;            // rate at `to` over rate at `from`
  bool beyond_spread = false;  // the upper quartile at `to` is below the lower one at `from`

  double fall_percent() const { return ratio < 1 ? 100 * (1 - ratio) : 0; }
};
// Of the prefill figures among `figures`; {0, 0, 1} when there are fewer than two.
PrefillStep worst_prefill_step(std::span<const Figure> figures);

}  // namespace ibid
