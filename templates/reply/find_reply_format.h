// Finds the ReplyFormat of a chat template by rendering conversations with known calls and reasoning, and reading off
// what the template writes around names, arguments and thoughts. So templates that nobody has seen are understood as
// well. What a template does not show itself (some tell the model in words only) is taken from a table of known shapes
// (templates/reply/known_formats.h), by the marker that the template's text names.
//
// A pure function: a dozen renders of short conversations.
#pragma once

#include "templates/chat_template.h"
#include "templates/reply/reply_format.h"

namespace ibid {

ReplyFormat find_reply_format(const ChatTemplate& chat_template);

}  // namespace ibid
