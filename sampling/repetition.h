// RepetitionDetector: detects that an answer has begun to repeat the same span of tokens at its end. Small models fall
// into such loops and never leave them.
//
// An answer repeats itself if it ends in at least kTimes consecutive copies of a span that have at least kMinTokens
// tokens together. Tokens are compared, not text, and only equal tokens count. So a numbered list, a table whose cells
// differ, or a refrain with a new verse in between never ends an answer. (A row of kMinTokens equal tokens does, even
// if the user asked for it.)
//
// push() returns true at the very token that completes the repetition. docs/decisions/0016-repetition-ends-an-answer.md
// proves that the following method finds every repetition in time:
//   - Lengths of spans ("periods") are sorted into levels: below 32, then from each power of two to the next. From time
//     to time a level computes the smallest period of a window of the last tokens (the failure function of Knuth,
//     Morris and Pratt 1977), and remembers the period if it is in the level's range: no window has two such periods.
//     Windows and times are chosen such that a period is known before its span has occurred six times.
//   - A known period is checked against each new token, until one differs.
// So a token costs O(log n) comparisons, amortised, if the answer has n tokens so far: less than a hundred in an answer
// of a hundred thousand tokens.
//
// A value: 4 bytes a token, and as much again for the windows. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ibid/token.h"

namespace ibid {

class RepetitionDetector {
 public:
  static constexpr size_t kTimes = 8;
  static constexpr size_t kMinTokens = 256;

  // Appends the next token. Returns true if the tokens so far end in a repetition, as defined at the top of this file.
  bool push(TokenId id);

  // Length of the repeated span; 0: no repetition.
  size_t period() const { return period_; }
  // Number of tokens compared so far, for tests of the cost.
  size_t n_steps() const { return n_steps_; }

 private:
  // A range of periods (lengths of repeated spans): from `begin` to below 2 * begin; in the lowest level from 1. At
  // most one period of a level is known.
  struct Level {
    size_t begin = 0;
    size_t period = 0;     // period (length of a repeated span) of the last tokens, if it is known; 0: unknown
    size_t run_begin = 0;  // the tokens from this index on have this period
  };

  void add_levels();
  // Searches the last tokens, twice as many as the level's longest period, for a period in the level's range. REQUIRES:
  // the answer has that many tokens.
  void search_level(Level& level);
  size_t smallest_period(TokenSpan window);

  Tokens ids_;
  std::vector<Level> levels_;
  std::vector<uint32_t> borders_;  // [window] scratch
  size_t period_ = 0;
  size_t n_steps_ = 0;
};

}  // namespace ibid
