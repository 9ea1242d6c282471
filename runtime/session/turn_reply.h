// TurnReply: parses the text of one turn into reasoning, content and tool calls, each call with an id. It can emit
// parts while the text arrives, and returns all at the end; both results come from one parse.
//
// For one thread at a time. It owns copies of what it needs of format and context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json_fwd.h"
#include "ibid/token.h"
#include "ibid/turn.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

class EngineState;

// Returns a parsed answer as an OpenAI message (templates/reply/protocol_messages.h).
Json message_of_answer(const Turn& turn);

// Returns the special tokens that stay in the text of an answer for the reply parser: markers of reasoning and, if
// with_calls, of tool calls.
Tokens shown_tokens(const EngineState& engine, bool with_calls);

class TurnReply {
 public:
  // seed: for ids of calls to which the model gave none (assign_call_ids()). continued_text: the answer that this turn
  // continues; it is parsed first, and not emitted.
  TurnReply(const ReplyFormat& format, const ReplyContext& context, uint64_t seed,
            std::string_view continued_text = {});

  // Parses the next piece of text and emits the parts that are certain.
  void feed(std::string_view text, const ReplyParser::Listener& on_event);
  // `text`: the whole text. Feeds what was not fed, and emits the remaining parts. REQUIRES: called once.
  ParsedReply finish(std::string_view text, const ReplyParser::Listener& on_event);
  // The content of the continued answer, as far as it is known before the answer goes on.
  const std::string& content_so_far() const { return content_so_far_; }
  // After finish(): the parts of `whole`, its result, that are not in the continued answer.
  std::string added_reasoning(const ParsedReply& whole) const {
    return continues_ ? added_.reasoning : whole.reasoning;
  }
  std::string added_content(const ParsedReply& whole) const { return continues_ ? added_.content : whole.content; }

 private:
  ReplyParser::Listener with_ids(const ReplyParser::Listener& on_event);
  bool take_added(TurnEvent& event);

  ReplyParser parser_;
  const uint64_t seed_;
  size_t n_bytes_ = 0;  // number of bytes of the answer that were parsed
  ParsedReply ids_;     // the emitted calls, of which only the ids are set
  const bool continues_;
  ParsedReply added_;  // the part of the answer that this turn adds
  std::string content_so_far_;
  // Bytes that the parser held back at the end of the continued answer; the next text begins with them.
  size_t n_held_content_ = 0, n_held_reasoning_ = 0;
};

}  // namespace ibid
