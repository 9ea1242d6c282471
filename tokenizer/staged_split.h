// StagedSplit: a text cut by several patterns, each inside the pieces of the one before it, as a Sequence of Splits
// does: what a pattern matches is a piece, and what stands between two matches is one.
//
// For an open text it says which pieces no append can change: those that were found without a look at the end of the
// text, inside pieces of the earlier patterns of which the same holds as far as was looked. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/pattern.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/scan_memory.h"

namespace ibid {

class StagedSplit {
 public:
  // One stage a line, as pretokenizer.h writes them. REQUIRES: stages that this program holds.
  explicit StagedSplit(std::string_view signature);

  // The piece that starts at text[begin]. REQUIRES: `memory` is new, or from the piece before this one.
  Piece scan(std::string_view text, size_t begin, ScanMemory& memory) const;

 private:
  struct Stage {
    ScanFunction scan = nullptr;
    std::optional<Pattern> pattern;
  };
  using Region = ScanMemory::Region;

  static Region apply(const Stage& stage, const PatternWindow& window, size_t begin,
                      std::vector<Pattern::Retreat>& scratch);

  std::vector<Stage> stages_;
};

}  // namespace ibid
