// SessionBranch: one branch of a conversation, with all that a fork has of its own: messages (Dialogue), keys and
// values (SequenceCache), and indexes for drafts and penalties (LookBack). Each keeps its own invariants; only a
// committed turn changes all three (RunningTurn). Internal.
//
// A value, for one thread at a time: that of the session's current call. A copy copies text and tokens, but no pages.
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
