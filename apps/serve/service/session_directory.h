// SessionDirectory: conversations that clients create, name and delete themselves (POST /v1/sessions). The server keeps
// them until they are deleted, other than those of Conversations, which it may forget.
//
// A session belongs to a namespace; no other one finds it. It does one thing at a time: whoever comes meanwhile gets
// kBusy. How many there are, and how many bytes they take, is bounded for each namespace; a session that grows beyond
// that is kept, and no new one is made.
//
// A session keeps its model loaded. Sessions can be saved as files of one directory, and be restored from there.
// Names of files are letters, digits, "_" and "-", at most 64; each namespace has a folder of its own. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "apps/serve/service/answer_request.h"
#include "apps/serve/service/conversation.h"
#include "apps/serve/service/conversation_holder.h"
#include "base/json_limits.h"
#include "base/result.h"

namespace ibid::serve {

class ModelHost;

struct SessionDirectoryOptions {
  size_t max_sessions = 256;             // of a namespace
  size_t budget_bytes = 256u << 20;      // likewise
  std::string directory = {};            // for save() and restore(); empty: these are kUnsupported
};

struct SessionInfo {
  std::string id;
  std::string model;
  size_t n_messages = 0;
  size_t n_ids = 0;
  size_t n_bytes = 0;
  bool is_busy = false;
};

class SessionDirectory {
 public:
  SessionDirectory(ModelHost& models, const SessionDirectoryOptions& options);
  ~SessionDirectory();

  // Errors of all calls that name a session: kNotFound; of those that need it: kBusy.

  // A session with a history (an array of messages, perhaps empty). Returns its id. Loads the model if need be. Errors:
  // those of ModelHost::get() and ChatSession; kLimitExceeded: the namespace has as much as it may.
  Result<std::string> create(const std::string& cache_namespace, const std::string& model, const Json& messages,
                             const Json& variables, WhenFull when_full);
  std::vector<SessionInfo> list(std::string_view cache_namespace) const;
  Result<SessionInfo> info(std::string_view cache_namespace, std::string_view id) const;
  // The messages as clients see them.
  Result<Json> messages(std::string_view cache_namespace, std::string_view id) const;
  // For AnswerRequest::session.
  Result<std::shared_ptr<ConversationHolder>> holder(std::string_view cache_namespace, std::string_view id) const;

  // A second session that goes on from the first n messages. Errors: as create(); kInvalidArgument: it has fewer.
  Result<std::string> fork(const std::string& cache_namespace, std::string_view id, size_t n_messages);
  // Keeps the first n messages. Error: kInvalidArgument: it has fewer.
  Status rewind(std::string_view cache_namespace, std::string_view id, size_t n_messages);
  // Forgets it; what is being answered is answered.
  Status remove(std::string_view cache_namespace, std::string_view id);

  // Writes the session to a file of that name, and makes a new session of one. Errors: kUnsupported: there is no
  // directory; kInvalidArgument: the name; those of ChatSession::save() and load().
  Status save(const std::string& cache_namespace, std::string_view id, const std::string& name) const;
  Result<std::string> restore(const std::string& cache_namespace, const std::string& model, const std::string& name);

 private:
  class Session;
  using Sessions = std::map<std::string, std::shared_ptr<Session>, std::less<>>;  // by id

  Result<std::shared_ptr<Session>> find(std::string_view cache_namespace, std::string_view id) const;
  Result<std::string> add(const std::string& model, Conversation conversation);
  Result<std::string> file_of(const std::string& cache_namespace, const std::string& name) const;

  ModelHost& models_;
  const SessionDirectoryOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, Sessions, std::less<>> spaces_;
};

}  // namespace ibid::serve
