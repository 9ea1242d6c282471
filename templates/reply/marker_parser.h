// MarkerParser: splits an answer in which markers say what follows: reasoning at the beginning between two of them,
// calls behind others, and content everywhere else. The part of ReplyParser for models without channels.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/call_reader.h"
#include "templates/reply/call_steps.h"
#include "templates/reply/offered_tools.h"
#include "templates/reply/reply_output.h"

namespace ibid {

class MarkerParser {
 public:
  // begins_inside: the answer begins within reasoning.
  MarkerParser(const ReplyFormat& format, OfferedTools tools, bool begins_inside, bool stream_calls);
  // Its readers point into it.
  MarkerParser(const MarkerParser&) = delete;
  MarkerParser& operator=(const MarkerParser&) = delete;

  void feed(std::string_view text, ReplyOutput& out);
  void finish(ReplyOutput& out);

 private:
  enum class Where { kContent, kReasoning, kCall, kBehindCall };
  enum class There { kYes, kUnsure, kNo };  // unsure: the text ends within it
  enum class Marker { kNone, kUnsure, kReasoning, kCall, kWrapper };
  struct Found {
    Marker marker = Marker::kNone;
    size_t begin = 0, length = 0;
  };

  static There is_there(std::string_view text, std::string_view marker);
  // Words with spaces between; sets `length` to what they take.
  static There words_there(std::string_view text, const std::vector<std::string>& words, size_t& length);

  // Each returns whether it went on.
  bool step(ReplyOutput& out);
  bool in_content(ReplyOutput& out);
  bool in_reasoning(ReplyOutput& out);
  bool in_call(ReplyOutput& out);
  bool behind_call();

  Found find_marker();
  Found marker_at(size_t at, bool is_first) const;
  // n_marker: bytes of the word with which it begins.
  void begin_call(size_t first_step, size_t n_marker);
  void tell_call_so_far(ReplyOutput& out) const;
  void fail_call(ReplyOutput& out);
  // Whether another call begins there; sets `length` to that of its first word.
  There next_call_there(std::string_view text, size_t& length) const;
  void say(std::string_view text, ReplyOutput& out);
  void think(std::string_view text, ReplyOutput& out);
  size_t n_unsure(std::string_view marker) const;
  void drop(size_t n);  // the first n bytes of what is held
  std::string_view held() const { return std::string_view(held_).substr(begin_); }

  const ReplyFormat format_;
  const OfferedTools tools_;
  CallSteps steps_;
  const bool streams_;
  Where where_ = Where::kContent;
  std::string held_;        // what is not decided yet, from begin_ on
  size_t begin_ = 0;
  size_t looked_ = 0;       // bytes of it that begin no marker
  bool looked_solid_ = false;  // and are not spaces alone
  std::string spaces_;      // in front of what is held: the content's, if content follows
  bool said_ = false;       // content that is more than spaces
  bool behind_marker_ = false;  // nothing was said since the last marker
  bool in_wrapper_ = false;
  bool at_end_ = false;
  bool takes_calls_ = false;
  size_t n_wasted_ = 0;     // bytes that were read as calls and are none
  std::optional<CallReader> reader_;
  size_t n_marker_ = 0;     // bytes of the word with which the call begins that is read
  std::string reasoning_spaces_;  // at the end of what was thought so far
  bool reasoning_said_ = false;   // more than spaces
};

}  // namespace ibid
