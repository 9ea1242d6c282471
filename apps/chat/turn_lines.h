// What is said of a turn in a line below its answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "ibid/turn.h"

namespace ibid {

// "length limit · turn 3 · 412 tokens · 371 cached · first token 41 ms · 98 tok/s" in at most `width`
// columns: why the answer ended, unless the model ended it, and as many of the others as fit, the least
// important left out first. The reason is there however narrow it is.
std::string status_line(const Turn& turn, size_t turn_number, size_t width);

// The place where an answer is given. What a person can do about its end has another name in each.
enum class AnswerPlace : uint8_t {
  kChat,  // that takes commands
  kPipe,  // a chat from a pipe
  kAsk,   // one answer
};

// Why a limit or its own repetition ended an answer, and what to do about it; empty for any other end. max_tokens: of
// the turn, as in TurnOptions.
std::string ending_line(const Turn& turn, size_t max_tokens, AnswerPlace place);

// A failure as a person at a terminal or a script can use it: what a message of the library says of its own functions
// is left out, and the ways out are those of the place, in lines of their own.
std::string failure_text(const Status& status, AnswerPlace place);

// Lines of --verbose: which model answers (context 0: not known), and how it is sampled; how fast an answer was.
std::string settings_text(const std::string& model, size_t context, const TurnOptions& options);
std::string rates_line(const Turn& turn);

// "reading 512 of 6459 tokens". REQUIRES: event is of kPrefill.
std::string reading_line(const TurnEvent& event);

// What a full context left out of the history.
std::string left_out_line(const LeftOut& left_out);

}  // namespace ibid
