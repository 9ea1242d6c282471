// MarkerParser: splits an answer by its markers: reasoning between two markers at the beginning, calls after their
// markers, and content everywhere else. ReplyParser uses it for models without channels. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "templates/reply/call_reader.h"
#include "templates/reply/json_scanner.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

// --- ReplyOutput: collects the parts of an answer as a parser recognizes them, and emits events. Not thread-safe.

class ReplyOutput {
 public:
  // Sets the receiver of events. The parser sets it before each feed() and finish(); nullptr: no receiver.
  void tell(const ReplyParser::Listener* listener) { listener_ = listener; }

  void reasoning(std::string_view text) { add(TurnEvent::Kind::kReasoning, text, reply_.reasoning); }
  void content(std::string_view text) { add(TurnEvent::Kind::kContent, text, reply_.content); }

  // A call is emitted as begin_call(), any number of arguments(), and end_call() or break_call().
  void begin_call(const std::string& name, const std::string& id) {
    open_ = {id, name, {}};
    is_open_ = true;
    send({TurnEvent::Kind::kCallBegin, reply_.calls.size(), {}, name, id});
  }
  void arguments(std::string_view text) {
    if (text.empty()) return;
    open_.arguments += text;
    send({TurnEvent::Kind::kArguments, reply_.calls.size(), std::string(text)});
  }
  // `id`: the call's id, which is passed here because the model may write it after the arguments.
  void end_call(const std::string& id) {
    is_open_ = false;
    open_.id = id;
    reply_.calls.push_back(std::move(open_));
    const ParsedCall& call = reply_.calls.back();
    send({TurnEvent::Kind::kCallEnd, reply_.calls.size() - 1, {}, call.name, call.id});
  }
  void break_call() {
    is_open_ = false;
    send({TurnEvent::Kind::kCallBroken, reply_.calls.size()});
  }
  bool in_call() const { return is_open_; }
  // Number of bytes emitted so far of the open call's arguments.
  size_t n_argument_bytes() const { return open_.arguments.size(); }

  // Emits a whole call, or the rest of the open one.
  void complete_call(const ParsedCall& call) {
    if (!is_open_) begin_call(call.name, call.id);
    arguments(std::string_view(call.arguments).substr(open_.arguments.size()));
    end_call(call.id);
  }

  const ParsedReply& reply() const { return reply_; }

 private:
  void add(TurnEvent::Kind kind, std::string_view text, std::string& whole) {
    if (text.empty()) return;
    whole += text;
    send({kind, 0, std::string(text)});
  }
  void send(const TurnEvent& event) const {
    if (listener_ != nullptr && *listener_) (*listener_)(event);
  }

  const ReplyParser::Listener* listener_ = nullptr;
  ParsedReply reply_;
  ParsedCall open_;
  bool is_open_ = false;
};

class MarkerParser {
 public:
  // begins_inside: the answer begins inside reasoning, because the prompt opened it.
  MarkerParser(const ReplyFormat& format, OfferedTools tools, bool begins_inside, bool stream_calls);
  // Not copied or moved: members refer to each other.
  MarkerParser(const MarkerParser&) = delete;
  MarkerParser& operator=(const MarkerParser&) = delete;

  void feed(std::string_view text, ReplyOutput& out);
  void finish(ReplyOutput& out);

 private:
  enum class Where { kContent, kReasoning, kCall, kBehindCall };
  enum class There { kYes, kUnsure, kNo };  // kUnsure: the text ends inside the marker
  enum class Marker { kNone, kUnsure, kReasoning, kCall, kWrapper };
  struct Found {
    Marker marker = Marker::kNone;
    size_t begin = 0, length = 0;
  };

  static There is_there(std::string_view text, std::string_view marker);
  // Looks for words with any spaces between them; sets `length` to the length from the first to the last one.
  static There words_there(std::string_view text, const std::vector<std::string>& words, size_t& length);

