// Conversations: the sessions that requests without a memory of their own go on from. Clients send the whole history
// each time; here stands which session has sampled it, so that its ids are gone on with and nothing is read again.
//
// A known conversation is a ChatSession at rest: messages, text and ids, and no pages (those are the store's, and may
// be evicted). It is found by the messages as a client sees them (server/service/seen_message.h). A hash of each
// length of the history finds a candidate, and the messages are compared before it is used.
//
// A history that goes on from a conversation takes a copy of it: from its end, or from an earlier message where that
// knows more than its text, an answer as it was sampled. So several requests may go on from one at once, and a request
// that is dropped has changed nothing. What is put back takes the place of what it went on from. Every other history is
// new, and finds in the store what was read of it. A copy is text and ids; it is made while the request waits anyway.
//
// Each that has been answered is kept in the store as well, where that is on disk and the engine has a fingerprint: as
// messages, text and ids, written behind the answer by a thread of its own. A history that the store knows more of than
// memory is gone on with from there. What the store cannot read or write costs a remark, and no request.
//
// Bounded by bytes. What goes first is what the owner who has the most (server/store/cache_namespace.h) did not
// use for the longest time, so that nobody pushes out another's. Nothing is found across namespaces. Thread-safe.
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
  uint64_t n_continued = 0, n_forked = 0, n_unknown = 0;  // how requests found theirs
  uint64_t n_forgotten = 0;                               // for want of room
  uint64_t n_restored = 0;                                // from the store
  uint64_t n_waiting = 0;                                 // to be written now
  HistoryStats kept = {};                                 // in the store
};

struct ConversationOptions {
  size_t budget_bytes = 256u << 20;
  bool prefill_when_idle = true;                        // as SessionOptions
  std::shared_ptr<ConversationStore> store = {};        // null: one in memory
  std::function<void(const std::string&)> remark = {};  // a line about what is kept, for who reads the log
};

class Conversations {
 public:
  explicit Conversations(const ConversationOptions& options);
  ~Conversations();

  // A conversation whose history is `messages`, ready to answer the last of them. Errors: those of ChatSession; what
  // was known stays known.
  Result<Conversation> take(std::shared_ptr<Engine> engine, const std::string& cache_namespace, const Json& messages,
                            const Json& variables, WhenFull when_full);
  // The same of a prompt without a template (runtime/prompt/plain_prompt.h). The ids of a text are those of the text
  // alone, whatever was answered before; what was read of them is found in the store. Such a one is not put back.
  static Result<Conversation> take_plain(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                         Json prompt);
  // Makes a conversation known, after a turn that was committed or dropped, in place of the one that it went on from,
  // if that is known still. The engine must not be forgotten yet. Waits for no disk.
  void put(Conversation conversation);
  // Forgets all of a namespace, in the store too; or all conversations of an engine that is to be unloaded, after they
  // are written. Conversations that are put later are known again. Both wait for the disk.
  void forget_namespace(std::string_view cache_namespace);
  void forget_engine(const Engine& engine);

  ConversationStore& store();
  // Runs `work` on the writing thread, after the work that waits there. An exception ends with it. All work is run
  // before this object is destroyed.
  void write_behind(std::function<void()> work);

  ConversationStats stats() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::serve
