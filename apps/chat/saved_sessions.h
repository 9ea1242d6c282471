// Where conversations that have a name are kept, and where their keys and values are: --resume NAME.
#pragma once

#include <memory>
#include <string>

#include "base/file_ops.h"
#include "base/result.h"
#include "runtime/chat_session.h"

namespace ibid {

// Below user_folder(kState) and user_folder(kCache), whose errors they have.
Result<std::string> sessions_directory();
Result<std::string> kv_cache_directory();

// The file of a name. Error: kInvalidArgument unless it is 1 to 64 of A-Z a-z 0-9 _ -: it becomes a file's name.
Result<std::string> session_path(const std::string& name);

struct ResumedSession {
  ChatSession session;
  bool is_new = false;
  std::unique_ptr<FileLock> lock;  // so that no two processes write over each other's messages
};
// The session of that file, or a new one where there is none. Errors: kBusy when another process has it;
// kInvalidArgument for a system message that is not the saved one's; those of ChatSession::load() and create().
Result<ResumedSession> resume_session(std::shared_ptr<Engine> engine, const std::string& path, SessionOptions options);

}  // namespace ibid
