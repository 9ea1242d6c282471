// Service: answers requests with models. It admits a request or refuses it, loads its model, finds the conversation
// that it continues (server/service/conversations.h), and submits it to the engine. One thread, the event thread, polls
// the events of all running requests and calls their listeners; a request has no thread of its own.
//
// Each request has one state at a time (server/service/queue.h), and its job is used by only one thread: by a work
// thread, which gets the model, reserves memory and plans, or by the event thread while the engine computes. If memory
// runs out in spite of the reservation, the request waits for more and is computed again. An answer is a function of
// its prompt and its seed, so the listener then receives the rest of the same answer. If a request runs out of memory
// although no other request holds any, it ends with kOutOfMemory.
//
// Tasks for which the model computes nothing have turns and a thread of their own: they do not wait for answers, and a
// long task does not delay the planning of answers.
//
// Thread-safe. The mutex guards the queue and the counters, and never a job: while it is held, no listener is called,
// no job is stopped, no model is loaded, no lease is returned and no other lock is taken.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/work_threads.h"
#include "ibid/waker.h"
#include "server/service/backend.h"
#include "server/service/conversations.h"
#include "server/service/jobs.h"
#include "server/service/model_host.h"
#include "server/service/queue.h"

namespace ibid::serve {

struct AdmissionOptions {
  size_t max_running = 64;   // maximum requests in work; others wait for their owner's turn
  size_t max_waiting = 512;  // maximum waiting requests; further ones are refused (kBusy)
  size_t max_waiting_prompt_bytes = 256u << 20;
  std::chrono::milliseconds queue_timeout{60'000};  // limit for waiting in the queue; 0: no limit
  std::chrono::milliseconds total_timeout{0};       // limit for waiting and computing; 0: no limit
  // Assumed length of an answer without max_tokens, for the reservation of its memory.
  size_t expected_answer_tokens = 512;
  bool guards_answers = true;     // AnswerRequest::guard for requests that do not set it
  bool standard_schemas = false;  // ResponseFormat::standard_schema for requests that do not set it
  ConversationOptions conversations = {};
};

// Figures for /metrics and /monitor: counters since the start, except figures marked "now".
struct ServiceStats {
  // Numbers of requests by result. n_bad: errors of the request (is_of_request()); n_failed: errors of the server;
  // n_refused: a limit of the queue was reached.
  uint64_t n_answers = 0, n_cancelled = 0, n_bad = 0, n_failed = 0, n_refused = 0;
  uint64_t n_retried = 0;                 // attempts that ran out of memory and were repeated
  uint64_t n_running = 0, n_waiting = 0;  // requests running and waiting now
  uint64_t n_prompt = 0, n_cached = 0, n_prefilled = 0, n_decoded = 0;  // numbers of tokens
  uint64_t n_drafts = 0;                                                // passes that verified a draft
  uint64_t n_drafted = 0, n_accepted = 0;                               // numbers of draft tokens: verified, accepted
  ConversationStats conversations = {};
};

class Service final : public Backend {
 public:
  // REQUIRES: models and clock outlive the service; only the service calls models.set_on_unload().
  Service(ModelHost& models, Clock& clock, const AdmissionOptions& options);
  // Cancels all requests, and waits until every listener has received end().
  ~Service() override;

  void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) override;
  void embed(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token stop) override;
  void encode_prompt(AnswerRequest request, Then<Tokens> then, std::stop_token stop) override;
  void render_prompt(AnswerRequest request, Then<std::string> then, std::stop_token stop) override;
  void with_tokenizer(ModelCall call, Then<std::shared_ptr<const Tokenizer>> then, std::stop_token stop) override;
  void write_behind(std::function<void()> work) override { conversations_.write_behind(std::move(work)); }
  Status unload(std::string_view model) override;
  Result<std::string> resolve(std::string_view model) const override { return models_.resolve(model); }
  std::vector<ModelCard> models() const override;
  ModelHeader header(std::string_view model) const override;
  TurnOptions default_options(std::string_view model) const override;
  BackendLoad load() const override;

  // Returns ConversationOptions::store, or the store in memory that replaces it.
  ConversationStore& store() { return conversations_.store(); }
  // Removes all stored data of a namespace, and its KV in the stores of the loaded models.
  void forget_namespace(std::string_view cache_namespace);

  // stop_admitting(): refuses new requests (kIo). wait_until_quiet(): waits until no request is left; returns false if
  // some are left after `limit`.
  void stop_admitting();
  bool wait_until_quiet(std::chrono::milliseconds limit);

  ServiceStats stats() const;

 private:
  void enter(std::unique_ptr<Job> job);
  std::chrono::seconds retry_after() const;  // expected wait in the queue; REQUIRES: mutex_ is held
  void admit();
  void find_model(const ScheduledPtr& request, bool may_load);
  void reserve(const ScheduledPtr& request);
  void plan(const ScheduledPtr& request);
  void plan_later(const ScheduledPtr& request);
  void finish(const ScheduledPtr& request, const Status& status);
  void count(const Scheduled& request, const Status& status);
  void unload_idle_later();

  void run_events();
  void advance(const ScheduledPtr& request);
  void retry_later(const ScheduledPtr& request);
  void look_for_models();
  void drop_stopped();
  void check_times();

  ModelHost& models_;
  Clock& clock_;
  const AdmissionOptions options_;
  Conversations conversations_;
  mutable ModelHeaders headers_;
  const std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();

  mutable std::mutex mutex_;  // guards the following members
  std::condition_variable quiet_;
  bool admits_ = true;
  bool ending_ = false;
  Queue queue_;
  ServiceStats stats_;
  double mean_ms_ = 1000;  // mean duration of a request; recent requests weigh more

  WorkThreads planners_;
  WorkThreads tasks_{1, "ibid-tasks"};
  WorkThreads loader_{1, "ibid-loader"};
  std::thread events_;
};

}  // namespace ibid::serve
