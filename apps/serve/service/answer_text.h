// AnswerText: what a listener hears of the text of one answer, and what the answer is in the end. The text comes in
// pieces as the model says it; what of it is content, reasoning or a call of a tool is told from the way in which the
// model's template writes these (templates/reply/reply_parser.h).
//
// For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "apps/serve/service/answer_request.h"
#include "base/json_limits.h"
#include "ibid/turn.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_parser.h"

namespace ibid::serve {

class AnswerText {
 public:
  // Of answer `i` of a request. seed: of the turn; it gives the calls ids. context: as of ReplyParser.
  AnswerText(size_t i, uint64_t seed, const ReplyFormat& format, const ReplyContext& context)
      : i_(i), seed_(seed), parser_(format, context) {}

  // The next piece of the text; tells the listener what is certain.
  void push(std::string_view text, AnswerListener& listener);
  // No text comes any more: tells the rest, and returns the whole. `turn` has ended.
  Answer finish(Turn turn, AnswerListener& listener);

 private:
  void tell(const ReplyEvent& event, AnswerListener& listener);

  const size_t i_;
  const uint64_t seed_;
  ReplyParser parser_;
  size_t n_bytes_ = 0;
  ParsedReply told_;  // the calls, with ids
};

// The answer as a message that a client may send back: role, content, reasoning_content, tool_calls.
Json message_of(const Answer& answer);

}  // namespace ibid::serve
