// StagedSplit: cuts a text by several patterns, each inside the pieces of the one before it, as a Sequence of
// Splits does. The matches of a pattern, and what stands between them, are put together as the step's behavior
// says.
//
// For an open text it says which pieces no append can change. These are the pieces that were found without a look
// at the end of the text, inside pieces of the earlier patterns that were found so too, as far as they were looked
// at. Immutable and thread-safe.
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
  // Without steps, a text is one piece. Error: kUnsupported, naming the pattern and what in it is not known.
  static Result<StagedSplit> create(const std::vector<SplitStep>& steps);

  // The piece that starts at text[begin]. REQUIRES: `memory` is new, or from the piece before this one.
  Piece scan(std::string_view text, size_t begin, ScanMemory& memory) const;

 private:
  struct Stage {
    ScanFunction scan = nullptr;  // Isolated
    std::optional<Pattern> pattern;
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
  };
  using Region = ScanMemory::Region;

  StagedSplit() = default;
  static Region element(const Stage& stage, const PatternWindow& window, size_t begin, Pattern::Memory& memory);
  static Region apply(const Stage& stage, const PatternWindow& window, size_t begin, Pattern::Memory& memory);

  std::vector<Stage> stages_;
  bool looks_behind_ = false;  // some pattern does
};

}  // namespace ibid
