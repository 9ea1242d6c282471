// Pattern: a regular expression by which a tokenizer file cuts texts, matched as Oniguruma matches it: leftmost
// alternative first, greedy, with possessive quantifiers, lookahead, (?i:), \b and $. What it does not know (lazy
// quantifiers, lookbehind, back references, scripts other than Han ...) is an error, never taken for something
// else.
//
// A pattern from a file may be hostile. A match that takes many steps for the text it has covered remembers which
// choices were made in vain, and from where. Then no choice is made twice, so the cost is linear in the text
// whatever the pattern is. Matching uses no recursion over the text.
//
// A match says whether it looked at the end of what it may see; if it did, an append may change it. Immutable and
// thread-safe; the memory of a match belongs to its caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/splitting/char_set.h"

namespace ibid {

// The part of a text that a match may see: text[begin, end). A look at `safe_end` or behind it counts as a look at
// the end.
struct PatternWindow {
  std::string_view text;
  size_t begin, end;
  size_t safe_end;
};

class Pattern {
 public:
  static constexpr size_t kMaxExpressionBytes = 8192;
  static constexpr size_t kMaxInstructions = 10'000;
  static constexpr uint32_t kMaxSplits = 256;    // alternatives and repeats of groups
  static constexpr uint32_t kMaxRepeats = 1000;  // of {n,m}

  // Error: kUnsupported, with the part of `expression` that is not known, or is larger than the limits.
  static Result<Pattern> parse(std::string_view expression);
  // REQUIRES: parse() takes it; for expressions that this program holds.
  explicit Pattern(std::string_view expression);

  // A place to which a match may go back: it goes on at `pc`, from `position` back to `least`.
  struct Retreat {
    size_t pc, position, least;
  };
  // A choice that the match still depends on: `pc` was reached at `position`, and what it may go back to lies in
  // retreats[height ...].
  struct Choice {
    size_t pc, position, height;
    size_t taken;  // where the way on began
    size_t run_end;
  };
  // Scratch of the searches in one window, one after another. After clear() it may be used in another window.
  struct Memory {
    std::vector<Retreat> retreats;
    size_t steps = 0;
    // From here on used when there were many steps:
    bool remembers = false;
    bool touched = false;  // what is remembered depends on the end
    std::vector<Choice> choices;
    std::vector<uint8_t> outcomes;  // two bits by split and position - window.begin: see pattern.cc
    struct Run {
      size_t begin = 0, end = 0;
    };
    std::vector<Run> failed_runs, good_runs;  // by pc, of repeats

    void clear() {
      steps = 0;
      remembers = touched = false;
    }
  };

  // The end of the match that starts at `position`, if there is one; it may be empty. Sets `touched` when it looked at
  // the end; leaves it otherwise. REQUIRES: `memory` is clear, or from searches in the same window.
  std::optional<size_t> match(const PatternWindow& window, size_t position, Memory& memory, bool& touched) const;

  // Whether a match depends on the character in front of it. If it does, a search cannot begin anew in the middle
  // of a text.
  bool looks_behind() const { return looks_behind_; }
  bool may_match_nothing() const { return may_match_nothing_; }

 private:
  friend class PatternCompiler;
  class Run;
  Pattern() = default;

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
  static constexpr uint32_t kMany = UINT32_MAX;
  struct Instruction {
    Op op;
    bool possessive = false;
    bool wanted = false;
    uint32_t a = 0, b = 0;
    uint32_t min = 0, max = 0;
    uint32_t choice = 0;  // kSplit: its number among the splits
  };

  std::vector<Instruction> program_;
  std::vector<CharSet> sets_;
  uint32_t n_splits_ = 0;
  bool looks_behind_ = false, may_match_nothing_ = false;
};

}  // namespace ibid
