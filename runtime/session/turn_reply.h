// TurnReply: what the text of one turn says: reasoning, content, calls of tools, each with an id. It may be told while
// the text comes, and is whole at the end; both are one reading of the text.
//
// For one thread at a time. It owns what it needs of format and context.
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

class Engine;

// The answer of a turn that was parsed, as a message of OpenAI's protocol (templates/reply/protocol_messages.h).
Json message_of_answer(const Turn& turn);

// The special tokens that an answer shows which is split into its parts: markers, those of calls among them only where
// calls are looked for.
Tokens shown_tokens(const Engine& engine, bool with_calls);

class TurnReply {
 public:
  // seed: gives ids to calls that the model gave none (give_call_ids()).
  TurnReply(const ReplyFormat& format, const ReplyContext& context, uint64_t seed)
      : parser_(format, context), seed_(seed) {}

  // The next piece of the text; tells what is certain.
  void feed(std::string_view text, const ReplyParser::Listener& on_event);
  // `text`: all of it. What was not fed is fed first, and the rest is told. REQUIRES: called once.
  ParsedReply finish(std::string_view text, const ReplyParser::Listener& on_event);

 private:
  ReplyParser::Listener with_ids(const ReplyParser::Listener& on_event);

  ReplyParser parser_;
  const uint64_t seed_;
  size_t n_bytes_ = 0;  // that were fed
  ParsedReply ids_;     // the calls that were told, with nothing but their ids
};

}  // namespace ibid
