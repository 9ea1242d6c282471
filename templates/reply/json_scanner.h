// JsonScanner: follows one JSON object that arrives piece by piece, and reports where it and its own members end. It
// neither builds nor copies values, and reads each byte once. Strict (RFC 8259), except for duplicate keys, ranges of
// numbers, surrogates and UTF-8, which parse_json() checks. A value. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/protocol_messages.h"

namespace ibid {

class JsonScanner {
 public:
  enum class State { kOpen, kDone, kBad };

  // A member of the object itself, as offsets from the object's opening brace. Keys and strings include their quotes.
  struct Member {
    size_t key_begin = 0, key_end = 0;
    size_t value_begin = 0;
    size_t value_end = 0;  // 0: not known yet
  };

  // Takes the next byte; the first must be '{'. REQUIRES: state() == kOpen.
  State push(char c);
  State state() const { return state_; }
  size_t n_taken() const { return n_taken_; }  // bytes; once done, the object's length
  const std::vector<Member>& members() const { return members_; }

 private:
  enum class Wants {
    kBegin,         // the first brace
    kValue,         // a value
    kFirstElement,  // a value, or the end of an empty array
    kFirstKey,      // a key, or the end of an empty object
    kKey,
    kColon,
    kNext,  // a comma or a closing bracket
    kInString,
    kEscaped,  // the character after a backslash
    kHex,      // digits of \uXXXX
    kWord,     // the rest of true, false, null
    kNumber,
  };
  // The states within a number, by its last character.
  enum class Digits { kMinus, kZero, kWhole, kPoint, kFraction, kE, kSign, kExponent };

  State take(char c);
  State begin_value(char c);
  State in_string(char c);
  State in_number(char c);
  State end_string();
  State end_value();
  State open(char brace);
  State close(char brace);
  State bad() { return state_ = State::kBad; }
  State go_on(Wants wants) {
    wants_ = wants;
    return state_;
  }

  State state_ = State::kOpen;
  Wants wants_ = Wants::kBegin;
  Digits digits_ = Digits::kMinus;
  std::string_view word_ = {};  // the part of the word that is still missing
  int n_hex_ = 0;
  bool is_key_ = false;     // whether the current string is a key
  std::vector<char> open_;  // open braces and brackets
  std::vector<Member> members_;
  size_t n_taken_ = 0;
};

// --- Converts values that models write in other notations to JSON: Python's repr ({'a': True}), arguments of a Python
// call (a=1, b="x"), objects with bare keys (a:1,b:<|"|>x<|"|>), and values between markers, for which only the tool's
// schema tells whether they are strings. Pure functions; depth is bounded.

// A notation of values.
struct LooseNotation {
  // The quote of strings, without escapes inside. Empty: ' or ", with escapes as in Python.
  std::string quote = {};
  char open = '{';  // of the outermost object
  char close = '}';
  char separator = ':';  // after a bare key of the outermost object; '=' in calls
};

// Returns the JSON of one whole object in this notation, including braces; nullopt if it is not one. Numbers keep their
// spelling.
std::optional<std::string> loose_object_json(std::string_view text, const LooseNotation& notation);

// Follows a value in loose notation that arrives piece by piece, to its closing brace. Checks only braces and quotes.
class LooseScanner {
 public:
  explicit LooseScanner(const LooseNotation& notation) : notation_(notation) {}

  enum class State { kOpen, kDone, kBad };
  // Takes text[n_taken()..]. `text` begins with the outermost opening brace and has only grown since the last call.
  State scan(std::string_view text);
  size_t n_taken() const { return n_taken_; }

 private:
  // Both return false if more text is needed.
  bool skip_string(std::string_view text);
  bool begin_string(std::string_view text);

  LooseNotation notation_;
  State state_ = State::kOpen;
  size_t n_taken_ = 0;
  std::string open_;      // closing braces that are expected
  std::string in_quote_;  // the quote that ends the current string; empty: not in a string
};

// The JSON of a value between markers, where strings are unquoted. `types`: the types that the schema allows;
// is_string: set if the form itself says whether it is a string.
std::string marked_value_json(std::string_view text, const AllowedTypes& types, std::optional<bool> is_string);

// `text` as a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace ibid
