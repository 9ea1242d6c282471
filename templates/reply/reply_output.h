// ReplyOutput: collects the parts of an answer as a parser recognizes them, and emits events. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "templates/reply/reply_parser.h"

namespace ibid {

class ReplyOutput {
 public:
  // Sets the receiver of events. The parser sets it before each feed() and finish(); nullptr: no receiver.
  void set_receiver(const ReplyParser::Listener* listener) { listener_ = listener; }

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

  // Emits a whole call, or if its beginning was emitted already, the rest of it.
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

}  // namespace ibid
