// ScanMemory: what the search for a piece may remember from the search before it, when pieces are found inside of
// larger ones. It is made anew for every stretch of text, and belongs to whoever walks that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tokenizer/splitting/pattern.h"

namespace ibid {

struct ScanMemory {
  static constexpr size_t kCertain = SIZE_MAX;

  // A piece of one stage. No append changes what was found in it without a look at safe_end or behind.
  struct Region {
    size_t begin = 0, end = 0;
    size_t safe_end = kCertain;
    bool match = false;  // the stage's pattern matches it, or part of it; else it stands between matches
    bool dropped = false;
  };
  std::vector<Region> regions;            // by stage
  std::vector<Pattern::Memory> patterns;  // by stage
};

}  // namespace ibid
