// Figure: one measured number of a model with its parameters, and the fields of JSON lines with such numbers. The
// benchmarks here, and the programs that time other engines, write and read these lines.
//
// Plain data. All code that prints, reads or compares figures uses one table of kinds.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_ops.h"
#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

inline constexpr size_t kMaxFigureKeys = 2;

struct FigureKind {
  const char* what;                              // value of the JSON field "what"
  std::array<const char*, kMaxFigureKeys> keys;  // names of the parameters' fields; nullptr: not used
  const char* label;                             // for display; # and @ are replaced by the keys' values
  const char* value;                             // name of the JSON field of the number
  const char* unit;
  bool less_is_better;
};

// Returns the kind whose field "what" has this value, or nullptr. Kinds and their keys: load | memory | prefill n |
// decode depth | turn history n | chat_turn system_tokens turn | conversation turn | serve_... users rounds (load of
// several users on a server).
const FigureKind* find_figure_kind(std::string_view what);

// Median and quartiles of the samples of a figure.
struct Spread {
  double q1 = 0;
  double median = 0;
  double q3 = 0;
};
// Quartiles between samples are interpolated linearly. REQUIRES: samples is not empty.
Spread spread_of(std::vector<double> samples);

// Bandwidth or operation rate of a figure, and the machine's peak, measured at the same time.
struct Throughput {
  const char* field =
      nullptr;  // "gbps" (bytes read) or "gops" (two operations per multiply-add); nullptr: no throughput
  double value = 0;
  double peak = 0;  // 0: unknown

  double percent() const { return peak > 0 ? 100 * value / peak : 0; }
};

struct Figure {
  const FigureKind* kind = nullptr;
  std::array<size_t, kMaxFigureKeys> at{};  // the values of kind->keys
  Spread value;
  Throughput throughput;
  std::string note;               // shown after the row
  Json details = Json::object();  // more fields of the JSON line

  // For display: "44 tokens at depth 1024".
  std::string label() const;
  // Returns what, keys, value, q1, q3, throughput and details; fractions rounded to five digits.
  Json as_json() const;
};
using FigureSink = std::function<void(const Figure&)>;

// The largest drop of the rate from one prefill length to the next longer one.
struct PrefillStep {
  size_t from = 0, to = 0;
  double ratio = 1;            // rate at `to` over rate at `from`
  bool beyond_spread = false;  // the upper quartile of the rates at `to` is below the lower quartile at `from`

  double fall_percent() const { return ratio < 1 ? 100 * (1 - ratio) : 0; }
};
// Returns the worst step between the prefill figures among `figures`; {0, 0, 1} if there are fewer than two.
PrefillStep worst_prefill_step(std::span<const Figure> figures);

// Measurements of another engine, read from JSON lines with the fields of this file, as the programs in bench/rivals
// print them.
//
// A line is an object with "what" and, if there are several engines, "engine"; unknown fields and figures of unknown
// kinds are ignored. If a file has several lines for one figure of one engine (settings, repetitions), the best line is
// used.
struct Rival {
  using Key = std::pair<const FigureKind*, std::array<size_t, kMaxFigureKeys>>;

  std::string engine;
  std::map<Key, double> best;

  // Returns the other engine's number for the same work; nullopt if it was not measured.
  std::optional<double> value_for(const Figure& figure) const;
  // Returns how many times better `figure` is than the other engine's number; below 1 if it is worse. (For some kinds a
  // smaller number is better.)
  std::optional<double> ratio_for(const Figure& figure) const;
};

// Parses JSON lines with measurements of other engines; engines are in the order of their first line. `path` is for
// messages. Errors, each with path and line: kBadHeader and others (invalid JSON), kBadType (not an object, or a field
// of the wrong type), kMissingKey (a field that the kind requires), kBadNumber (not positive, or a key that is not a
// count); kMissingKey without a line if the file has no comparable figure.
Result<std::vector<Rival>> parse_rival_lines(std::string_view text, const std::string& path);

// As parse_rival_lines(), for a file. Errors: also those of read_file().
Result<std::vector<Rival>> read_rival_file(FileOps& files, const std::string& path);

}  // namespace ibid
