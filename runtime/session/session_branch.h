// SessionBranch: one line of a conversation, that is what a fork has of its own: what was said (Dialogue), its keys and
// values (SequenceCache), and what drafts and penalties look back on (LookBack). Each keeps its own rules; only a
// committed turn changes all three (RunningTurn). Not for users of the library.
//
// A value, for one thread at a time: the one whose call the session runs. Copying copies text and ids, and no page.
#pragma once

#include <type_traits>

#include "runtime/session/dialogue.h"
#include "runtime/session/look_back.h"
#include "runtime/session/sequence_cache.h"

namespace ibid {

struct SessionBranch {
  Dialogue dialogue;
  SequenceCache cache;
  LookBack look_back;
};
static_assert(std::is_nothrow_move_assignable_v<SessionBranch>);

}  // namespace ibid
