// StopDetector: finds stop strings in a text that arrives piece by piece, and emits at once all text that can no longer
// belong to one. It handles text only; the generation loop handles tokens that end a turn.
//
// All strings are searched together (Aho & Corasick 1975). The text held back is always the beginning of a
// stop string, so it is not stored: O(1) amortised per byte and stop string, no allocation but the output.
//
// A value: a copy continues on its own. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

class StopDetector {
 public:
  static constexpr size_t kMaxStrings = 16;
  static constexpr size_t kMaxBytes = 1024;  // of one stop string

  StopDetector() = default;  // no stop strings: everything passes

  // Error: kInvalidArgument for more than kMaxStrings strings, and for one that is empty, longer than
  // kMaxBytes or not valid UTF-8 (whole characters in then means whole characters out).
  static Result<StopDetector> create(const std::vector<std::string>& stop_strings);

  struct Step {
    std::string text;      // safe to emit: belongs to no stop string
    bool stopped = false;  // a stop string is complete; `text` ends before it, the rest of the piece is dropped
  };
  // Takes the next piece. The first stop string to be complete wins; of several that end at one byte, the longest.
  // REQUIRES: no stop yet.
  Step push(std::string_view piece);

  // Ends the text without a stop. Returns the text that was held back.
  std::string finish();

  // The stop string that was found; empty before a stop.
  std::string_view found() const { return found_; }
  size_t n_held_back() const;

 private:
  struct Automaton;
  std::shared_ptr<const Automaton> automaton_;
  uint32_t state_ = 0;
  std::string_view found_;  // points into the automaton
};

}  // namespace ibid
