// RequestDesk: takes each request from the door to its end. It is the inside of AnswerService: the queue, the threads
// that plan and load, and the thread that hears all answers.
//
// A request is at one place at a time, and what is done with it is done by the thread that has it there: in its owner's
// queue; with a work thread, which finds its model, finds out what memory it needs, and plans; among those that wait
// for memory, or for the users of a model that has to go; with the hearing thread, while the engine computes. The mutex
// guards the places, never a job.
//
// Tasks for which no model computes (server/service/model_task.h) have a queue and a thread of their own: they do
// not wait for answers, and a long one keeps no answer from being planned.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>

#include "runtime/scheduler/bell.h"
#include "server/service/answer_request.h"
#include "server/service/answer_service.h"
#include "server/service/conversations.h"
#include "server/service/desk_request.h"
#include "server/service/embedding_request.h"
#include "server/service/model_task.h"
#include "server/service/waiting_rooms.h"
#include "server/service/work_threads.h"

namespace ibid::serve {

class Job;

class RequestDesk {
 public:
  RequestDesk(ModelHost& models, Clock& clock, const AdmissionOptions& options);
  ~RequestDesk();  // as ~AnswerService()

  // These do what those of AnswerService do.
  void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token gone);
  void start(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token gone);
  void start(ModelTask task, std::stop_token gone);
  Status unload(std::string_view model);
  void stop_admitting();
  bool wait_until_quiet(std::chrono::milliseconds limit);
  ServiceStats stats() const;

  ModelHost& models() const { return models_; }
  Conversations& conversations() { return conversations_; }

 private:
  using Request = DeskRequest;
  using RequestPtr = DeskRequestPtr;

  void enter(std::unique_ptr<Job> job);
  // What the queue is expected to take.
  std::chrono::seconds retry_after() const;
  void admit();
  void find_engine(const RequestPtr& request);
  void load(const RequestPtr& request);
  void reserve(const RequestPtr& request);
  void plan(const RequestPtr& request);
  void finish(const RequestPtr& request, const Status& status);
  void count(const Request& request, const Status& status);
  void unload_idle_later();

  void hear();
  void advance(std::list<RequestPtr>& running);
  void note_growth(const RequestPtr& request);
  void retry_later(const RequestPtr& request);
  void look_for_models();
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
  WaitingRooms waiting_;
  std::list<RequestPtr> arrivals_;     // planned, for the hearing thread
  ServiceStats stats_;
  double mean_ms_ = 1000;              // of a request, recent ones counting more

  WorkThreads planners_;
  WorkThreads tasks_{1};
  WorkThreads loader_;
  std::thread hearing_;
};

}  // namespace ibid::serve
