// StopDetector: finds stop strings in a text that arrives piece by piece, and emits all text as soon as it can no
// longer belong to a stop string. Handles text only; the generation loop handles tokens that end a turn.
//
// All strings are searched together (Aho & Corasick 1975). The text held back is always the beginning of a stop string,
// so it need not be stored: O(1) amortised per byte and stop string, and only the output allocates.
//
// A value: a copy is independent. Not thread-safe.
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
  static constexpr size_t kMaxStrings = 128;
  static constexpr size_t kMaxBytes = 1024;  // maximum bytes of one stop string

  StopDetector() = default;  // without stop strings: all text is emitted at once

  // Creates a detector of these strings. Error: kInvalidArgument for more than kMaxStrings strings, and for one that is
  // empty, longer than kMaxBytes or not valid UTF-8. (With valid stop strings, text of whole characters is emitted as
  // whole characters.)
  static Result<StopDetector> create(const std::vector<std::string>& stop_strings);

  struct Step {
    std::string text;      // text that is safe to emit, because it belongs to no stop string
    bool stopped = false;  // a stop string is complete; `text` ends before it, the rest of the piece is dropped
  };
  // Adds the next piece of text. The text ends at the first stop string that is complete; if several end at the same
  // byte, at the longest. REQUIRES: no stop string was found yet.
  Step push(std::string_view piece);

  // Ends the text without a stop. Returns the text that was held back.
  std::string finish();

  // The stop string that was found; empty if no stop string was found.
  std::string_view found() const { return found_; }
  size_t n_held_back() const;

 private:
  struct Automaton;
  std::shared_ptr<const Automaton> automaton_;
  uint32_t state_ = 0;
  std::string_view found_;  // view of a string of the automaton
};

}  // namespace ibid
