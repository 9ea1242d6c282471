// Conversation: a session, and its messages as the client sees them. The two may differ: the session holds each answer
// in the form that the template reads, while the client has content, reasoning and tool calls; and if the context was
// full, the session may have dropped turns that the client still has. A value that owns its session. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/session/session_state.h"

namespace ibid::serve {

// --- A message as clients see it: role, text, tool calls. Histories that clients send are found and compared in this
// form. Two messages are equal if they differ only in the following:
// - a text, or a list with that text as its only part;
// - fields that are null, empty, or absent;
// - ids of tool calls; their arguments as JSON text or as an object; in these, 1.0 or 1;
// - the reasoning of an answer, present or absent.
// Pure functions, defined for any JSON value.

// Returns the canonical form of a message, without the reasoning of an answer. Equal messages have equal forms.
std::string seen_form(const Json& message);
// Returns the reasoning of an answer; empty if it has none.
std::string seen_reasoning(const Json& message);

// True if `sent`, a message from a client, equals the known message. A client may leave out the reasoning, but not
// change it.
bool is_seen_as(const Json& known, const Json& sent);

// Returns the hash of a history: combines `before`, the hash of the preceding messages, with one more message. The
// first hash is a secret seed, so that clients cannot construct collisions. Hashes are stored: with one seed they are
// the same in every process.
uint64_t chain_hash(uint64_t before, const Json& message);
uint64_t chain_start(const std::string& space, uint64_t seed);

// --- Conversation.

// The keys by which a conversation is found: a hash of each prefix (of the messages as the client sees them), and the
// length of the shortest prefix with which it is found, because continuing shorter ones saves no work.
struct ConversationPlaces {
  std::vector<uint64_t> hashes;
  size_t first = 0;  // length of the shortest prefix by which the conversation is found; 0: no prefix
};

class Conversation {
 public:
  // REQUIRES: `session` has no messages, or the client sees its messages in the same form. hash_seed:
  // ConversationStore::hash_seed() of the store that may keep the conversation.
  Conversation(std::string cache_namespace, ChatSession session, uint64_t hash_seed);

  ChatSession& session() { return session_; }
  const ChatSession& session() const { return session_; }
  const std::string& cache_namespace() const { return cache_namespace_; }
  // Returns the first link of the hash chain of histories: a hash of the namespace and of the model's fingerprint, or
  // if there is no fingerprint, of the engine's address.
  static uint64_t start_of(std::string_view cache_namespace, const Engine& engine, uint64_t hash_seed);

  // Convert to and from a saved session. Its notes have the namespace, the model, and the messages as the client sees
  // them. places_of() returns nullopt if the notes are invalid. Errors of resume(): kBadHeader for invalid notes; those
  // of resume_session().
  SavedSession to_saved() const;
  ConversationPlaces places() const;
  static std::optional<ConversationPlaces> places_of(const SavedSession& saved, uint64_t hash_seed);
  static Result<Conversation> resume(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                     const SavedSession& saved, uint64_t hash_seed);

  // Number of messages that the client sees, and message `i` of them.
  size_t size() const { return seen_.size(); }
  const Json& seen(size_t i) const { return seen_[i].own ? *seen_[i].own : session_.state().messages()[i]; }
  // Hash of the first n messages, and size in bytes of their canonical forms (seen_form()). REQUIRES: 0 < n <=
  // size().
  uint64_t hash_of(size_t n) const { return seen_[n - 1].hash; }
  size_t bytes_of(size_t n) const { return seen_[n - 1].bytes; }
  // True if the first n messages of `sent` equal those of this conversation.
  bool begins(const Json& sent, size_t n) const;
  // True if the first n messages include an answer, whose sampled tokens may differ from the tokens of its text.
  bool has_answer(size_t n) const;
  // True if a history may continue after message n. If messages were dropped because the context was full, it can only
  // continue after the last message.
  bool can_go_on_from(size_t n) const { return n == size() || !is_cut_; }

  // Returns another conversation with the first n messages. Errors: those of ChatSession::fork().
  Result<Conversation> fork(size_t n) const;
  // Replaces the messages after the first n by the later ones of `sent`. Errors: those of ChatSession::replace_from(),
  // after which nothing has changed. REQUIRES: can_go_on_from(n).
  Status go_on(const Json& sent, size_t n);
  // Call after a committed turn, with the answer as the client sees it. cut_from: if messages were dropped in this turn
  // because the context was full, the history as the client sent it; else nullptr.
  void answered(const Json& answer, const Json* cut_from);

  // Call after a committed turn that continued the last message, with the whole message as the client sees it.
  void continued(const Json& answer);

  // Number (in Conversations) of the conversation that this one continues at its end; 0: none.
  uint64_t origin() const { return origin_; }
  void goes_on_from(uint64_t origin) { origin_ = origin; }

  // Approximate memory in bytes.
  size_t n_bytes() const;

 private:
  struct Seen {
    uint64_t hash = 0;             // hash of the history up to this message
    size_t bytes = 0;              // size of the history up to this message
    std::optional<Json> own = {};  // the message, if the session's message of the same number differs
  };
  Conversation(const Conversation& other, ChatSession session);  // copies everything except the session
  void push(const Json& message, bool owns);

  std::string cache_namespace_;
  ChatSession session_;
  std::vector<Seen> seen_;
  uint64_t start_;  // value of start_of()
  uint64_t origin_ = 0;
  bool is_cut_ = false;  // the session has dropped messages, so every message is in Seen::own
};

}  // namespace ibid::serve
