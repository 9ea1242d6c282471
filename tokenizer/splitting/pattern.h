// Pattern: a regular expression with which a tokenizer file splits texts, matched as Oniguruma matches it: leftmost
// alternative first, greedy, with possessive quantifiers, lookahead, (?i:), \b and $. Other syntax (lazy quantifiers,
// lookbehind, back references, scripts other than Han ...) is an error.
//
// A pattern from a file may be hostile. A match that takes many steps for the text it has covered records which choices
// failed, and where. Then no choice is made twice, so the cost is linear in the text for any pattern. Matching does not
// recurse over the text.
//
// A match reports whether it looked at the end of its window; if so, an append may change it. Immutable and
// thread-safe; the memory of a match belongs to its caller.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unicode/unicode.h"

namespace ibid {

// --- CharSet: a set of characters as written in a pattern: Unicode classes, ranges, and differences of such sets.
// Constant after it was filled; thread-safe.

class CharSet {
 public:
  // A byte that is not UTF-8: in no class and no range, so only in negated sets, or after add_invalid().
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;

  void add(uint32_t first, uint32_t last) {
    for (uint32_t c = first; c <= last && c < 0x80; ++c) ascii_[c] = true;
    if (last >= 0x80) ranges_.emplace_back(first, last);
  }
  // Adds every character whose unicode_property() `member` accepts.
  template <typename Member>
  void add_class(Member member) {
    for (unsigned property = 0; property < 256; ++property) {
      if (member(static_cast<uint8_t>(property))) properties_[property] = true;
    }
    for (uint32_t c = 0; c < 0x80; ++c) ascii_[c] = ascii_[c] || member(unicode_property(c));
  }
  void add_invalid() { invalid_ = true; }
  // Returns false, with nothing changed, if the result cannot be represented: `other` must be negated, and classes can
  // only be subtracted from classes.
  bool intersect(const CharSet& other) {
    const bool ranges_meet_classes = !ranges_.empty() && other.properties_.any();
    if (!other.negated_ || !other.holes_.empty() || negated_ || ranges_meet_classes) return false;
    holes_.insert(holes_.end(), other.ranges_.begin(), other.ranges_.end());
    ascii_ &= ~other.ascii_;
    properties_ &= ~other.properties_;
    return true;
  }
  bool unite(const CharSet& other) {
    if (other.negated_ || !other.holes_.empty() || !holes_.empty()) return false;
    ascii_ |= other.ascii_;
    properties_ |= other.properties_;
    invalid_ = invalid_ || other.invalid_;
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
    return true;
  }
  void negate() { negated_ = !negated_; }

  bool contains(uint32_t c) const {
    if (c < 0x80) return ascii_[c] != negated_;
    return (c == kInvalid ? invalid_ : has(c)) != negated_;
  }

 private:
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

  static bool in(const Ranges& ranges, uint32_t c) {
    for (const auto& [first, last] : ranges) {
      if (c >= first && c <= last) return true;
    }
    return false;
  }
  bool has(uint32_t c) const { return (properties_[unicode_property(c)] || in(ranges_, c)) && !in(holes_, c); }

  std::bitset<128> ascii_;
  std::bitset<256> properties_;  // by unicode_property()
  Ranges ranges_, holes_;
  bool invalid_ = false;  // contains kInvalid
  bool negated_ = false;
};

// --- Pattern.

// The part of a text that a match may see: text[begin, end). Reading at or beyond `safe_end` counts as reading the end.
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

  // Error: kUnsupported, with the part of `expression` that is unknown or exceeds the limits.
  static Result<Pattern> parse(std::string_view expression);
  // REQUIRES: parse() accepts it; for expressions in this program's source.
  explicit Pattern(std::string_view expression);

  // A backtracking point: the match continues at `pc`, from each of the positions `position` down to `least`.
  struct Retreat {
    size_t pc, position, least;
  };
  // An open choice: `pc` was reached at `position`; its backtracking points are retreats[height ...].
  struct Choice {
    size_t pc, position, height;
    size_t taken;  // where the chosen continuation began
    size_t run_end;
  };
  // Scratch for the searches in one window, one after another. After clear() it may be used for another window.
  struct Memory {
    std::vector<Retreat> retreats;
    size_t steps = 0;
    // Used only after many steps:
    bool remembers = false;
    bool touched = false;  // the recorded outcomes depend on the end of the window
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

  // Returns the end of the match that starts at `position`, which may be empty, or nullopt. Sets `touched` if it read
  // the end; else leaves it. REQUIRES: `memory` is clear, or from searches in the same window.
  std::optional<size_t> match(const PatternWindow& window, size_t position, Memory& memory, bool& touched) const;

  // True if a match depends on the character before it. Then a search cannot restart in the middle of a text.
  bool looks_behind() const { return looks_behind_; }
  bool may_match_nothing() const { return may_match_nothing_; }

 private:
  friend class PatternCompiler;
  class Run;
  Pattern() = default;

  enum class Op : uint8_t {
    kSet,           // one character of sets_[a]
    kRepeat,        // min to max characters of sets_[a], as many as possible; backtracks unless possessive
    kSplit,         // continues at a, and at b if that fails
    kJump,          // continues at a
    kLook,          // continues at b if the text matches the program up to a kMatch (wanted) or does not
    kWordBoundary,  // between a word character and another one
    kLineEnd,       // at the end or before a line feed
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

// --- ScanMemory: state kept from one piece to the next, if pieces are found inside larger ones. Owned by the loop over
// a stretch of text, new for every stretch.

struct ScanMemory {
  static constexpr size_t kCertain = SIZE_MAX;

  // A piece of one stage. An append can change it only if finding it read at or beyond safe_end.
  struct Region {
    size_t begin = 0, end = 0;
    size_t safe_end = kCertain;
    bool match = false;  // matched by the stage's pattern, wholly or in part; else between matches
    bool dropped = false;
  };
  std::vector<Region> regions;            // by stage
  std::vector<Pattern::Memory> patterns;  // by stage
};

}  // namespace ibid
