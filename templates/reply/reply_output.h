// ReplyOutput: takes what a parser has decided, keeps it, and tells it. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "templates/reply/reply_parser.h"

namespace ibid {

class ReplyOutput {
 public:
  // Where events go until the next call; the parser says so before it decides anything.
  void tell(const ReplyParser::Listener* listener) { listener_ = listener; }

  void reasoning(std::string_view text) { add(ReplyEvent::Kind::kReasoning, text, reply_.reasoning); }
  void content(std::string_view text) { add(ReplyEvent::Kind::kContent, text, reply_.content); }

  // A call: begin_call(), arguments() as often as there are some, and end_call() or break_call().
  void begin_call(const std::string& name, const std::string& id) {
    open_ = {id, name, {}};
    is_open_ = true;
    send({ReplyEvent::Kind::kCallBegin, reply_.calls.size(), {}, name, id});
  }
  void arguments(std::string_view text) {
    if (text.empty()) return;
    open_.arguments += text;
    send({ReplyEvent::Kind::kArguments, reply_.calls.size(), std::string(text)});
  }
  // `id`: it may have stood behind the arguments.
  void end_call(const std::string& id) {
    is_open_ = false;
    open_.id = id;
    reply_.calls.push_back(std::move(open_));
    const ParsedCall& call = reply_.calls.back();
    send({ReplyEvent::Kind::kCallEnd, reply_.calls.size() - 1, {}, call.name, call.id});
  }
  void break_call() {
    is_open_ = false;
    send({ReplyEvent::Kind::kCallBroken, reply_.calls.size()});
  }
  bool in_call() const { return is_open_; }
  // Of the call that is open.
  size_t n_argument_bytes() const { return open_.arguments.size(); }

  // A whole call, or what was not told of the open one.
  void complete_call(const ParsedCall& call) {
    if (!is_open_) begin_call(call.name, call.id);
    arguments(std::string_view(call.arguments).substr(open_.arguments.size()));
    end_call(call.id);
  }

  const ParsedReply& reply() const { return reply_; }

 private:
  void add(ReplyEvent::Kind kind, std::string_view text, std::string& whole) {
    if (text.empty()) return;
    whole += text;
    send({kind, 0, std::string(text)});
  }
  void send(ReplyEvent event) const {
    if (listener_ != nullptr && *listener_) (*listener_)(event);
  }

  const ReplyParser::Listener* listener_ = nullptr;
  ParsedReply reply_;
  ParsedCall open_;
  bool is_open_ = false;
};

}  // namespace ibid
