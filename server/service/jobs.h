// Job: one request from arrival to end: for answers, for embeddings, or a task for which the model computes nothing.
//
// A job has no thread: a work thread plans it, the service's event thread advances it, and the engine computes
// meanwhile. Only one thread at a time uses a job; stop(), is_stopped() and why_stopped() may be called from any
// thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "base/result.h"
#include "ibid/usage.h"
#include "ibid/waker.h"
#include "runtime/engine/engine_state.h"
#include "server/service/backend.h"
#include "server/service/model_host.h"

namespace ibid::serve {

class Conversations;

// The maximum memory of an engine that a request needs for keys, values and states.
struct KvRoom {
  const Engine* engine = nullptr;
  size_t n_bytes = 0;
  size_t budget_bytes = 0;  // KV budget of the engine
};

// The lengths that decide how much memory the answers to one prompt need.
struct KvNeed {
  size_t n_prompt = 0;
  size_t n_dropped = 0;  // tokens of the conversation that the prompt dropped; the turn holds their KV until it ends
  size_t n_answer = 0;   // expected tokens of an answer
  size_t n_answers = 1;
};
size_t kv_bytes_for(const KvLayout& layout, size_t max_seq_len, const KvNeed& need);

class Job {
 public:
  struct Parameters {
    std::string model;  // a name that ModelHost resolves; empty: the first model
    std::string owner;  // requests of different owners take turns
    std::chrono::milliseconds deadline{0};
    size_t prompt_bytes = 0;                                   // approximate size of the prompt's texts
    std::optional<std::chrono::milliseconds> keep_alive = {};  // how long the model stays loaded after the job
  };
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Parameters& parameters() const { return parameters_; }

  // Stops the job; its computation ends within a layer. why: kCancelled or kDeadline; only the first reason counts.
  void stop(ErrorCode why) {
    ErrorCode none = ErrorCode::kOk;
    why_.compare_exchange_strong(none, why);
    stop_.request_stop();
    waker_->ring();
  }
  bool is_stopped() const { return stop_.stop_requested(); }
  // Returns the error that is reported to the client. REQUIRES: is_stopped().
  Status why_stopped() const {
    if (why_.load() == ErrorCode::kDeadline) return {ErrorCode::kDeadline, "deadline exceeded"};
    return {ErrorCode::kCancelled, "the request was cancelled"};
  }

  struct Place {
    const ModelLeasePtr& lease;
    const std::string& model;
    Conversations& conversations;

    const std::shared_ptr<Engine>& engine() const { return lease->engine(); }
  };
  // True if the model computes for this job. If it does not, plan() does all of the work and needs no memory of the
  // engine.
  virtual bool computes() const { return true; }
  // Determines what the job needs, without computing and without memory of the engine. Called once, before plan(). If
  // it returns an error (of the request), call end(). prepare() and plan() may throw std::bad_alloc.
  virtual Status prepare(const Place& /*place*/) { return {}; }
  // Returns the maximum memory that the job needs. expected_answer: assumed length of an answer without max_tokens; a
  // longer answer needs more memory. REQUIRES: prepare() was called.
  virtual KvRoom room(const Engine& engine, size_t /*expected_answer*/) const { return {.engine = &engine}; }
  // Starts the computation. Errors: those of prepare().
  virtual Status plan(const Place& place) = 0;

  enum class Next {
    kWait,     // nothing to do until `waker` is rung
    kPlan,     // call plan() again
    kRetry,    // out of memory: call plan() again when there is more memory; the job resumes where it stopped
    kOver,     // call end()
    kLongEnd,  // call end() on a work thread, because end() writes too much for the event thread
  };
  // Sends new events to the listener, and returns what to do next.
  virtual Next advance(Conversations& /*conversations*/) { return Next::kOver; }

  // Reports to the listener how long the job has waited; only the first call has an effect.
  virtual void leave_queue(std::chrono::nanoseconds /*waited*/) {}
  // Ends the job because the server is busy. retry_after: time after which the client should retry.
  virtual void refuse(const Status& busy, std::chrono::seconds /*retry_after*/) { end(busy); }
  // Sends the last event to the listener, once.
  virtual void end(const Status& status) = 0;

  // Returns the result of the job. REQUIRES: advance() returned kOver, kLongEnd or kRetry.
  const Status& status() const { return status_; }
  virtual bool is_cut_short() const { return false; }  // true if an answer of the job was stopped
  // Sum of the usage of everything that the job computed.
  const Usage& usage() const { return usage_; }

 protected:
  // waker: rung when the client has left, and when there are events.
  Job(Parameters parameters, std::shared_ptr<Waker> waker)
      : parameters_(std::move(parameters)), waker_(std::move(waker)) {}

  // After watch(), the job stops when the client leaves. The callback may use members of derived classes. So derived
  // classes call watch() at the end of their constructor and end_watch() at the beginning of their destructor.
  void watch(std::stop_token gone) {
    gone_.emplace(std::move(gone), [this] { stop(ErrorCode::kCancelled); });
  }
  void end_watch() {
    gone_.reset();
    stop_.request_stop();
  }

  const std::shared_ptr<Waker>& waker() const { return waker_; }
  std::stop_token stop_token() const { return stop_.get_token(); }

  Status status_;
  Usage usage_;

 private:
  const Parameters parameters_;
  const std::shared_ptr<Waker> waker_;
  std::atomic<ErrorCode> why_{ErrorCode::kOk};
  std::stop_source stop_;
  std::optional<std::stop_callback<std::function<void()>>> gone_;
};

// gone: requested when the client has left. Destroying the job also cancels it, and waits for the end of its turns.
std::unique_ptr<Job> make_answer_job(AnswerRequest request, std::shared_ptr<AnswerListener> listener,
                                     std::stop_token gone, std::shared_ptr<Waker> waker);
std::unique_ptr<Job> make_embedding_job(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener,
                                        std::stop_token gone, std::shared_ptr<Waker> waker, Clock& clock);

// A short task that needs a model but no computation of it: count the tokens of a prompt, tokenize a text.
template <typename Value>
class TaskJob final : public Job {
 public:
  using Ask = std::function<Result<Value>(const ModelLeasePtr& lease)>;
  TaskJob(Parameters parameters, Ask ask, Backend::Then<Value> then, std::stop_token gone, std::shared_ptr<Waker> waker)
      : Job(std::move(parameters), std::move(waker)), ask_(std::move(ask)), then_(std::move(then)) {
    watch(std::move(gone));
  }
  ~TaskJob() override { end_watch(); }

  bool computes() const override { return false; }
  Status plan(const Place& place) override {
    then_(ask_(place.lease));
    then_ = nullptr;
    return {};
  }
  void end(const Status& status) override {
    const auto then = std::exchange(then_, nullptr);
    ask_ = nullptr;
    if (then && !status.ok()) then(status);
  }

 private:
  Ask ask_;
  Backend::Then<Value> then_;  // null after the callback was called
};

}  // namespace ibid::serve
