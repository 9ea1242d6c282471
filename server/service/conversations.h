// Conversations: finds the session that a request continues. Clients send the whole history each time. This class finds
// the session that sampled the answers, so that tokens are reused instead of being encoded and prefilled again.
//
// A known conversation is an idle ChatSession: messages, text and tokens, but no pages (those belong to the KV store,
// and may be evicted). It is found by its messages as the client sees them (server/service/conversation.h): hashes of
// the prefixes of a history find candidates, whose messages are then compared.
//
// A request receives a copy (text and tokens) of the conversation that its history continues. It continues from the
// end, or from an earlier message if an answer precedes it: without an answer, the text alone determines the tokens. So
// several requests may continue one conversation at once, and a dropped request changes nothing. put() replaces the
// conversation that was continued. Any other history starts a new session, whose prefix may still be in the KV store.
//
// If the ConversationStore outlives the process and the engine has a fingerprint, each answered conversation (messages,
// text, tokens) is also written there, by a thread of its own. If the store has a longer prefix of a history than
// memory, because the process was restarted, or another process or node has answered since, the conversation is
// restored from the store. If two of them answer at once, the last complete turn is in the store, and never parts of
// both. Errors of the store are logged and fail no request.
//
// Bounded by bytes. Eviction: the least recently used conversation of the owner with the most bytes
// (server/store/cache_namespace.h), so an owner cannot evict conversations of others. Nothing is found across
// namespaces. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/engine/engine_state.h"
#include "server/service/conversation.h"
#include "server/store/conversation_store.h"

namespace ibid::serve {

struct ConversationStats {
  uint64_t n_known = 0, n_bytes = 0;  // conversations in memory now
  // Numbers of requests that continued a conversation at its end, continued it from an earlier message, or found no
  // conversation.
  uint64_t n_continued = 0, n_forked = 0, n_unknown = 0;
  uint64_t n_forgotten = 0;  // conversations evicted because the budget was exceeded
  uint64_t n_restored = 0;   // conversations restored from the store
  uint64_t n_waiting = 0;    // conversations now waiting to be written
  HistoryStats kept = {};    // counters of the store
};

struct ConversationOptions {
  size_t budget_bytes = 256u << 20;
  bool repair_when_idle = true;                         // as SessionOptions::repair_when_idle
  std::shared_ptr<ConversationStore> store = {};        // null: a store in memory is created
  std::function<void(const std::string&)> remark = {};  // logs a line about stored conversations
};

class Conversations {
 public:
  explicit Conversations(const ConversationOptions& options);
  ~Conversations();

  // Returns a conversation whose history is `messages`, ready to answer the last message. Errors: those of ChatSession;
  // the known conversations are then unchanged.
  Result<Conversation> take(const std::shared_ptr<Engine>& engine, const std::string& cache_namespace,
                            const Json& messages, const Json& variables, WhenFull when_full);
  // Returns a new conversation for a prompt without a template (runtime/prompt/plain_prompt.h). A text is always
  // encoded as a whole, independently of earlier answers; its cached prefix is found in the KV store. Do not pass the
  // result to put().
  static Result<Conversation> take_plain(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                         Json prompt);
  // Adds a conversation after its turn was committed or dropped. Replaces the conversation that it continued, if that
  // is still known. Does not wait for the disk. REQUIRES: forget_engine() was not called for its engine.
  void put(Conversation conversation);
  // forget_namespace() removes all conversations of a namespace, in the store too. forget_engine() removes the
  // conversations of an engine before it is unloaded, after they were written. Conversations that are put later are
  // known again. Both functions wait for the disk.
  void forget_namespace(std::string_view cache_namespace);
  void forget_engine(const Engine& engine);

  ConversationStore& store();
  // Runs `work` on the writing thread, after the work posted before; exceptions of `work` are ignored. The destructor
  // runs all posted work first.
  void write_behind(std::function<void()> work);

  ConversationStats stats() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::serve