  // Each returns true if it made progress.
  bool step(ReplyOutput& out);
  bool in_content(ReplyOutput& out);
  bool in_reasoning(ReplyOutput& out);
  bool in_call(ReplyOutput& out);
  bool behind_call();

  Found find_marker();
  Found marker_at(size_t at, bool is_first) const;
  // n_marker: number of bytes of the word that begins the call.
  void begin_call(size_t first_step, size_t n_marker);
  void tell_call_so_far(ReplyOutput& out) const;
  void fail_call(ReplyOutput& out);
  // Returns whether another call begins at `text`; sets `length` to the length of its first word.
  There next_call_there(std::string_view text, size_t& length) const;
  void say(std::string_view text, ReplyOutput& out);
  void think(std::string_view text, ReplyOutput& out);
  size_t n_unsure(std::string_view marker) const;
  void drop(size_t n);  // removes the first n bytes of held()
  std::string_view held() const { return std::string_view(held_).substr(begin_); }

  const ReplyFormat format_;
  const OfferedTools tools_;
  CallSteps steps_;
  const bool streams_;
  Where where_ = Where::kContent;
  std::string held_;  // text from begin_ on is not decided yet
  size_t begin_ = 0;
  size_t looked_ = 0;           // number of first bytes of held() that cannot begin a marker
  bool looked_solid_ = false;   // these bytes are not only spaces
  std::string spaces_;          // spaces before held(); they become content if content follows
  bool said_ = false;           // content other than spaces was emitted
  bool behind_marker_ = false;  // nothing was emitted since the last marker
  bool in_wrapper_ = false;
  bool at_end_ = false;
  bool takes_calls_ = false;
  size_t n_wasted_ = 0;  // bytes that were first parsed as calls and turned out to be content
  std::optional<CallReader> reader_;
  size_t n_marker_ = 0;           // bytes of the word that begins the current call
  std::string reasoning_spaces_;  // spaces at the end of the reasoning so far
  bool reasoning_said_ = false;   // reasoning other than spaces was emitted
};

// --- ChannelParser: splits an answer that consists of messages with headers (ChannelSyntax). ReplyParser uses it for
// models with channels. Not thread-safe.

class ChannelParser {
 public:
  ChannelParser(const ChannelSyntax& syntax, OfferedTools tools, bool stream_calls);

  void feed(std::string_view text, ReplyOutput& out);
  void finish(ReplyOutput& out);

 private:
  enum class Where { kHeader, kBody, kBetween };
  enum class Body { kContent, kReasoning, kCall };

  // Each returns true if it made progress.
  bool in_header(ReplyOutput& out);
  bool in_body(ReplyOutput& out);
  bool between(ReplyOutput& out);

  void begin_body(ReplyOutput& out);
  void take_body(std::string_view text, ReplyOutput& out);
  void end_body(ReplyOutput& out);
  // The first marker that ends a body. `length` 0: not found, but the text from `begin` on may be its beginning.
  struct Ending {
    size_t begin = 0, length = 0;
    bool begins_message = false;
  };
  Ending find_ending() const;
  std::string_view word_behind(std::string_view marker) const;  // returns the word after a marker in the header
  void say(std::string_view text, ReplyOutput& out);
  void drop(size_t n) { begin_ += n; }
  std::string_view held() const { return std::string_view(held_).substr(begin_); }

  const ChannelSyntax syntax_;
  const OfferedTools tools_;
  const bool streams_;
  Where where_ = Where::kHeader;
  Body body_ = Body::kContent;
  std::string held_;
  size_t begin_ = 0;
  bool at_end_ = false;
  std::string spaces_;   // spaces between two messages; they become content if other text follows
  std::string opening_;  // the message's beginning as the model wrote it; becomes content if the message is not a call
  std::string header_;
  std::string call_;  // text so far of a body that is a call
  std::string tool_;
  std::optional<JsonScanner> json_;
  bool said_ = false, thought_ = false;
};

}  // namespace ibid
