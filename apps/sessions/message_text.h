// Messages as people read them. A message that came out of a file may have content of any kind.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_limits.h"
#include "templates/message.h"

namespace ibid {

// The content where it is a string; the texts where it is a list of parts; else what it is as JSON.
std::string text_of(const Json& message);

// How many answers there are.
size_t n_turns(const Json& messages);

// The number of the last message of this role, or messages.size().
size_t last_from(const Json& messages, Role role);

// At most max_characters of the text in one line, with "..." for what is missing behind them.
std::string excerpt(const std::string& text, size_t max_characters);

// The same for the end of the text.
std::string excerpt_of_end(const std::string& text, size_t max_characters);

}  // namespace ibid
