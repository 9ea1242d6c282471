// A Service with FakeModel, and clients that wait for their events.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/service/model_host.h"
#include "server/service/service.h"
#include "templates/message.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {

// The events of one request. Checks their order.
class Heard : public AnswerListener {
 public:
  // Called at every event with its name, before the lock is taken.
  std::function<void(const std::string& event)> on_event;

  void queued(std::chrono::nanoseconds waited) override {
    note("queued", [&] { queued_ = waited; });
  }
  void come_again(std::chrono::seconds wait) override {
    note("come_again", [&] { retry_after_ = wait; });
  }
  void ignored(const IgnoredParts& parts) override {
    note("ignored", [&] {
      EXPECT_FALSE(has_begun_);
      ignored_ = parts;
    });
  }
  void prompt_tokens(size_t, TokenSpan ids) override {
    note("prompt_tokens", [&] { prompt_ids_.assign(ids.begin(), ids.end()); });
  }
  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) override {
    note("begin", [&] {
      EXPECT_NE(tokenizer, nullptr);
      EXPECT_FALSE(has_begun_) << "begin() is called once";
      has_begun_ = true;
      model_ = model;
      n_prompt_ = n_prompt;
    });
  }
  void prefill(size_t n_done, size_t n_total) override {
    note("prefill", [&] {
      EXPECT_TRUE(has_begun_);
      EXPECT_LE(n_done, n_total);
      EXPECT_TRUE(progress_.empty() || n_done > progress_.back());
      progress_.push_back(n_done);
    });
  }
  void prompt_scores(size_t i, std::shared_ptr<const PromptScores> scores) override {
    note("prompt_scores", [&] {
      EXPECT_TRUE(has_begun_);
      EXPECT_EQ(i, 0u);
      prompt_scores_ = std::move(scores);
    });
  }
  void logprobs(size_t i, std::span<const TokenLogprobs> tokens) override {
    note("logprobs", [&] {
      std::vector<TokenLogprobs>& heard = at(logprobs_, i);
      heard.insert(heard.end(), tokens.begin(), tokens.end());
    });
  }
  void content(size_t i, std::string_view text) override {
    note("content", [&] {
      EXPECT_TRUE(has_begun_);
      EXPECT_FALSE(text.empty());
      at(contents_, i) += text;
    });
  }
  void reasoning(size_t i, std::string_view text) override {
    note("reasoning", [&] { at(reasonings_, i) += text; });
  }
  void tool_call(size_t i, size_t, std::string_view id, std::string_view name) override {
    note("tool_call", [&] {
      at(calls_, i) += std::string(name) + "(";
      call_id_ = id;
    });
  }
  void tool_arguments(size_t i, size_t, std::string_view part) override {
    note("tool_arguments", [&] { at(calls_, i) += part; });
  }
  void answer(size_t i, const Answer& answer) override {
    note("answer", [&] {
      EXPECT_EQ(at(contents_, i), answer.content) << "the streamed text is the answer";
      EXPECT_EQ(at(reasonings_, i), answer.reasoning);
      ASSERT_LE(at(logprobs_, i).size(), answer.logprobs.size());
      EXPECT_TRUE(std::equal(logprobs_[i].begin(), logprobs_[i].end(), answer.logprobs.begin()));
      at(answers_, i) = answer;
    });
  }
  void end(const Status& status) override {
    note("end", [&] {
      EXPECT_FALSE(status_.has_value()) << "end() is called once";
      status_ = status;
    });
    ended_.notify_all();
  }

  const Status& wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }
  bool has_ended() {
    const std::lock_guard lock(mutex_);
    return status_.has_value();
  }
  bool has_begun() {
    const std::lock_guard lock(mutex_);
    return has_begun_;
  }
  // Call these after wait().
  size_t n_prompt() const { return n_prompt_; }
  const IgnoredParts& ignored_parts() const { return ignored_; }
  const Tokens& prompt_ids() const { return prompt_ids_; }
  const std::vector<size_t>& progress() const { return progress_; }
  std::chrono::nanoseconds queued() const { return queued_; }
  std::chrono::seconds retry_after() const { return retry_after_; }  // 0: not set
  const std::string& model() const { return model_; }
  const Answer& answer_of(size_t i = 0) const { return answers_.at(i); }
  size_t n_answers() const { return answers_.size(); }
  std::string said(size_t i = 0) const { return i < contents_.size() ? contents_[i] : std::string(); }
  std::string called(size_t i = 0) const { return i < calls_.size() ? calls_[i] : std::string(); }
  size_t n_logprobs(size_t i = 0) const { return i < logprobs_.size() ? logprobs_[i].size() : 0; }
  const PromptScores* prompt_scores() const { return prompt_scores_.get(); }
  const std::string& call_id() const { return call_id_; }  // of the last call
  const std::vector<std::string>& events() const { return events_; }

 private:
  template <typename Do>
  void note(const std::string& event, const Do& what) {
    if (on_event) on_event(event);
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(status_.has_value()) << event << " after end()";
    events_.push_back(event);
    what();
  }
  template <typename T>
  static T& at(std::vector<T>& all, size_t i) {
    if (all.size() <= i) all.resize(i + 1);
    return all[i];
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<std::string> events_;
  bool has_begun_ = false;
  std::string model_;
  size_t n_prompt_ = 0;
  std::vector<size_t> progress_;
  std::vector<std::string> contents_, reasonings_, calls_;
  std::vector<std::vector<TokenLogprobs>> logprobs_;
  std::shared_ptr<const PromptScores> prompt_scores_;
  std::string call_id_;
  std::chrono::nanoseconds queued_{0};
  std::chrono::seconds retry_after_{0};
  std::vector<Answer> answers_;
  IgnoredParts ignored_;
  Tokens prompt_ids_;
  std::optional<Status> status_;
};

