// Job: one request from the door to its end, as RequestDesk sees it. What is asked, and who listens, is the affair of
// its kinds: AnswerJob, EmbeddingJob.
//
// A job has no thread: a work thread plans it, the service's hearing thread advances it, and the engine computes
// meanwhile. One thread at a time has a job; stop(), is_stopped() and why_stopped() are for any thread.
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
#include "runtime/engine/engine.h"
#include "runtime/scheduler/bell.h"
#include "server/service/conversations.h"
#include "server/service/kv_reservations.h"
#include "server/service/model_host.h"

namespace ibid::serve {

class Job {
 public:
  struct Asked {
    std::string model;              // a name that ModelHost knows; empty: the first
    std::string owner;              // in whose queue it waits
    std::chrono::milliseconds deadline{0};
    size_t prompt_bytes = 0;        // of its texts, about
    std::optional<std::chrono::milliseconds> keep_alive = {};  // of the model behind it, as ModelHost has it
  };
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Asked& asked() const { return asked_; }

  // Ends the job within a layer, for that reason: kCancelled or kDeadline. The first reason counts.
  void stop(ErrorCode why) {
    ErrorCode none = ErrorCode::kOk;
    why_.compare_exchange_strong(none, why);
    stop_.request_stop();
    bell_->ring();
  }
  bool is_stopped() const { return stop_.stop_requested(); }
  // What is_stopped() means for the client. REQUIRES: is_stopped().
  Status why_stopped() const {
    if (why_.load() == ErrorCode::kDeadline) return {ErrorCode::kDeadline, "the time for the answer is over"};
    return {ErrorCode::kCancelled, "the request was cancelled"};
  }

  // The memory that it needs at most, for after prepare(). expected_answer: ids of an answer whose length nobody said.
  // It becomes more while such an answer grows.
  virtual KvReservations::Room room(const Engine& engine, size_t expected_answer) const = 0;

  struct Place {
    const ModelLeasePtr& lease;
    const std::string& model;
    Conversations& conversations;

    const std::shared_ptr<Engine>& engine() const { return lease->engine(); }
  };
  // Whether the model computes for it. If not, all that it does is plan(), which then needs no memory of the engine.
  virtual bool computes() const { return true; }
  // Finds out what it needs: nothing is computed, and no memory of the engine is taken. Once, before plan(). Errors:
  // those of the request; call end() then.
  virtual Status prepare(const Place& place) = 0;
  // Begins to compute. Errors: likewise.
  virtual Status plan(const Place& place) = 0;

  enum class Next {
    kWait,   // the bell rings when there is more
    kPlan,   // plan() is to be called again
    kRetry,  // there was no memory: plan() may be called again when there is, and goes on where it stopped
    kOver,   // end() is to be called
    kLongEnd,  // likewise, on a work thread: it writes more than others may wait for
  };
  // Tells the listener what is new.
  virtual Next advance(Conversations& conversations) = 0;

  // Tells the listener how long the job has waited; the first call counts.
  virtual void leave_queue(std::chrono::nanoseconds waited) = 0;
  // Tells the listener that the server is busy, and when to come again.
  virtual void refuse(const Status& busy, std::chrono::seconds retry_after) = 0;
  // Tells the listener the end, once.
  virtual void end(const Status& status) = 0;

  // How it ended, for after kOver and kRetry.
  virtual const Status& status() const = 0;
  virtual bool is_cut_short() const { return false; }  // an answer of it was stopped
  // Of all that it computed.
  virtual const Usage& usage() const = 0;

 protected:
  // bell: rings when the client has gone, and when there is something to hear.
  Job(Asked asked, std::shared_ptr<Bell> bell) : asked_(std::move(asked)), bell_(std::move(bell)) {}

  // From now on the job stops when the client goes. Kinds call both, in their constructor's and destructor's body, so
  // that whatever they have is there when it happens.
  void watch(std::stop_token gone) {
    gone_.emplace(std::move(gone), [this] { stop(ErrorCode::kCancelled); });
  }
  void end_watch() {
    gone_.reset();
    stop_.request_stop();
  }

  const std::shared_ptr<Bell>& bell() const { return bell_; }
  std::stop_token stop_token() const { return stop_.get_token(); }

 private:
  const Asked asked_;
  const std::shared_ptr<Bell> bell_;
  std::atomic<ErrorCode> why_{ErrorCode::kOk};
  std::stop_source stop_;
  std::optional<std::stop_callback<std::function<void()>>> gone_;
};

}  // namespace ibid::serve
