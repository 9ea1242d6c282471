// Figure: one measured number of a model, with what it was measured at; and the fields by which such numbers
// are written to and read from JSON lines, ours and those of the programs that time other engines.
//
// Plain data. The kinds are a table: whatever prints, reads or compares figures goes by it.
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

// A figure in units of the machine, and the machine's own figure in them at that moment.
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
// The worst step between the prefill figures among `figures`; {0, 0, 1} when there are fewer than two.
PrefillStep worst_prefill_step(std::span<const Figure> figures);

// Reading what other engines were measured to do: JSON lines with the fields of bench/lab/figure.h, as the
// programs in bench/rivals print them.
//
// A line is an object with "what", and "engine" where there are several; fields that are not known are
// ignored, and so are figures of kinds that are not known. Where a file has several lines for one figure of
// one engine (settings, repetitions), the engine's best counts.
struct Rival {
  using Key = std::pair<const FigureKind*, std::array<size_t, kMaxFigureKeys>>;

  std::string engine;
  std::map<Key, double> best;

  // The rival's number for the same work; nothing where it was not measured.
  std::optional<double> value_for(const Figure& figure) const;
  // How many times better `figure` is, whether more or less is better: above 1 we are ahead.
  std::optional<double> ratio_for(const Figure& figure) const;
};

// The engines in the order in which they appear. `path` is for messages.
// Errors, each with path and line: kBadHeader and the like (no JSON), kBadType (no object, a field of the
// wrong type), kMissingKey (a field that its kind must have), kBadNumber (not positive, or a key that is no
// count); kMissingKey without a line when nothing in the file can be compared.
Result<std::vector<Rival>> parse_rival_lines(std::string_view text, const std::string& path);

// Also the errors of read_file().
Result<std::vector<Rival>> read_rival_file(FileOps& files, const std::string& path);

}  // namespace ibid
