// JsonScanner: follows one JSON object that comes piece by piece, and says where it ends, and where its own members
// are. It builds nothing and copies nothing; a byte is looked at once. Strict (RFC 8259), but for what a byte alone
// cannot show: duplicate keys, the ranges of numbers, surrogates and UTF-8 are for parse_json() to judge.
// A value. Not thread-safe.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

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

}  // namespace ibid
