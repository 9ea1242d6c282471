// Conversations: the sessions that requests without a memory of their own go on from. Clients send the whole history
// each time; here stands which session has sampled it, so that its ids are gone on with and nothing is read again.
//
// A known session is a ChatSession at rest: messages, text and ids, and no pages (those are the store's, and may be
// evicted). It is found by the messages as a client sees them: role, text, calls of tools; an answer's reasoning may be
// left out by a client, and null and empty fields do not count. A hash of each length of the history finds a candidate,
// and the messages are compared before it is used.
//
// Bounded by bytes; the least recently used goes first. Nothing is found across namespaces, models or template
// variables that differ in what was rendered. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/session/chat_session.h"

namespace ibid::serve {

struct ConversationStats {
  uint64_t n_known = 0, n_bytes = 0;
  uint64_t n_continued = 0, n_forked = 0, n_unknown = 0;
};

class Conversations {
 public:
  explicit Conversations(size_t budget_bytes);
  ~Conversations();

  // A session whose history is `messages`, ready to answer the last of them: the known one that shares most with it
  // (taken, where the request goes on from its end; else a fork), or a new one. Errors: those of ChatSession.
  Result<ChatSession> take(std::shared_ptr<Engine> engine, std::string_view cache_namespace, const Json& messages,
                           const Json& variables);
  // Makes a session known under its messages, after a turn that was committed or dropped.
  void put(std::string_view cache_namespace, ChatSession session);
  // Forgets all of a namespace, or of an engine that is to be unloaded.
  void forget_namespace(std::string_view cache_namespace);
  void forget_engine(const Engine& engine);

  ConversationStats stats() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::serve
