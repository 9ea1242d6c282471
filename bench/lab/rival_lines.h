// Reading what other engines were measured to do: JSON lines with the fields of bench/lab/figure.h, as the
// programs in bench/rivals print them.
//
// A line is an object with "what", and "engine" where there are several; fields that are not known are
// ignored, and so are figures of kinds that are not known. Where a file has several lines for one figure of
// one engine (settings, repetitions), the engine's best counts.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "bench/lab/figure.h"

namespace ibid {

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
