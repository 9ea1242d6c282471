// ChatBackend: one conversation, whose answers an engine in this process generates (LocalBackend) or a server
// (remote_backend.h). Operations that an implementation does not support fail with kUnsupported and a message for the
// user. A failed call changes nothing. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_ops.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/chat_session.h"
#include "ibid/session_options.h"
#include "ibid/turn.h"
#include "runtime/session/session_state.h"

namespace ibid {

struct SamplingOption;

class ChatBackend {
 public:
  static constexpr size_t kMaxAnswers = ChatSession::kMaxAnswers;

  virtual ~ChatBackend() = default;
  ChatBackend(const ChatBackend&) = delete;
  ChatBackend& operator=(const ChatBackend&) = delete;

  // Returns the committed messages: [{"role": ..., "content": ...}, ...].
  virtual const Json& messages() const = 0;

  // --- Functions that generate answers; ChatSession has functions of the same names and effects.
  virtual Result<Turn> send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) = 0;
  virtual Result<Turn> answer(const TurnOptions& options, const TurnCallback& on_event) = 0;
  virtual Result<Turn> regenerate(const TurnOptions& options, const TurnCallback& on_event) = 0;
  virtual Result<Turn> continue_answer(const TurnOptions& options, const TurnCallback& on_event) = 0;
  using AnswersCallback = ChatSession::AnswersCallback;
  virtual Result<std::vector<Turn>> send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                                     const AnswersCallback& on_event) = 0;
  virtual Status choose(size_t answer) = 0;

  // --- Functions that change the conversation, with the same effects as in ChatSession.
  virtual Status append(Json message) = 0;
  virtual Status rewind_to(size_t n_messages) = 0;
  virtual Status set_history(Json messages) = 0;
  virtual Status reset() = 0;
  virtual Status set_system(std::string_view text) = 0;
  virtual Status pin(size_t message) = 0;
  virtual Status set_when_full(WhenFull policy) = 0;
  virtual Result<std::unique_ptr<ChatBackend>> fork() const = 0;

  // --- Files. can_be_kept() returns ok if this kind of conversation can be saved, else the reason.
  virtual Status can_be_kept() const = 0;
  virtual Status save(const std::string& path) const = 0;
  // Loads another conversation of this kind from a file that save() wrote.
  virtual Result<std::unique_ptr<ChatBackend>> load(const std::string& path) const = 0;
  virtual FileOps& files() const = 0;

  // --- Queries. count_tokens(): nullopt if only the server knows the number.
  virtual std::optional<size_t> count_tokens(std::string_view text) const = 0;
  virtual std::optional<WhenFull> when_full() const = 0;
  // True if a message of n_bytes may fill the context, so that some of the history is dropped.
  virtual bool may_overflow_context(size_t n_bytes) const = 0;
  // Records that the user set this option. Error: kUnsupported if the option has no effect on answers of this backend.
  virtual Status note_option_set(const SamplingOption& option) = 0;
  // True if answers use the option's value in TurnOptions; false if the server decides the value.
  virtual bool decides(const SamplingOption& option) const = 0;
  // Returns lines for /model and /stats.
  virtual std::vector<std::string> describe_model() const = 0;
  virtual std::vector<std::string> describe_costs() = 0;

 protected:
  ChatBackend() = default;
};

// LocalBackend: a conversation with an engine in this process. Owns a ChatSession.
class LocalBackend final : public ChatBackend {
 public:
  explicit LocalBackend(ChatSession session) : session_(std::move(session)) {}

  ChatSession& session() { return session_; }
  const ChatSession& session() const { return session_; }

  const Json& messages() const override { return session_.state().messages(); }
  Result<Turn> send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> answer(const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> regenerate(const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> continue_answer(const TurnOptions& options, const TurnCallback& on_event) override;
  Result<std::vector<Turn>> send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                             const AnswersCallback& on_event) override;
  Status choose(size_t answer) override { return session_.choose(answer); }

  Status append(Json message) override { return session_.state().append(std::move(message)); }
  Status rewind_to(size_t n_messages) override { return session_.rewind_to(n_messages); }
  Status set_history(Json messages) override { return session_.state().set_history(std::move(messages)); }
  Status reset() override { return session_.reset(); }
  Status set_system(std::string_view text) override { return session_.set_system(text); }
  Status pin(size_t message) override { return session_.pin(message); }
  Status set_when_full(WhenFull policy) override { return session_.set_when_full(policy); }
  Result<std::unique_ptr<ChatBackend>> fork() const override;

  Status can_be_kept() const override { return {}; }
  Status save(const std::string& path) const override { return session_.save(path); }
  Result<std::unique_ptr<ChatBackend>> load(const std::string& path) const override;
  FileOps& files() const override { return session_.engine()->state().files(); }

  std::optional<size_t> count_tokens(std::string_view text) const override { return session_.count_tokens(text); }
  std::optional<WhenFull> when_full() const override { return session_.when_full(); }
  bool may_overflow_context(size_t n_bytes) const override;
  Status note_option_set(const SamplingOption&) override { return {}; }
  bool decides(const SamplingOption&) const override { return true; }
  std::vector<std::string> describe_model() const override;
  std::vector<std::string> describe_costs() override;

 private:
  ChatSession session_;
};

}  // namespace ibid
