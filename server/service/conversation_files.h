// What earlier versions kept of known conversations: files <cache directory>/conversations/<32 hex digits>.chat, each a
// saved session (runtime/session/session_file.h) whose notes are those of Conversation::to_saved().
#pragma once

#include <functional>
#include <string>

#include "base/file_ops.h"
#include "server/store/conversation_store.h"

namespace ibid::serve {

// Puts the conversations of a directory into the store, the oldest first, and removes their files; the directory goes
// when nothing else is in it. A file that is not sound is named in a remark, counted as refused, and removed. One that
// is a later version's or cannot be read, and one that the store cannot write, is named, and stays for the next time.
// Files of other names are left alone. A crash on the way leaves a file, which is then put in the same place again.
void take_over_conversation_files(const std::string& directory, FileOps& files, ConversationStore& store,
                                  const std::function<void(const std::string&)>& remark);

}  // namespace ibid::serve
