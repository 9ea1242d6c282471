// StagedSplit: splits a text by several patterns, each inside the pieces of the previous one, as a Sequence of Splits
// does. The behavior of a step determines how matches and the text between them form pieces.
//
// For a text that may grow, it reports which pieces no append can change: those that it found without reading the end
// of the text, inside pieces of earlier patterns that it also found without reading the end. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/splitting/pattern.h"
#include "tokenizer/splitting/pretokenizer.h"

namespace ibid {

class StagedSplit {
 public:
  // If there are no steps, a text is one piece. Error: kUnsupported, naming the pattern and its unsupported part.
  static Result<StagedSplit> create(const std::vector<SplitStep>& steps);

  // Returns the piece that starts at text[begin]. REQUIRES: `memory` is new, or was passed to the scan of the previous
  // piece.
  Piece scan(std::string_view text, size_t begin, ScanMemory& memory) const;

 private:
  struct Stage {
    ScanFunction scan = nullptr;  // only steps with kIsolated have a scanner
    std::optional<Pattern> pattern;
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
  };
  using Region = ScanMemory::Region;

  StagedSplit() = default;
  static Region element(const Stage& stage, const PatternWindow& window, size_t begin, Pattern::Memory& memory);
  static Region apply(const Stage& stage, const PatternWindow& window, size_t begin, Pattern::Memory& memory);

  std::vector<Stage> stages_;
  bool looks_behind_ = false;  // some pattern depends on the character before a match
};

}  // namespace ibid
