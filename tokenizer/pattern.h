// Pattern: the regular expressions that tokenizer files cut texts with, matched as Oniguruma matches them: leftmost
// alternative first, greedy, with possessive quantifiers, lookahead, (?i:), \b and $. Written for patterns that are
// known: the ones that this program holds, never one out of a file, for a hostile one could take exponential time.
//
// A match says whether it looked at the end of what it may see: an append may change it then. Matching uses no
// recursion over the text. Immutable and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/char_set.h"

namespace ibid {

// What of a text a match may see: text[begin, end). Looking at `safe_end` or behind it counts as a look at the end.
struct PatternWindow {
  std::string_view text;
  size_t begin, end;
  size_t safe_end;
};

class Pattern {
 public:
  // REQUIRES: `expression` is one of the syntax above; checked.
  explicit Pattern(std::string_view expression);

  // Where a match may go back to: goes on at `pc`, from `position` back to `least`. Scratch, to be used again.
  struct Retreat {
    size_t pc, position, least;
  };

  // The end of the match that starts at `position`, if there is one. Sets `touched` when it looked at the end; leaves
  // it otherwise. REQUIRES: `scratch` is empty; it is so again.
  std::optional<size_t> match(const PatternWindow& window, size_t position, std::vector<Retreat>& scratch,
                              bool& touched) const;

 private:
  friend class PatternCompiler;
  class Run;

  enum class Op : uint8_t {
    kSet,           // one character of sets_[a]
    kRepeat,        // min to max characters of sets_[a], as many as there are; gives back unless possessive
    kSplit,         // goes on at a, and at b when that fails
    kJump,          // goes on at a
    kLook,          // goes on at b when what follows up to a kMatch matches (wanted) or does not
    kWordBoundary,  // between a word character and another
    kLineEnd,       // at the end or in front of a line feed
    kMatch,
  };
  struct Instruction {
    Op op;
    bool possessive = false;
    bool wanted = false;
    uint32_t a = 0, b = 0;
    uint32_t min = 0, max = 0;
  };

  std::vector<Instruction> program_;
  std::vector<CharSet> sets_;
};

}  // namespace ibid
