// JsonScanner: follows one JSON object that arrives piece by piece, and reports where the object and its own members
// end. It neither builds nor copies values, and reads each byte once. Strict (RFC 8259), except that it accepts
// duplicate keys, numbers of any size, lone surrogates and invalid UTF-8, which parse_json() checks. Copyable. Not
// thread-safe.
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

  // A member of the object itself (not of nested ones), as offsets from the object's opening brace. Keys and strings
  // include their quotes.
  struct Member {
    size_t key_begin = 0, key_end = 0;
    size_t value_begin = 0;
    size_t value_end = 0;  // 0: the end is not known yet
  };

  // Takes the next byte; the first must be '{'. REQUIRES: state() == kOpen.
  State push(char c);
  State state() const { return state_; }
  size_t n_taken() const { return n_taken_; }  // bytes read; when done, the object's length
  const std::vector<Member>& members() const { return members_; }

 private:
  enum class Expected {
    kBegin,         // expects the first brace
    kValue,         // expects a value
    kFirstElement,  // expects a value, or the end of an empty array
    kFirstKey,      // expects a key, or the end of an empty object
    kKey,
    kColon,
    kNext,  // expects a comma or a closing bracket
    kInString,
    kEscaped,  // expects the character after a backslash in a string
    kHex,      // expects the four hexadecimal digits of \uXXXX
    kWord,     // expects the rest of true, false, null
    kNumber,
  };
  // States within a number, named after the last character that was read.
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
  State go_on(Expected expected) {
    expected_ = expected;
    return state_;
  }

  State state_ = State::kOpen;
  Expected expected_ = Expected::kBegin;
  Digits digits_ = Digits::kMinus;
  std::string_view word_ = {};  // the rest of true, false or null that is still expected
  int n_hex_ = 0;
  bool is_key_ = false;     // whether the current string is a key
  std::vector<char> open_;  // open braces and brackets
  std::vector<Member> members_;
  size_t n_taken_ = 0;
};

// --- Converts values that models write in other notations to JSON: Python's repr ({'a': True}), arguments of a Python
// call (a=1, b="x"), objects with bare keys (a:1,b:<|"|>x<|"|>), and values between markers, which are strings if the
// tool's schema says so. Pure functions; depth is bounded.

struct LooseNotation {
  // The text before and after each string; strings then have no escapes. Empty: strings are in ' or ", with escapes as
  // in Python.
  std::string quote = {};
  char open = '{';  // opens the outermost object
  char close = '}';
  char separator = ':';  // follows each bare key of the outermost object; '=' in Python's calls
};

// Returns the JSON of one whole object in this notation, including its braces; nullopt if `text` is not such an object.
// Numbers keep their spelling.
std::optional<std::string> loose_object_json(std::string_view text, const LooseNotation& notation);

// Follows a value in loose notation that arrives piece by piece, to its closing brace. Checks only braces and quotes.
class LooseScanner {
 public:
  explicit LooseScanner(const LooseNotation& notation) : notation_(notation) {}

  enum class State { kOpen, kDone, kBad };
  // Continues at text[n_taken()..]. `text` begins with the outermost opening brace and has only grown since the last
  // call.
  State scan(std::string_view text);
  size_t n_taken() const { return n_taken_; }

 private:
  // Each of both functions returns false if the value continues beyond the end of `text`.
  bool skip_string(std::string_view text);
  bool begin_string(std::string_view text);

  LooseNotation notation_;
  State state_ = State::kOpen;
  size_t n_taken_ = 0;
  std::string open_;      // closing brackets that are still expected
  std::string in_quote_;  // the quote that ends the current string; empty outside of strings
};

// Returns the JSON of a value between markers, where strings are unquoted. `types`: the types that the schema allows.
// is_string: set if the marker says whether the value is a string; `types` has precedence over it.
std::string marked_value_json(std::string_view text, const AllowedTypes& types, std::optional<bool> is_string);

// Returns `text` as a JSON string, with its quotes.
std::string json_string(std::string_view text);

}  // namespace ibid
