// Conversations: finds the session that a request continues. Clients send the whole history each time; the session that
// sampled its answers is found here, so that their tokens are reused instead of being encoded and prefilled again.
//
// A known conversation is an idle ChatSession: messages, text and tokens, but no pages (those belong to the KV store,
// and may be evicted). It is found by its messages as the client sees them (server/service/seen_message.h): a hash of
// each prefix of the history finds candidates, whose messages are then compared.
//
// A request receives a copy (text and tokens) of the conversation that its history continues: from its end, or from an
// earlier message if an answer precedes it, whose sampled tokens the text does not determine. So several requests may
// continue one conversation at once, and a dropped request changes nothing. put() replaces the conversation that was
// continued. Other histories start a new session, whose prefix may still be in the KV store.
//
// If the ConversationStore is on disk and the engine has a fingerprint, each answered conversation (messages, text,
// tokens) is also written there, by a thread of its own. If the store has a longer prefix of a history than memory, the
// conversation is restored from it. Errors of the store are logged and fail no request.
//
// Bounded by bytes. Eviction: the least recently used conversation of the owner with the most bytes
// (server/store/cache_namespace.h): owners cannot evict each other's. Nothing is found across namespaces. Thread-safe.
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
  uint64_t n_known = 0, n_bytes = 0;                      // now
  uint64_t n_continued = 0, n_forked = 0, n_unknown = 0;  // requests, by what was found for them
  uint64_t n_forgotten = 0;                               // evicted for the budget
  uint64_t n_restored = 0;                                // from the store
  uint64_t n_waiting = 0;                                 // to be written, now
  HistoryStats kept = {};                                 // in the store
};

struct ConversationOptions {
  size_t budget_bytes = 256u << 20;
  bool repair_when_idle = true;                         // as SessionOptions
  std::shared_ptr<ConversationStore> store = {};        // null: one in memory
  std::function<void(const std::string&)> remark = {};  // logs a line about stored conversations
};

class Conversations {
 public:
  explicit Conversations(const ConversationOptions& options);
  ~Conversations();

  // A conversation whose history is `messages`, ready to answer the last of them. Errors: those of ChatSession; the
  // known conversations have not changed.
  Result<Conversation> take(std::shared_ptr<Engine> engine, const std::string& cache_namespace, const Json& messages,
                            const Json& variables, WhenFull when_full);
  // The same for a prompt without a template (runtime/prompt/plain_prompt.h). A text is always encoded as a whole,
  // independently of earlier answers; its cached prefix is found in the KV store. The result is not put back.
  static Result<Conversation> take_plain(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                         Json prompt);
  // Adds a conversation after its turn was committed or dropped. Replaces the one that it continued, if that is still
  // known. REQUIRES: forget_engine() was not called for its engine. Does not wait for the disk.
  void put(Conversation conversation);
  // Remove all conversations of a namespace, in the store too; or all of an engine that is to be unloaded, after they
  // are written. Conversations that are put later are known again. Both wait for the disk.
  void forget_namespace(std::string_view cache_namespace);
  void forget_engine(const Engine& engine);

  ConversationStore& store();
  // Runs `work` on the writing thread, after the work already posted; its exceptions are swallowed. All work is run
  // before this object is destroyed.
  void write_behind(std::function<void()> work);

  ConversationStats stats() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::serve