inline AnswerRequest ask(Json messages, std::string name_space = "a") {
  AnswerRequest request;
  request.cache_namespace = std::move(name_space);
  request.messages = std::move(messages);
  request.options = greedy(12);
  return request;
}

// The options that the service sets for turns.
inline TurnOptions parsing(TurnOptions options) {
  options.parse_reply = true;
  return options;
}

inline Json user(const std::string& text) { return make_message(Role::kUser, text); }

// A service with one model, "fake", whose engine is FakeModel.
struct ServiceFixture {
  explicit ServiceFixture(AdmissionOptions options = quiet(), const char* chat_template = kChatMl,
                          FakeModel::Options model_options = {}, size_t kv_budget_bytes = 64u << 20,
                          EngineParts parts = {})
      : chat(chat_template, model_options, kv_budget_bytes, std::move(parts)) {
    const std::string path = dir.write("fake.gguf", "x");
    auto created = ModelHost::create(
        {ModelSource(path)}, [this](const std::string&) -> Result<std::shared_ptr<Engine>> { return chat.engine; },
        clock, {});
    EXPECT_TRUE(created.ok()) << created.status().message();
    host = *std::move(created);
    service = std::make_shared<Service>(*host, clock, options);
  }

  // Options without idle work, so that tests know what was computed.
  static AdmissionOptions quiet() {
    AdmissionOptions options;
    options.conversations.repair_when_idle = false;
    return options;
  }

  std::shared_ptr<Heard> start(AnswerRequest request, std::stop_token stop = {}) {
    auto heard = std::make_shared<Heard>();
    service->start(std::move(request), heard, std::move(stop));
    return heard;
  }
  // Waits for the answer, which must succeed.
  Answer answer(AnswerRequest request) {
    const auto heard = start(std::move(request));
    EXPECT_TRUE(heard->wait().ok()) << heard->wait().to_string();
    return heard->n_answers() > 0 ? heard->answer_of() : Answer{};
  }

  Tokens encode_prompt(AnswerRequest request) {
    std::promise<Tokens> all;
    service->encode_prompt(std::move(request), [&all](const Result<Tokens>& ids) { all.set_value(ids.value()); }, {});
    return all.get_future().get();
  }
  size_t count_prompt(AnswerRequest request) { return encode_prompt(std::move(request)).size(); }
  std::string render_prompt(AnswerRequest request) {
    std::promise<std::string> text;
    service->render_prompt(std::move(request),
                           [&text](const Result<std::string>& prompt) { text.set_value(prompt.value()); }, {});
    return text.get_future().get();
  }

  TempDir dir;
  ManualClock clock;
  ChatFixture chat;
  std::unique_ptr<ModelHost> host;
  std::shared_ptr<Service> service;
};

}  // namespace ibid::serve
