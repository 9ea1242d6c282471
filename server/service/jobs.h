// Job: one request from arrival to end: for answers, for embeddings, or a task that needs no computation by the model.
//
// A job has no thread: a work thread plans it, the service's event thread advances it, and the engine computes
// meanwhile. One thread at a time uses a job; stop(), is_stopped() and why_stopped() are for any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "base/marked_text.h"
#include "base/result.h"
#include "ibid/usage.h"
#include "ibid/waker.h"
#include "runtime/engine/engine_state.h"
#include "server/service/backend.h"
#include "server/service/model_host.h"

namespace ibid::serve {

class Conversations;

// Memory of an engine for keys, values and states: the most that a request needs.
struct KvRoom {
  const Engine* engine = nullptr;
  size_t n_bytes = 0;
  size_t budget_bytes = 0;  // of the engine
};

// The lengths that decide how much memory the answers to one prompt need.
struct KvNeed {
  size_t n_prompt = 0;
  size_t n_dropped = 0;  // tokens of its conversation that the prompt dropped; a turn holds their KV until it ends
  size_t n_answer = 0;   // tokens of an answer
  size_t n_answers = 1;
};
size_t kv_bytes_for(const KvLayout& layout, size_t max_seq_len, const KvNeed& need);

class Job {
 public:
  struct Asked {
    std::string model;  // a name that ModelHost resolves; empty: the first
    std::string owner;  // for which requests take turns
    std::chrono::milliseconds deadline{0};
    size_t prompt_bytes = 0;                                   // of its texts, approximately
    std::optional<std::chrono::milliseconds> keep_alive = {};  // how long the model stays loaded after it
  };
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Asked& asked() const { return asked_; }

  // Ends the job within a layer. why: kCancelled or kDeadline; the first call's counts.
  void stop(ErrorCode why) {
    ErrorCode none = ErrorCode::kOk;
    why_.compare_exchange_strong(none, why);
    stop_.request_stop();
    bell_->ring();
  }
  bool is_stopped() const { return stop_.stop_requested(); }
  // The error that is reported to the client. REQUIRES: is_stopped().
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
  // True if the model computes for it. If not, plan() does all of its work, and needs no memory of the engine.
  virtual bool computes() const { return true; }
  // Determines what it needs: computes nothing and takes no memory of the engine. Called once, before plan(). Errors:
  // those of the request; call end() then.
  virtual Status prepare(const Place& /*place*/) { return {}; }
  // The most memory that it needs. expected_answer: tokens of an answer without max_tokens; an answer that outgrows it
  // needs more. REQUIRES: prepare().
  virtual KvRoom room(const Engine& engine, size_t /*expected_answer*/) const { return {.engine = &engine}; }
  // Starts to compute. Errors: as prepare().
  virtual Status plan(const Place& place) = 0;

  enum class Next {
    kWait,     // the bell rings when there is more
    kPlan,     // call plan() again
    kRetry,    // out of memory: call plan() again when there is more; it resumes where it stopped
    kOver,     // call end()
    kLongEnd,  // call end() on a work thread: it writes too much for the event thread
  };
  // Sends new events to the listener.
  virtual Next advance(Conversations& /*conversations*/) { return Next::kOver; }

  // Emits how long the job has waited; only the first call has an effect.
  virtual void leave_queue(std::chrono::nanoseconds /*waited*/) {}
  // Ends the job because the server is busy. retry_after: when the client should retry.
  virtual void refuse(const Status& busy, std::chrono::seconds /*retry_after*/) { end(busy); }
  // Sends the end to the listener, once.
  virtual void end(const Status& status) = 0;

  // The result. REQUIRES: advance() returned kOver, kLongEnd or kRetry.
  const Status& status() const { return status_; }
  virtual bool is_cut_short() const { return false; }  // one of its answers was stopped
  // Sum over all that it computed.
  const Usage& usage() const { return usage_; }

 protected:
  // bell: rung when the client has left, and when there are events.
  Job(Asked asked, std::shared_ptr<Waker> bell) : asked_(std::move(asked)), bell_(std::move(bell)) {}

  // watch(): the job stops when the client leaves. Derived classes call these at the end of their constructor and the
  // beginning of their destructor, because the callback may use their members.
  void watch(std::stop_token gone) {
    gone_.emplace(std::move(gone), [this] { stop(ErrorCode::kCancelled); });
  }
  void end_watch() {
    gone_.reset();
    stop_.request_stop();
  }

  const std::shared_ptr<Waker>& bell() const { return bell_; }
  std::stop_token stop_token() const { return stop_.get_token(); }

  Status status_;
  Usage usage_;

 private:
  const Asked asked_;
  const std::shared_ptr<Waker> bell_;
  std::atomic<ErrorCode> why_{ErrorCode::kOk};
  std::stop_source stop_;
  std::optional<std::stop_callback<std::function<void()>>> gone_;
};

// gone: stopped when the client has left. Destroying the job cancels it too, and waits for the end of its turns.
std::unique_ptr<Job> make_answer_job(AnswerRequest request, std::shared_ptr<AnswerListener> listener,
                                     std::stop_token gone, std::shared_ptr<Waker> bell);
std::unique_ptr<Job> make_embedding_job(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener,
                                        std::stop_token gone, std::shared_ptr<Waker> bell, Clock& clock);

// A short task that needs a model but no computation: count the tokens of a prompt, tokenize a text.
template <typename Value>
class TaskJob final : public Job {
 public:
  // May throw std::bad_alloc.
  using Ask = std::function<Result<Value>(const ModelLeasePtr& lease)>;
  TaskJob(Asked asked, Ask ask, Backend::Then<Value> then, std::stop_token gone, std::shared_ptr<Waker> bell)
      : Job(std::move(asked), std::move(bell)), ask_(std::move(ask)), then_(std::move(then)) {
    watch(std::move(gone));
  }
  ~TaskJob() override { end_watch(); }

  bool computes() const override { return false; }
  Status plan(const Place& place) override try {
    then_(ask_(place.lease));
    then_ = nullptr;
    return {};
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
  void end(const Status& status) override {
    const auto then = std::exchange(then_, nullptr);
    ask_ = nullptr;
    if (then && !status.ok()) then(status);
  }

 private:
  Ask ask_;
  Backend::Then<Value> then_;  // null: already called
};

// --- the prompt of a request without a session. Errors: kUnsupported: the model has no template; those of
// ChatTemplate::render(); kInvalidArgument.

// The variables of the template, tools included.
Json variables_for(const AnswerRequest& request);
Result<MarkedText> prompt_text(const std::shared_ptr<Engine>& engine, const AnswerRequest& request);
Result<size_t> count_prompt_ids(const std::shared_ptr<Engine>& engine, const AnswerRequest& request);
// The size of its texts, approximately, without rendering them.
size_t bytes_of_prompt(const AnswerRequest& request);

}  // namespace ibid::serve
