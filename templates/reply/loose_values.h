// Values that models write in other notations than JSON, made JSON: what Python prints ({'a': True}), arguments of a
// call in Python (a=1, b="x"), objects with bare keys (a:1,b:<|"|>x<|"|>), and values between markers, of which only
// the tool's schema says whether they are strings. Pure functions; depth is bounded.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "templates/reply/offered_tools.h"

namespace ibid {

// How values are written.
struct LooseNotation {
  // Around strings, with nothing escaped in them. Empty: ' or ", with backslashes as in Python.
  std::string quote = {};
  char open = '{';      // of the whole
  char close = '}';
  char separator = ':'; // behind a bare key of the whole; '=' in calls
};

// The JSON of one whole object in this notation, its braces included. Nothing: it is none. Numbers keep their
// spelling.
std::optional<std::string> loose_object_json(std::string_view text, const LooseNotation& notation);

// Follows a value in loose notation that comes piece by piece, to its closing brace. It looks at braces and quotes.
class LooseScanner {
 public:
  explicit LooseScanner(const LooseNotation& notation) : notation_(notation) {}

  enum class State { kOpen, kDone, kBad };
  // Takes text[n_taken()..], where `text` begins with the brace that opens the whole and has only grown since.
  State scan(std::string_view text);
  size_t n_taken() const { return n_taken_; }

 private:
  // Both return false where more text is needed.
  bool skip_string(std::string_view text);
  bool begin_string(std::string_view text);

  LooseNotation notation_;
  State state_ = State::kOpen;
  size_t n_taken_ = 0;
  std::string open_;       // closing braces that are expected
  std::string in_quote_;   // the quote that ends the string; empty: in none
};

// The JSON of a value between markers, where strings stand as they are. `types` says what the schema allows;
// is_string: the form itself says whether it is one.
std::string marked_value_json(std::string_view text, const AllowedTypes& types, std::optional<bool> is_string);

// `text` as a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace ibid
