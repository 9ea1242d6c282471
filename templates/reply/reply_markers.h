// The markers of a format: texts that a model writes around the parts of an answer. Pure functions.
#pragma once

#include <string_view>

#include "templates/reply/reply_format.h"

namespace ibid {

// The format's markers of reasoning. A model that was taught to reason may do so whatever its template says, so
// without any they are <think> and </think>.
ReasoningSyntax reasoning_of(const ReplyFormat& format);

// The same format where an answer is not looked through for calls: their markers are none.
ReplyFormat without_calls(ReplyFormat format);

// Whether a special token of this text is a marker, or a part of one. An answer that is split into its parts shows
// such tokens, and no other special ones: those say nothing to whoever reads it.
bool is_marker(const ReplyFormat& format, std::string_view token);

}  // namespace ibid
