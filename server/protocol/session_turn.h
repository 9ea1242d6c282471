// SessionTurn: passes an answer on to the listener of chat completions, and makes it part of its session when it is
// whole. Whatever else happens, the session is as it was and free again.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "server/protocol/session_store.h"
#include "server/service/request.h"

namespace ibid::serve {

class SessionTurn final : public AnswerListener {
 public:
  // REQUIRES: the session is taken (SessionStore::take()). messages: what it is to be, but for the answer.
  SessionTurn(std::shared_ptr<SessionStore> sessions, std::string cache_namespace, std::string id, Json messages,
              std::shared_ptr<AnswerListener> inner);

  // Requested with either of the two: the client has gone, the session is removed. Called once.
  std::stop_token stop_with(const std::stop_token& gone, const std::stop_token& removed);

  void queued(std::chrono::nanoseconds waited) override { inner_->queued(waited); }
  void come_again(std::chrono::seconds wait) override { inner_->come_again(wait); }
  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) override {
    inner_->begin(model, n_prompt, std::move(tokenizer));
  }
  void prefill(size_t n_done, size_t n_total) override { inner_->prefill(n_done, n_total); }
  void logprobs(size_t i, std::span<const TokenLogprobs> tokens) override { inner_->logprobs(i, tokens); }
  void content(size_t i, std::string_view text) override { inner_->content(i, text); }
  void reasoning(size_t i, std::string_view text) override { inner_->reasoning(i, text); }
  void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) override {
    inner_->tool_call(i, call, id, name);
  }
  void tool_arguments(size_t i, size_t call, std::string_view part) override { inner_->tool_arguments(i, call, part); }
  void answer(size_t i, const Answer& answer) override;
  void end(const Status& status) override;

 private:
  SessionHold session_;
  Json messages_;
  bool is_answered_ = false;
  std::shared_ptr<AnswerListener> inner_;

  struct RequestStop {
    std::stop_source source;
    void operator()() { source.request_stop(); }
  };
  std::stop_source stop_;
  std::optional<std::stop_callback<RequestStop>> on_gone_, on_removed_;
};

}  // namespace ibid::serve
