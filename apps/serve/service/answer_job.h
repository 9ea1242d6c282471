// AnswerJob: one request from its beginning to its end: the conversation that it goes on from, the turns that answer
// it, and what its listener hears. It has no thread: a work thread plans (render, encode, submit), the service's
// hearing thread advances it, and the engine computes meanwhile.
//
// One thread at a time has a job; stop() and why_stopped() are for any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/serve/service/answer_request.h"
#include "apps/serve/service/conversations.h"
#include "base/result.h"
#include "runtime/engine/bell.h"
#include "runtime/engine/engine.h"
#include "runtime/session/prefill_stream.h"
#include "runtime/session/turn_stream.h"

namespace ibid::serve {

class AnswerJob {
 public:
  // bell: rings when the client has gone, and when there is something to hear.
  AnswerJob(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token gone,
            std::shared_ptr<Bell> bell);
  ~AnswerJob();  // as if the client had gone; waits for the end of its turns
  AnswerJob(const AnswerJob&) = delete;
  AnswerJob& operator=(const AnswerJob&) = delete;

  const AnswerRequest& request() const { return request_; }
  // Bytes of the request's messages or prompt, about.
  size_t prompt_bytes() const { return prompt_bytes_; }

  // Ends the job within a layer, for that reason: kCancelled or kDeadline. The first reason counts.
  void stop(ErrorCode why);
  bool is_stopped() const { return stop_.stop_requested(); }
  // What is_stopped() means for the client. REQUIRES: is_stopped().
  Status why_stopped() const;

  // Begins the turn; or, for several answers, the reading of the question, and their turns once that is over. The
  // listener hears of the beginning. Errors: those of AnswerListener::end(); call end() then.
  struct Place {
    const std::shared_ptr<Engine>& engine;
    const std::string& model;
    Conversations& conversations;
  };
  Status plan(const Place& place);

  enum class Next {
    kWait,   // the bell rings when there is more
    kPlan,   // plan() is to be called again
    kRetry,  // there was no memory, and nothing was said yet: plan() may be called again when there is
    kOver,   // end() is to be called
  };
  // Tells the listener what is new.
  Next advance(Conversations& conversations);

  // Tells the listener how long the job has waited; the first call counts.
  void leave_queue(std::chrono::nanoseconds waited);
  // Tells the listener that the server is busy, and when to come again.
  void refuse(const Status& busy, std::chrono::seconds retry_after);
  // Tells the listener the end, once.
  void end(const Status& status);
  // How it ended, for after kOver and kRetry.
  const Status& status() const { return status_; }
  bool has_begun() const { return has_begun_; }
  size_t n_prompt() const { return n_prompt_; }
  bool is_cut_short() const { return is_cut_short_; }  // an answer of it was stopped
  // Sums over its answers.
  const Usage& usage() const { return usage_; }

 private:
  struct Part {
    explicit Part(Conversation c) : conversation(std::move(c)) {}
    Conversation conversation;
    std::optional<TurnStream> stream;  // until it is over
  };
  struct Gone {
    AnswerJob* job;
    void operator()() const;
  };

  Result<Conversation> find_conversation(const std::shared_ptr<Engine>& engine, Conversations& conversations);
  Status begin(const Place& place);
  Status begin_reading(const Place& place);
  Status begin_turns(const Place& place);
  Status begin_turn(Conversation conversation, size_t i);
  void tell_begin(const std::string& model, size_t n_prompt);
  void hear(size_t i, Conversations& conversations);
  void tell_events(size_t i);
  void finish(size_t i, Conversations& conversations);
  void put_back(Conversation conversation, Conversations& conversations, bool is_answered = false);
  void fail(Status status);

  AnswerRequest request_;
  const std::shared_ptr<AnswerListener> listener_;
  const std::shared_ptr<Bell> bell_;
  const size_t prompt_bytes_;
  Json variables_;
  std::atomic<ErrorCode> why_{ErrorCode::kOk};
  std::stop_source stop_;

  std::optional<Conversation> asked_;  // of several answers, while the question is read
  std::optional<PrefillStream> reading_;
  Usage read_;
  std::vector<std::unique_ptr<Part>> parts_;
  size_t n_over_ = 0;
  Status status_;
  Usage usage_;
  size_t n_prompt_ = 0;
  bool has_left_queue_ = false;
  bool has_begun_ = false;
  bool has_said_ = false;
  bool has_ended_ = false;
  bool is_cut_short_ = false;
  std::optional<std::stop_callback<Gone>> gone_;  // last: it uses the others
};

}  // namespace ibid::serve
