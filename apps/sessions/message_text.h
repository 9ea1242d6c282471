// Messages as text for people. A message from a file may have content of any JSON type.
#pragma once

#include <cstddef>
#include <string>

#include "base/json_limits.h"
#include "templates/message.h"

namespace ibid {

// Returns the content of a message: the content itself if it is a string, its joined texts if it is a list of parts,
// else its JSON.
std::string text_of(const Json& message);

// Counts the answers in a conversation.
size_t n_turns(const Json& messages);

// Returns the index of the last message of this role, or messages.size().
size_t last_from(const Json& messages, Role role);

// Returns at most max_characters of the text, in one line, followed by "..." if the end was cut off.
std::string excerpt(const std::string& text, size_t max_characters);

// As excerpt(), for the end of the text.
std::string excerpt_of_end(const std::string& text, size_t max_characters);

}  // namespace ibid
