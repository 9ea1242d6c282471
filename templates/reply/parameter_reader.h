// ParameterReader: reads arguments that stand between markers, one after the other, from a text that still grows:
// <parameter=city>Paris</parameter>. Part of a CallReader. It looks at a byte a bounded number of times.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/call_steps.h"
#include "templates/reply/offered_tools.h"

namespace ibid {

class ParameterReader {
 public:
  enum class State { kOpen, kDone, kBad };

  // end: the words behind the last argument; not empty. The arguments must outlive it.
  ParameterReader(const CallSteps& steps, std::vector<std::string> end, const OfferedTools& tools, std::string tool);

  // Goes on at text[n_taken()..]. kDone: n_taken() is in front of the end's first word.
  State read(std::string_view text, bool at_end);
  size_t n_taken() const { return at_; }
  void begin_at(size_t at) { at_ = at; }

  // What was read, as a JSON object.
  std::string json() const { return json_.empty() ? "{}" : json_ + "}"; }

 private:
  enum class Match { kYes, kMore, kNo };
  enum class Wants { kKeyMarker, kKey, kValueMarker, kEdge, kValue };

  // Matches words at `at`, spaces allowed between, and sets `at` behind them.
  static Match match(std::string_view text, const std::vector<std::string>& words, size_t& at);
  State read_key_marker(std::string_view text);
  State read_key(std::string_view text);
  State read_value_marker(std::string_view text);
  State skip_edge(std::string_view text);
  State read_value(std::string_view text, bool at_end);
  // Whether what stands behind a marker that may end a value says that it does.
  Match goes_on(std::string_view text, size_t at) const;
  void end_value(std::string_view value);

  const CallSteps& steps_;
  const std::vector<std::string> end_;
  const OfferedTools& tools_;
  const std::string tool_;
  Wants wants_ = Wants::kKeyMarker;
  size_t at_ = 0;
  size_t key_begin_ = 0, value_begin_ = 0;
  std::string key_;
  bool is_other_ = false;  // the value's marker says that it is no string
  std::string json_;
};

}  // namespace ibid
