// Pattern: a regular expression with which a tokenizer file splits texts. Matches as Oniguruma does: leftmost
// alternative first, greedy, with possessive quantifiers, lookahead, (?i:), \b and $. Other syntax (lazy quantifiers,
// lookbehind, back references, scripts other than Han ...) is an error.
//
// A pattern from a file may be hostile. A match that takes many steps for the text it has covered begins to record
// which choices failed at which positions. It then makes no choice twice, so the cost is linear in the text for any
// pattern. Matching does not recurse over the text.
//
// A match reports whether it read the end of its window; if so, an append may change the match. Immutable and
// thread-safe; the caller provides the memory of a match.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/regex/regex.h"
#include "base/result.h"
#include "base/unicode/code_point_set.h"

namespace ibid {

// --- CharSet: a CodePointSet with an index, for fast queries. Constant; thread-safe.

class CharSet {
 public:
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;  // the code point of a byte that is not UTF-8

  explicit CharSet(const CodePointSet& set) : invalid_(set.has_invalid_bytes()), ranges_(set.ranges()) {
    for (uint32_t c = 0; c < 0x80; ++c) ascii_[c] = set.has(c);
    if (ranges_.size() <= kFewRanges) return;
    for (uint32_t block = 0, n = 0; block <= (kLastCodePoint >> kBlockBits) + 1; ++block) {
      while (n < ranges_.size() && ranges_[n].last < block << kBlockBits) ++n;
      blocks_.push_back(n);
    }
  }

  bool contains(uint32_t c) const {
    if (c < 0x80) return ascii_[c];
    if (c == kInvalid) return invalid_;
    const size_t block = c >> kBlockBits;
    const auto begin = ranges_.begin() + (blocks_.empty() ? 0 : blocks_[block]);
    const auto end = blocks_.empty() ? ranges_.end() : ranges_.begin() + blocks_[block + 1];
    const auto at =
        std::lower_bound(begin, end, c, [](const CodePointSet::Range& range, uint32_t x) { return range.last < x; });
    return at != ranges_.end() && at->first <= c;
  }

 private:
  static constexpr size_t kBlockBits = 10, kFewRanges = 8;

  std::bitset<128> ascii_;
  bool invalid_;
  std::vector<CodePointSet::Range> ranges_;
  std::vector<uint32_t> blocks_;  // for each block of characters, the number of ranges that end before the block
};

// --- Pattern.

// The part of a text that a match may read: text[begin, end). Reading at or beyond `safe_end` counts as reading the end
// of the text.
struct PatternWindow {
  std::string_view text;
  size_t begin, end;
  size_t safe_end;
};

class Pattern {
 public:
  static constexpr size_t kMaxInstructions = 10'000;
  static constexpr uint32_t kMaxSplits = 256;  // maximum number of alternatives and repeats of groups

  // Parses a regular expression. Error: kUnsupported, with the part of `expression` that is unknown or exceeds the
  // limits, and the position of that part.
  static Result<Pattern> parse(std::string_view expression);
  // For expressions in ibid's own source. REQUIRES: parse() accepts the expression.
  explicit Pattern(std::string_view expression);

  // A backtracking point: the match continues at `pc`, from each of the positions `position` down to `least`.
  struct Retreat {
    size_t pc, position, least;
  };
  // A choice among alternatives whose outcome is not known yet. The match made the choice at `pc` and `position`; the
  // backtracking points of the choice are retreats[height ...].
  struct Choice {
    size_t pc, position, height;
    size_t taken;    // position in the text at which the alternative that is being tried starts
    size_t run_end;  // repeat: end of the characters that may be repeated; split: `position`
  };
  // Scratch memory for consecutive searches in one window. After clear() it may be used for another window.
  struct Memory {
    std::vector<Retreat> retreats;
    size_t steps = 0;
    // The following members are used only after a match has taken many steps:
    bool remembers = false;
    bool touched = false;  // the recorded outcomes depend on the end of the window
    std::vector<Choice> choices;
    std::vector<uint8_t> outcomes;  // for each split and position in the window: an Outcome, in two bits
    struct Run {
      size_t begin = 0, end = 0;
    };
    std::vector<Run> failed_runs, good_runs;  // indexed by the pc of a repeat

    void clear() {
      steps = 0;
      remembers = touched = false;
    }
  };

  // Returns the end of the match that starts at `position`, which may be empty, or nullopt. Sets `touched` if the match
  // read the end of the window; never clears `touched`. REQUIRES: `memory` is clear, or was used for searches in the
  // same window.
  std::optional<size_t> match(const PatternWindow& window, size_t position, Memory& memory, bool& touched) const;

  // True if a match depends on the preceding character, so that a search cannot restart in the middle of a text.
  bool looks_behind() const { return looks_behind_; }
  bool may_match_nothing() const { return may_match_nothing_; }

 private:
  friend class PatternCompiler;
  class Run;
  Pattern() = default;

  enum class Op : uint8_t {
    kSet,           // matches one character of the set sets_[a]
    kRepeat,        // matches min to max characters of sets_[a], as many as possible; backtracks unless possessive
    kSplit,         // continues at instruction a; if that fails, at instruction b
    kJump,          // continues at instruction a
    kLook,          // lookahead: continues at b if a match from here on up to kMatch exists (wanted) or not (!wanted)
    kWordBoundary,  // matches between a word character and another character
    kLineEnd,       // matches at the end of the text or before a line feed
    kMatch,
  };
  static constexpr uint32_t kMany = RegexNode::kUnbounded;
  struct Instruction {
    Op op;
    bool possessive = false;
    bool wanted = false;
    uint32_t a = 0, b = 0;
    uint32_t min = 0, max = 0;
    uint32_t choice = 0;  // kSplit: index of this split among all splits of the pattern
  };

  std::vector<Instruction> program_;
  std::vector<CharSet> sets_;
  uint32_t n_splits_ = 0;
  bool looks_behind_ = false, may_match_nothing_ = false;
};

// --- ScanMemory: state kept from one piece to the next by a splitter that finds pieces inside larger ones. The caller
// uses a new ScanMemory for every stretch of text.

struct ScanMemory {
  static constexpr size_t kCertain = SIZE_MAX;

  // A piece that one stage found. An append can change the piece only if finding it read at or beyond safe_end.
  struct Region {
    size_t begin = 0, end = 0;
    size_t safe_end = kCertain;
    bool match =
        false;  // the stage's pattern matched the region, wholly or in part; else the region is between matches
    bool dropped = false;
  };
  std::vector<Region> regions;            // the piece that each stage found last
  std::vector<Pattern::Memory> patterns;  // memory of each stage's pattern
};

}  // namespace ibid
