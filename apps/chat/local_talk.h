// LocalTalk: a conversation whose answers come from an engine in this process: a ChatSession.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/chat/talk.h"
#include "runtime/session/chat_session.h"

namespace ibid {

class LocalTalk final : public Talk {
 public:
  explicit LocalTalk(ChatSession session) : session_(std::move(session)) {}

  ChatSession& session() { return session_; }
  const ChatSession& session() const { return session_; }

  const Json& messages() const override { return session_.messages(); }
  Result<Turn> send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> answer(const TurnOptions& options, const TurnCallback& on_event) override;
  Result<Turn> regenerate(const TurnOptions& options, const TurnCallback& on_event) override;
  Result<std::vector<Turn>> send_for_answers(std::string_view message, size_t n, const TurnOptions& options,
                                             const AnswersCallback& on_event) override;
  Status choose(size_t answer) override { return session_.choose(answer); }

  Status append(Json message) override { return session_.append(std::move(message)); }
  Status rewind_to(size_t n_messages) override { return session_.rewind_to(n_messages); }
  Status set_history(Json messages) override { return session_.set_history(std::move(messages)); }
  Status reset() override { return session_.reset(); }
  Status set_system(std::string_view text) override { return session_.set_system(text); }
  Status pin(size_t message) override { return session_.pin(message); }
  Status set_when_full(WhenFull policy) override { return session_.set_when_full(policy); }
  Result<std::unique_ptr<Talk>> fork() const override;

  Status can_be_kept() const override { return {}; }
  Status save(const std::string& path) const override { return session_.save(path); }
  Result<std::unique_ptr<Talk>> load(const std::string& path) const override;
  FileOps& files() const override { return session_.engine()->files(); }

  std::optional<size_t> count_tokens(std::string_view text) const override { return session_.count_tokens(text); }
  std::optional<WhenFull> when_full() const override { return session_.when_full(); }
  bool is_room_short(size_t n_bytes) const override;
  Status take_over(const SamplingOption&) override { return {}; }
  bool decides(const SamplingOption&) const override { return true; }
  std::vector<std::string> describe_model() const override;
  std::vector<std::string> describe_costs() override;

 private:
  ChatSession session_;
};

}  // namespace ibid
