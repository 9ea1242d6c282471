// Pattern: a regular expression by which a tokenizer file cuts texts, matched as Oniguruma matches it: leftmost
// alternative first, greedy, with possessive quantifiers, lookahead, (?i:), \b and $. Other syntax (lazy
// quantifiers, lookbehind, back references, scripts other than Han ...) is an error.
//
// A pattern from a file may be hostile. A match that takes many steps for the text it has covered remembers which
// choices were made in vain, and from where. Then no choice is made twice, so the cost is linear in the text
// whatever the pattern is. Matching uses no recursion over the text.
//
// A match says whether it looked at the end of what it may see; if it did, an append may change it. Immutable and
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

// --- CharSet: a set of characters as a pattern writes it: classes of Unicode, ranges, and differences of such sets.
// Constant after it was filled; thread-safe.

class CharSet {
 public:
  // A byte that is not UTF-8: in no class and in no range, so only in sets that name what they lack.
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;

  void add(uint32_t first, uint32_t last) {
    for (uint32_t c = first; c <= last && c < 0x80; ++c) ascii_[c] = true;
    if (last >= 0x80) ranges_.emplace_back(first, last);
  }
  // Everything whose unicode_property() `member` accepts.
  template <typename Member>
  void add_class(Member member) {
    for (unsigned property = 0; property < 256; ++property) {
      if (member(static_cast<uint8_t>(property))) properties_[property] = true;
    }
    for (uint32_t c = 0; c < 0x80; ++c) ascii_[c] = ascii_[c] || member(unicode_property(c));
  }
  void add_invalid() { invalid_ = true; }
  // False, and nothing done, where a set of this form cannot say it: `other` must name what is taken away, and classes
  // are only taken away from classes.
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
  bool invalid_ = false;  // kInvalid is in it
  bool negated_ = false;
};

// --- Pattern.

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
    kRepeat,        // min to max characters of sets_[a], as many as possible; gives back unless possessive
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

// --- ScanMemory: the memory of the search for a piece from the search before it, when pieces are found inside of
// larger ones. The walker of a stretch of text owns it, and makes it anew for every stretch.

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
