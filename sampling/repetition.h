// RepetitionDetector: tells when an answer has begun to repeat itself: the same span of ids, over and over, at its
// end. Small models fall into such loops and never leave them.
//
// An answer repeats itself when it ends in a span that stands there at least kTimes times in a row, and these
// repetitions have at least kLeastIds ids together. Ids are compared, not text, and only equal ids count. So a
// numbered list, a table whose cells differ, or a refrain with a new verse in between never ends an answer. (A row
// of kLeastIds equal ids does, even if it was asked for.)
//
// push() returns true at the very id that completes the repetition.
// docs/decisions/0016-repetition-ends-an-answer.md proves that the following finds every repetition in time.
//  - Lengths of spans ("periods") are sorted into levels: below 32, then from each power of two to the next. From time
//    to time a level computes the smallest period of a window of the last ids (the failure function of Knuth, Morris
//    and Pratt 1977), and remembers it if it is one of the level's own: no window has two of these. The windows and the
//    times are such that a period is known before its span has stood six times.
//  - A period that is known is compared with one id for each id that comes, until one differs.
// So an id costs O(log n) comparisons, amortised, n being the length of the answer so far: less than a hundred in an
// answer of a hundred thousand ids.
//
// A value: 4 bytes an id, and as much again for the windows. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ibid/token.h"

namespace ibid {

class RepetitionDetector {
 public:
  static constexpr size_t kTimes = 8;
  static constexpr size_t kLeastIds = 256;

  // Takes the next id; true when the ids so far end in a repetition, as above.
  bool push(TokenId id);

  // The length of the span that is repeated; 0: nothing is repeated.
  size_t period() const { return period_; }
  // Ids compared so far: what tests hold to account.
  size_t n_steps() const { return n_steps_; }

 private:
  // Periods from `begin` to below 2 * begin (the lowest level: from 1), of which one may be known.
  struct Level {
    size_t begin = 0;
    size_t period = 0;     // that the last ids have; 0: none is known
    size_t run_begin = 0;  // the first id of those; or a later one, where that is enough
  };

  void add_levels();
  // Looks for the level's period in its window. REQUIRES: there are so many ids.
  void look(Level& level);
  size_t smallest_period(TokenSpan window);

  Tokens ids_;
  std::vector<Level> levels_;
  std::vector<uint32_t> borders_;  // [window] scratch
  size_t period_ = 0;
  size_t n_steps_ = 0;
};

}  // namespace ibid
