// What a chat template can do, found by rendering small conversations and looking for what was put in. Nothing is
// concluded from its source: a template that names a thing may still do nothing with it.
#pragma once

#include "apps/inspect/fact.h"
#include "templates/chat_template.h"

namespace ibid {

// For a template that refuses the simplest conversation it reports only that, with the template's words.
Facts template_facts(const ChatTemplate& chat_template);

}  // namespace ibid
