// MarkerParser: splits an answer by its markers: reasoning at the beginning between two of them,
// calls behind others, and content everywhere else. The part of ReplyParser for models without channels.
// Not thread-safe.
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

// --- ReplyOutput: collects the parts of an answer as a parser decides them, and emits events. Not thread-safe.

class ReplyOutput {
 public:
  // Sets the receiver of events until the next call; the parser calls it before it decides anything.
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
  // `id`: it may come after the arguments.
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
  // Bytes of the arguments of the open call.
  size_t n_argument_bytes() const { return open_.arguments.size(); }

  // A whole call, or the rest of the open one.
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
  void send(TurnEvent event) const {
    if (listener_ != nullptr && *listener_) (*listener_)(event);
  }

  const ReplyParser::Listener* listener_ = nullptr;
  ParsedReply reply_;
  ParsedCall open_;
  bool is_open_ = false;
};

// --- MarkerParser.

class MarkerParser {
 public:
  // begins_inside: the answer begins inside reasoning.
  MarkerParser(const ReplyFormat& format, OfferedTools tools, bool begins_inside, bool stream_calls);
  // Not movable: its readers point into it.
  MarkerParser(const MarkerParser&) = delete;
  MarkerParser& operator=(const MarkerParser&) = delete;

  void feed(std::string_view text, ReplyOutput& out);
  void finish(ReplyOutput& out);

 private:
  enum class Where { kContent, kReasoning, kCall, kBehindCall };
  enum class There { kYes, kUnsure, kNo };  // unsure: the text ends inside it
  enum class Marker { kNone, kUnsure, kReasoning, kCall, kWrapper };
  struct Found {
    Marker marker = Marker::kNone;
    size_t begin = 0, length = 0;
  };

  static There is_there(std::string_view text, std::string_view marker);
  // Words with spaces between them; sets `length` to their total length.
  static There words_there(std::string_view text, const std::vector<std::string>& words, size_t& length);

  // Each returns true if it made progress.
  bool step(ReplyOutput& out);
  bool in_content(ReplyOutput& out);
  bool in_reasoning(ReplyOutput& out);
  bool in_call(ReplyOutput& out);
  bool behind_call();

  Found find_marker();
  Found marker_at(size_t at, bool is_first) const;
  // n_marker: bytes of the word that begins it.
  void begin_call(size_t first_step, size_t n_marker);
  void tell_call_so_far(ReplyOutput& out) const;
  void fail_call(ReplyOutput& out);
  // Whether another call begins there; sets `length` to the length of its first word.
  There next_call_there(std::string_view text, size_t& length) const;
  void say(std::string_view text, ReplyOutput& out);
  void think(std::string_view text, ReplyOutput& out);
  size_t n_unsure(std::string_view marker) const;
  void drop(size_t n);  // drops the first n bytes of held()
  std::string_view held() const { return std::string_view(held_).substr(begin_); }

  const ReplyFormat format_;
  const OfferedTools tools_;
  CallSteps steps_;
  const bool streams_;
  Where where_ = Where::kContent;
  std::string held_;  // undecided text, from begin_ on
  size_t begin_ = 0;
  size_t looked_ = 0;           // bytes of it that cannot begin a marker
  bool looked_solid_ = false;   // and are not only spaces
  std::string spaces_;          // before the held text; content if content follows
  bool said_ = false;           // content other than spaces was emitted
  bool behind_marker_ = false;  // nothing was emitted since the last marker
  bool in_wrapper_ = false;
  bool at_end_ = false;
  bool takes_calls_ = false;
  size_t n_wasted_ = 0;  // bytes that were parsed as calls but are not
  std::optional<CallReader> reader_;
  size_t n_marker_ = 0;           // bytes of the word that begins the current call
  std::string reasoning_spaces_;  // at the end of the reasoning so far
  bool reasoning_said_ = false;   // more than spaces was emitted
};

// --- ChannelParser: splits an answer that consists of messages with headers (ChannelSyntax). The part of ReplyParser
// for models with channels. Not thread-safe.

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
  // The first marker that ends a body; `length` 0: none begins before `begin`, where one may begin.
  struct Ending {
    size_t begin = 0, length = 0;
    bool begins_message = false;
  };
  Ending find_ending() const;
  std::string_view word_behind(std::string_view marker) const;  // in the header
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
  std::string spaces_;   // between two messages; content if other text follows
  std::string opening_;  // beginning of the message, as written; content if the message is not a call
  std::string header_;
  std::string call_;  // the body of a call so far
  std::string tool_;
  std::optional<JsonScanner> json_;
  bool said_ = false, thought_ = false;
};

}  // namespace ibid
