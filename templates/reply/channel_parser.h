// ChannelParser: splits an answer that consists of messages with headers (ChannelSyntax). ReplyParser uses it for
// models with channels. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "templates/reply/call_steps.h"
#include "templates/reply/json_scanner.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_output.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

class ChannelParser {
 public:
  ChannelParser(const ChannelSyntax& syntax, OfferedTools tools, const ReplyContext& context);

  void feed(std::string_view text, ReplyOutput& out);
  void finish(ReplyOutput& out);

 private:
  enum class Where { kHeader, kBody, kBetween };
  // kUndecided: not known yet whether the body is content or calls that name their tools.
  enum class Body { kContent, kReasoning, kCall, kUndecided };

  // Each function returns true if it made progress.
  bool in_header(ReplyOutput& out);
  bool in_body(ReplyOutput& out);
  bool between(ReplyOutput& out);

  bool is_cut_header() const;
  void begin_body(ReplyOutput& out);
  void take_body(std::string_view text, ReplyOutput& out);
  void decide_body(ReplyOutput& out);
  void begin_content(std::string_view text, ReplyOutput& out);
  // is_cut: the answer ended inside the body.
  void end_body(bool is_cut, ReplyOutput& out);
  // The first marker that ends a body. `length` 0: not found, but the text from `begin` on may be its beginning.
  struct Ending {
    size_t begin = 0, length = 0;
    bool begins_message = false;
  };
  Ending find_ending() const;
  // Returns the word after the last `marker` in the header; empty if the marker is missing.
  std::string_view word_after(std::string_view marker) const;
  bool read_calls_of_body(ReplyOutput& out);
  void emit_content(std::string_view text, ReplyOutput& out);
  void drop(size_t n) { begin_ += n; }
  std::string_view held() const { return std::string_view(held_).substr(begin_); }

  const ChannelSyntax syntax_;
  const OfferedTools tools_;
  const CallSteps body_steps_;
  const bool streams_, discards_incomplete_call_;
  Where where_ = Where::kHeader;
  Body body_ = Body::kContent;
  std::string held_;
  size_t begin_ = 0;
  bool at_end_ = false;
  std::string spaces_;  // spaces between two messages; they become content if other text follows
  // The beginning of the current message as the model wrote it; becomes content if the message is not a call.
  std::string opening_;
  std::string header_;
  std::string call_;  // the text so far of a body that may be a call
  std::string tool_;
  std::optional<JsonScanner> json_;
  bool content_emitted_ = false, reasoning_emitted_ = false;
};

}  // namespace ibid
