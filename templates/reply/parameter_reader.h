// ParameterReader: parses arguments between markers from a text that still grows: <parameter=city>Paris</parameter>.
// Part of a CallReader. It reads a byte a bounded number of times. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/call_steps.h"
#include "templates/reply/protocol_messages.h"

namespace ibid {

class ParameterReader {
 public:
  enum class State { kOpen, kDone, kBad };

  // `end`: the words after the last argument; not empty. All other arguments must outlive the object.
  ParameterReader(const CallSteps& steps, std::vector<std::string> end, const OfferedTools& tools, std::string tool);

  // Continues at text[n_taken()..]. If the result is kDone, n_taken() is the position of the first word of `end`.
  State read(std::string_view text, bool at_end);
  size_t n_taken() const { return at_; }
  void begin_at(size_t at) { at_ = at; }

  // Returns the arguments read so far, as a JSON object.
  std::string json() const { return json_.empty() ? "{}" : json_ + "}"; }

 private:
  enum class Expected { kKeyMarker, kKey, kValueMarker, kEdge, kValue };
  // Whether and where a value ends. `next`: where reading continues. kMore: it is not known yet whether the value ends
  // here.
  struct Ending {
    WordMatch match = WordMatch::kNo;
    size_t at = 0, next = 0;
  };

  State read_key_marker(std::string_view text, bool at_end);
  State read_key(std::string_view text);
  State read_value_marker(std::string_view text);
  State skip_edge(std::string_view text);
  State read_value(std::string_view text, bool at_end);
  // A marker that ends values may also be part of a value. It ends the value only if a next key, the end of the call,
  // or another call follows. Returns whether the marker at `at` ends the value.
  WordMatch goes_on(std::string_view text, size_t at, bool at_end) const;
  // Returns whether the value ends at `at`: there is the marker that ends values or, if the model omitted it, the next
  // argument or the end of the call begins there.
  Ending ending_at(std::string_view text, size_t at, bool at_end) const;
  WordMatch call_at(std::string_view text) const;
  WordMatch closes_call(std::string_view after, bool at_end) const;
  WordMatch match_other(std::string_view text, size_t& at) const;
  // Returns whether the marker of a key is at `at`, and moves `at` past it.
  WordMatch match_key_marker(std::string_view text, size_t& at) const;
  // Returns whether the marker that ends a value is at `at`, and moves `at` past it.
  WordMatch match_end_of_value(std::string_view text, size_t& at) const;
  // Returns whether the marker of another argument of the tool is at `at`.
  WordMatch other_key_at(std::string_view text, size_t at) const;
  // Returns the first position, not before `from`, of a marker that may end a value; npos: there is no such marker.
  size_t next_candidate(std::string_view text, size_t from) const;
  void end_value(std::string_view value);

  const CallSteps& steps_;
  const std::vector<std::string> end_;
  const OfferedTools& tools_;
  const std::string tool_;
  Expected expected_ = Expected::kKeyMarker;
  size_t at_ = 0;
  size_t key_begin_ = 0, value_begin_ = 0;
  std::string key_;
  bool is_other_ = false;  // the value is not a string, because before_other_value precedes it
  std::string json_;
};

}  // namespace ibid
