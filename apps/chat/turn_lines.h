// What is said of a turn in a line below its answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "runtime/turn.h"

namespace ibid {

// "length limit · turn 3 · 412 tokens · 371 cached · first token 41 ms · 98 tok/s" in at most `width`
// columns: why the answer ended, unless the model ended it, and as many of the others as fit, the least
// important left out first. The reason is there however narrow it is.
std::string status_line(const Turn& turn, size_t turn_number, size_t width);

// What to do about an answer that a limit or its own repetition ended; empty for any other. max_tokens: as in
// TurnOptions; nullopt: not known.
std::string ending_line(const Turn& turn, std::optional<size_t> max_tokens);

// "reading 512 of 6459 tokens". REQUIRES: event is of kPrefill.
std::string reading_line(const TurnEvent& event);

// What a full context left out of the history.
std::string left_out_line(const LeftOut& left_out);

}  // namespace ibid
