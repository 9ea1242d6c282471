// MarkerParser: splits an answer by its markers: reasoning between two markers at the beginning, calls after their
// markers, and content everywhere else. ReplyParser uses it for models without channels. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/call_markers.h"
#include "templates/reply/call_reader.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_output.h"
#include "templates/reply/reply_parser.h"
#include "templates/reply/unmarked_calls.h"

namespace ibid {

class MarkerParser {
 public:
  // begins_inside: the answer begins inside reasoning, because the prompt opened it.
  MarkerParser(const ReplyFormat& format, OfferedTools tools, bool begins_inside, const ReplyContext& context);
  MarkerParser(const MarkerParser&) = delete;  // not copied or moved: members refer to each other
  MarkerParser& operator=(const MarkerParser&) = delete;

  void feed(std::string_view text, ReplyOutput& out);
  void finish(ReplyOutput& out);

 private:
  enum class Where { kContent, kReasoning, kCall, kAfterCall, kAfterCallInReasoning, kUnmarkedCalls };
  enum class Marker { kNone, kUnsure, kReasoning, kEndOfReasoning, kCall, kWrapper, kDropped, kUnmarkedCalls };
  struct Found {
    Marker marker = Marker::kNone;
    size_t begin = 0, length = 0;
  };

  // Each function returns true if it made progress.
  bool step(ReplyOutput& out);
  bool in_content(ReplyOutput& out);
  bool in_reasoning(ReplyOutput& out);
  bool in_call(ReplyOutput& out);
  bool after_call();
  bool after_call_in_reasoning(ReplyOutput& out);
  bool in_unmarked_calls(ReplyOutput& out);

  Found find_marker();
  Found marker_at(size_t at, bool is_first) const;
  Found find_in_reasoning();
  WordMatch call_there(std::string_view text, bool is_first, size_t& length) const {
    return takes_calls_ ? markers_->call(text, is_first, length) : WordMatch::kNo;
  }
  bool skip_repeated_begin();
  void end_reasoning();
  // n_marker: number of bytes of the word that begins the call.
  void begin_call(size_t first_step, size_t n_marker);
  void end_call(ReplyOutput& out);
  void emit_call_so_far(ReplyOutput& out) const;
  void fail_call(ReplyOutput& out);
  void emit_content(std::string_view text, ReplyOutput& out);
  void emit_reasoning(std::string_view text, ReplyOutput& out);
  void drop(size_t n);  // removes the first n bytes of held()
  std::string_view held() const { return std::string_view(held_).substr(begin_); }

  const ReplyFormat format_;
  std::string reasoning_tag_;  // special token that begins the reasoning marker; models may omit the words after it
  const OfferedTools tools_;
  std::optional<CallMarkers> markers_;  // where calls begin and end; set if calls are searched for
  const bool streams_;
  Where where_ = Where::kContent;
  std::string held_;  // text of the answer; the text from begin_ on is held back, because it may be part of a marker
  size_t begin_ = 0;
  size_t n_scanned_ = 0;            // number of first bytes of held() that cannot begin a marker
  bool scanned_non_space_ = false;  // held()'s first n_scanned_ bytes have a character that is no space
  std::string spaces_;              // spaces before held(); they become content if other content follows
  bool content_emitted_ = false;    // content other than spaces was emitted
  bool after_marker_ = false;       // nothing but spaces was read since the last marker
  bool in_wrapper_ = false;
  bool at_end_ = false;
  bool takes_calls_ = false;
  const bool discards_incomplete_call_;
  bool call_emitted_ = false;
  // The current call began inside reasoning. It does not count if the model closes the reasoning after it and goes on.
  bool in_reasoning_ = false;
  bool reasoning_is_closed_ = false;  // the reasoning is closed later, so that calls inside it are not searched for
  size_t searched_to_ = 0;  // number of bytes of held() that do not close the reasoning after the current call
  std::optional<UnmarkedCalls> unmarked_calls_;
  bool may_be_unmarked_calls_ = true;  // the answer may still consist of nothing but calls
  size_t n_wasted_ = 0;                // bytes that were first parsed as calls and turned out to be content
  std::optional<CallReader> reader_;
  size_t n_marker_ = 0;             // bytes of the word that begins the current call
  std::string reasoning_spaces_;    // spaces at the end of the reasoning so far
  bool reasoning_emitted_ = false;  // reasoning other than spaces was emitted
};

}  // namespace ibid
