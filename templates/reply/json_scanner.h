// JsonScanner: follows one JSON object that comes piece by piece, and says where it ends, and where its own members
// are. It builds nothing and copies nothing; a byte is looked at once. Strict (RFC 8259), but for what a byte alone
// cannot show: duplicate keys, the ranges of numbers, surrogates and UTF-8 are for parse_json() to judge.
// A value. Not thread-safe.
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

  // A member of the object itself, as offsets from the object's brace. Keys and strings include their quotes.
  struct Member {
    size_t key_begin = 0, key_end = 0;
    size_t value_begin = 0;
    size_t value_end = 0;  // 0: not known yet
  };

  // Takes the next byte of the object, the first of which is '{'. REQUIRES: state() == kOpen.
  State push(char c);
  State state() const { return state_; }
  size_t n_taken() const { return n_taken_; }  // bytes; when it is done, the object's length
  const std::vector<Member>& members() const { return members_; }

 private:
  enum class Wants {
    kBegin,         // the first brace
    kValue,         // a value
    kFirstElement,  // a value, or the end of an empty array
    kFirstKey,      // a key, or the end of an empty object
    kKey,
    kColon,
    kNext,          // a comma or an end
    kInString,
    kEscaped,       // what follows a backslash
    kHex,           // digits of \uXXXX
    kWord,          // the rest of true, false, null
    kNumber,
  };
  // The parts of a number, by what it ends with so far.
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
  std::string_view word_ = {};  // what is still to come of it
  int n_hex_ = 0;
  bool is_key_ = false;         // the string that is read
  std::vector<char> open_;      // braces
  std::vector<Member> members_;
  size_t n_taken_ = 0;
};

// --- Values that models write in other notations than JSON, made JSON: what Python prints ({'a': True}), arguments
// of a call in Python (a=1, b="x"), objects with bare keys (a:1,b:<|"|>x<|"|>), and values between markers, of which
// only the tool's schema says whether they are strings. Pure functions; depth is bounded.

// How values are written.
struct LooseNotation {
  // Around strings, with nothing escaped in them. Empty: ' or ", with backslashes as in Python.
  std::string quote = {};
  char open = '{';      // of the whole
  char close = '}';
  char separator = ':'; // behind a bare key of the whole; '=' in calls
};

// The JSON of one whole object in this notation, its braces included. Nothing: it is not one. Numbers keep their
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
