// Conversation: a session, and its messages as the client sees them. The two may differ: the session holds each answer
// as the runtime stored it for the template, while the client has content, reasoning and tool calls; and if the context
// was full, the session may have dropped turns that the client still has.
//
// A value that owns its session. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/session/session_state.h"

namespace ibid::serve {

// The keys by which a conversation is found: the hash of each of its prefixes (as the client sees the messages), and
// the shortest prefix that is worth continuing from.
struct ConversationPlaces {
  std::vector<uint64_t> hashes;
  size_t first = 0;  // its length in messages; 0: none is
};

class Conversation {
 public:
  // A session without messages, or whose messages are what the client sees. hash_seed: that of the store that may keep
  // it (ConversationStore::hash_seed()).
  Conversation(std::string cache_namespace, ChatSession session, uint64_t hash_seed);

  ChatSession& session() { return session_; }
  const ChatSession& session() const { return session_; }
  const std::string& cache_namespace() const { return cache_namespace_; }
  // The start of the hash chain of its histories: a hash of the namespace and the model's fingerprint; of the engine's
  // address if the model has no fingerprint.
  static uint64_t start_of(std::string_view cache_namespace, const Engine& engine, uint64_t hash_seed);

  // Converts to and from a saved session, whose notes hold the namespace, the model, and the messages as the client
  // sees them. places_of(): nullopt if the notes are invalid. Errors of resume(): kBadHeader for invalid notes; those
  // of resume_session().
  SavedSession to_saved() const;
  ConversationPlaces places() const;
  static std::optional<ConversationPlaces> places_of(const SavedSession& saved, uint64_t hash_seed);
  static Result<Conversation> resume(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                     const SavedSession& saved, uint64_t hash_seed);

  // The number of messages that the client sees; message `i` of them.
  size_t size() const { return seen_.size(); }
  const Json& seen(size_t i) const { return seen_[i].own ? *seen_[i].own : session_.state().messages()[i]; }
  // The hash of the first n messages, and the size of their forms in bytes. REQUIRES: 0 < n <= size().
  uint64_t hash_of(size_t n) const { return seen_[n - 1].hash; }
  size_t bytes_of(size_t n) const { return seen_[n - 1].bytes; }
  // True if the first n messages of `sent` are those of this conversation.
  bool begins(const Json& sent, size_t n) const;
  // True if the first n messages include an answer: its sampled tokens may differ from its text's encoding.
  bool has_answer(size_t n) const;
  // True if a history may continue after message n. If a full context dropped messages, only the end is possible.
  bool can_go_on_from(size_t n) const { return n == size() || !is_cut_; }

  // A second conversation with the first n messages. Errors: those of ChatSession::fork().
  Result<Conversation> fork(size_t n) const;
  // Replaces the messages after number n by those of `sent`. Errors: those of ChatSession::replace_from(); nothing has
  // changed then. REQUIRES: can_go_on_from(n).
  Status go_on(const Json& sent, size_t n);
  // Call after a committed turn, with the answer as the client sees it. cut_from: the history as the client sent it, if
  // the context was full and messages were dropped in this turn; else nullptr.
  void answered(const Json& answer, const Json* cut_from);

  // The number (in Conversations) of the conversation whose end this one continues; 0: none.
  uint64_t origin() const { return origin_; }
  void goes_on_from(uint64_t origin) { origin_ = origin; }

  // Memory used, approximately.
  size_t n_bytes() const;

 private:
  struct Seen {
    uint64_t hash = 0;             // of the history up to this message
    size_t bytes = 0;              // likewise
    std::optional<Json> own = {};  // set if the session's message of the same number differs
  };
  Conversation(const Conversation& other, ChatSession session);  // a copy with another session
  void push(const Json& message, bool owns);

  std::string cache_namespace_;
  ChatSession session_;
  std::vector<Seen> seen_;
  uint64_t start_;  // start_of()
  uint64_t origin_ = 0;
  bool is_cut_ = false;  // the session lacks messages: all seen ones are own
};

}  // namespace ibid::serve
