// Conversation: a session, and its messages as clients see them. What a client sees of an answer need not be what the
// session holds: the session has the message that the runtime made of it, for its template; the client has content,
// reasoning and calls of tools. And where a full context took turns away, the client still has them.
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

// What a conversation is found by: the hash of each of its beginnings, by messages that a client sees, and the shortest
// of them that is worth going on from.
struct ConversationPlaces {
  std::vector<uint64_t> hashes;
  size_t first = 0;  // that of hashes[first - 1]; 0: none is
};

class Conversation {
 public:
  // A session without messages, or whose messages a client sees as they are. hash_seed: of the store that may keep it
  // (ConversationStore::hash_seed()).
  Conversation(std::string cache_namespace, ChatSession session, uint64_t hash_seed);

  ChatSession& session() { return session_; }
  const ChatSession& session() const { return session_; }
  const std::string& cache_namespace() const { return cache_namespace_; }
  // The start of the hashes of its histories: a hash of the namespace and the model; of the engine, where the model has
  // no fingerprint.
  static uint64_t start_of(std::string_view cache_namespace, const Engine& engine, uint64_t hash_seed);

  // As a saved session, whose notes say what only this has: namespace and model, and what a client sees. And back: what
  // it is found by; nothing: the notes are not sound. Errors of resume(): kBadHeader for such notes, those of
  // resume_session().
  SavedSession to_saved() const;
  ConversationPlaces places() const;
  static std::optional<ConversationPlaces> places_of(const SavedSession& saved, uint64_t hash_seed);
  static Result<Conversation> resume(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                     const SavedSession& saved, uint64_t hash_seed);

  // How many messages a client sees, and message `i` of them.
  size_t size() const { return seen_.size(); }
  const Json& seen(size_t i) const { return seen_[i].own ? *seen_[i].own : session_.state().messages()[i]; }
  // The hash of the first n messages, and their bytes. REQUIRES: 0 < n <= size().
  uint64_t hash_of(size_t n) const { return seen_[n - 1].hash; }
  size_t bytes_of(size_t n) const { return seen_[n - 1].bytes; }
  // Whether the first n messages of `sent` are this conversation's.
  bool begins(const Json& sent, size_t n) const;
  // Whether one of the first n messages is an answer that was sampled: then their ids say more than their text.
  bool has_answer(size_t n) const;
  // Whether it can be left at message n: not where a full context took messages away, unless that is the end.
  bool can_go_on_from(size_t n) const { return n == size() || !is_cut_; }

  // A second conversation that goes on from the first n messages. Errors: those of ChatSession::fork().
  Result<Conversation> fork(size_t n) const;
  // Makes its history the first n messages, and then those of `sent` behind number n. Errors: those of
  // ChatSession::replace_from(), and it is as before. REQUIRES: can_go_on_from(n).
  Status go_on(const Json& sent, size_t n);
  // For after a turn that was committed: what a client sees of the answer. cut_from: where a full context took messages
  // away in this turn, the history as the client sent it; else nullptr.
  void answered(const Json& answer, const Json* cut_from);

  // The number, in Conversations, of the one whose end it goes on from; 0: none.
  uint64_t origin() const { return origin_; }
  void goes_on_from(uint64_t origin) { origin_ = origin; }

  // What it takes of memory, about.
  size_t n_bytes() const;

 private:
  struct Seen {
    uint64_t hash = 0;             // of the history up to it
    size_t bytes = 0;              // likewise
    std::optional<Json> own = {};  // where the session's message of the same number is another
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
