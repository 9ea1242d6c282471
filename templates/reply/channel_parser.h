// ChannelParser: splits an answer that consists of messages with headers (ChannelSyntax). The part of ReplyParser for
// models with channels. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "templates/reply/json_scanner.h"
#include "templates/reply/offered_tools.h"
#include "templates/reply/reply_output.h"

namespace ibid {

class ChannelParser {
 public:
  ChannelParser(const ChannelSyntax& syntax, OfferedTools tools, bool stream_calls);

  void feed(std::string_view text, ReplyOutput& out);
  void finish(ReplyOutput& out);

 private:
  enum class Where { kHeader, kBody, kBetween };
  enum class Body { kContent, kReasoning, kCall };

  // Each returns whether it went on.
  bool in_header(ReplyOutput& out);
  bool in_body(ReplyOutput& out);
  bool between(ReplyOutput& out);

  void begin_body(ReplyOutput& out);
  void take_body(std::string_view text, ReplyOutput& out);
  void end_body(ReplyOutput& out);
  // The first of the markers that end a body; `length` 0: there is none up to `begin`, where one may begin.
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
  std::string spaces_;      // between two messages; content if text that is no message follows
  std::string opening_;     // what began the message, as written; content if the message is no call after all
  std::string header_;
  std::string call_;        // the body of a call so far
  std::string tool_;
  std::optional<JsonScanner> json_;
  bool said_ = false, thought_ = false;
};

}  // namespace ibid
