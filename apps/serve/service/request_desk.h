// RequestDesk: takes each request from the door to its end. It is the inside of AnswerService: the queue, the threads
// that plan and load, and the thread that hears all answers.
//
// A request is at one place at a time, and what is done with it is done by the thread that has it there: in its
// namespace's queue; with a work thread, which finds its model and plans; among those that wait for memory; with the
// hearing thread, while the engine computes. The mutex guards the places, never a job.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "apps/serve/service/admission.h"
#include "apps/serve/service/answer_request.h"
#include "apps/serve/service/answer_service.h"
#include "apps/serve/service/conversations.h"
#include "apps/serve/service/embedding_request.h"
#include "apps/serve/service/kv_reservations.h"
#include "apps/serve/service/work_threads.h"
#include "runtime/engine/bell.h"

namespace ibid::serve {

class Job;

class RequestDesk {
 public:
  RequestDesk(ModelHost& models, Clock& clock, const AdmissionOptions& options);
  ~RequestDesk();  // as ~AnswerService()

  // These do what those of AnswerService do.
  void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token gone);
  void start(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token gone);
  void stop_admitting();
  bool wait_until_quiet(std::chrono::milliseconds limit);
  ServiceStats stats() const;

  ModelHost& models() const { return models_; }
  Conversations& conversations() { return conversations_; }

 private:
  struct Request;
  using RequestPtr = std::shared_ptr<Request>;

  void enter(std::unique_ptr<Job> job);
  // What the queue is expected to take.
  std::chrono::seconds retry_after() const;
  void admit();
  void find_engine(const RequestPtr& request);
  void load(const RequestPtr& request);
  void reserve(const RequestPtr& request);
  void plan(const RequestPtr& request);
  void finish(const RequestPtr& request, const Status& status, bool was_admitted = true);
  std::vector<RequestPtr> take_what_fits();
  void count(const Request& request, const Status& status);

  void hear();
  void advance(std::list<RequestPtr>& running);
  void retry_later(const RequestPtr& request);
  void check_times();
  void drop_stopped();

  ModelHost& models_;
  Clock& clock_;
  const AdmissionOptions options_;
  Conversations conversations_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable quiet_;
  bool admits_ = true;
  bool ending_ = false;
  std::list<RequestPtr> all_;
  Admission<RequestPtr> admission_;
  KvReservations reservations_;
  std::list<RequestPtr> for_memory_;   // admitted, and wait until their room is free
  std::list<RequestPtr> arrivals_;     // planned, for the hearing thread
  ServiceStats stats_;
  double mean_ms_ = 1000;              // of a request, recent ones counting more

  std::atomic<bool> unloads_{false};   // a look for idle models is posted
  WorkThreads planners_;
  WorkThreads loader_;
  std::thread hearing_;
};

}  // namespace ibid::serve
