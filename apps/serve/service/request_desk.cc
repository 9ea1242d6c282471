#include "apps/serve/service/request_desk.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "apps/serve/service/answer_job.h"
#include "apps/serve/service/embedding_job.h"
#include "apps/serve/service/model_host.h"

namespace ibid::serve {
namespace {

// How often deadlines are looked at while requests are there, and models that nobody asks for else. Time in between is
// real, whatever the clock says.
constexpr std::chrono::milliseconds kDeadlineTick{20};
constexpr std::chrono::milliseconds kIdleTick{1000};
constexpr size_t kPlanningThreads = 2;

int64_t after(int64_t start_ns, std::chrono::milliseconds limit) {
  return limit.count() <= 0 ? INT64_MAX : start_ns + limit.count() * 1'000'000;
}

}  // namespace

struct RequestDesk::Request {
  explicit Request(std::unique_ptr<Job> its) : job_(std::move(its)), job(*job_) {}

  // Immutable after start().
  int64_t start_ns = 0;
  int64_t queue_end_ns = INT64_MAX;
  int64_t end_ns = INT64_MAX;
  std::string model;

  std::shared_ptr<Engine> engine;  // whoever works on the job has it
  KvReservations::Room room;

 private:
  const std::unique_ptr<Job> job_;

 public:
  Job& job;
};

RequestDesk::RequestDesk(ModelHost& models, Clock& clock, const AdmissionOptions& options)
    : models_(models),
      clock_(clock),
      options_(options),
      conversations_(options.conversations),
      admission_({options.max_running, options.max_waiting, options.max_waiting_prompt_bytes}),
      planners_(kPlanningThreads),
      loader_(1) {
  models_.set_on_unload([this](const Engine& engine) { conversations_.forget_engine(engine); });
  hearing_ = std::thread([this] { hear(); });
}

RequestDesk::~RequestDesk() {
  stop_admitting();
  std::list<RequestPtr> all;
  {
    const std::lock_guard lock(mutex_);
    all = all_;
  }
  for (const RequestPtr& request : all) request->job.stop(ErrorCode::kCancelled);
  all.clear();
  wait_until_quiet(std::chrono::milliseconds::max());
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  bell_->ring();
  hearing_.join();
  planners_.end();
  loader_.end();  // it may be unloading
  models_.set_on_unload({});
}

void RequestDesk::stop_admitting() {
  const std::lock_guard lock(mutex_);
  admits_ = false;
}

bool RequestDesk::wait_until_quiet(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const auto is_quiet = [this] { return all_.empty(); };
  if (limit != std::chrono::milliseconds::max()) return quiet_.wait_for(lock, limit, is_quiet);
  quiet_.wait(lock, is_quiet);
  return true;
}

// --- the beginning

void RequestDesk::start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token gone) {
  enter(std::make_unique<AnswerJob>(std::move(request), std::move(listener), std::move(gone), bell_));
}

void RequestDesk::start(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token gone) {
  enter(std::make_unique<EmbeddingJob>(std::move(request), std::move(listener), std::move(gone), bell_, clock_));
}

void RequestDesk::enter(std::unique_ptr<Job> job) {
  const Job::Asked& asked = job->asked();
  Result<std::string> model = models_.resolve(asked.model);
  if (!model.ok()) return job->end(model.status());
  const int64_t now_ns = clock_.steady_ns();
  const int64_t end_ns = std::min(after(now_ns, asked.deadline), after(now_ns, options_.total_timeout));
  const auto ticket = std::make_shared<Request>(std::move(job));
  ticket->start_ns = now_ns;
  ticket->queue_end_ns = after(now_ns, options_.queue_timeout);
  ticket->end_ns = end_ns;
  ticket->model = *std::move(model);
  Status status;
  {
    const std::lock_guard lock(mutex_);
    status = admits_ ? admission_.enter(asked.cache_namespace, asked.prompt_bytes, ticket)
                     : Status(ErrorCode::kBusy, "the server is about to end, and takes no more requests");
    if (status.ok()) {
      all_.push_back(ticket);
    } else {
      ++stats_.n_refused;
    }
  }
  if (!status.ok()) return ticket->job.refuse(status, retry_after());
  bell_->ring();  // the hearing thread looks at its deadline from here on
  admit();
}

void RequestDesk::admit() {
  for (;;) {
    std::optional<RequestPtr> next;
    {
      const std::lock_guard lock(mutex_);
      next = admission_.next();
    }
    if (!next) return;
    planners_.post([this, request = *std::move(next)] { find_engine(request); });
  }
}

void RequestDesk::find_engine(const RequestPtr& request) {
  if (request->job.is_stopped()) return finish(request, request->job.why_stopped());
  Result<std::shared_ptr<Engine>> engine = models_.get_loaded(request->model);
  if (!engine.ok()) return finish(request, engine.status());
  if (*engine == nullptr) return loader_.post([this, request] { load(request); });
  request->engine = *std::move(engine);
  reserve(request);
}

void RequestDesk::load(const RequestPtr& request) {
  if (request->job.is_stopped()) return finish(request, request->job.why_stopped());
  Result<std::shared_ptr<Engine>> engine = models_.get(request->model);
  if (!engine.ok()) return finish(request, engine.status());
  request->engine = *std::move(engine);
  planners_.post([this, request] { reserve(request); });
}

void RequestDesk::reserve(const RequestPtr& request) {
  {
    const std::lock_guard lock(mutex_);
    request->room = request->job.room(*request->engine, options_.expected_answer_tokens);
    const bool others_wait = std::ranges::any_of(
        for_memory_, [&](const RequestPtr& other) { return other->room.engine == request->room.engine; });
    if (others_wait || !reservations_.try_reserve(request->room)) {
      for_memory_.push_back(request);
      return;
    }
  }
  plan(request);
}

void RequestDesk::plan(const RequestPtr& request) {
  request->job.leave_queue(std::chrono::nanoseconds(clock_.steady_ns() - request->start_ns));
  Status status = request->job.is_stopped() ? request->job.why_stopped()
                                            : request->job.plan({request->engine, request->model, conversations_});
  if (!status.ok()) return finish(request, status);
  {
    const std::lock_guard lock(mutex_);
    reservations_.correct(request->room, request->job.room(*request->engine, options_.expected_answer_tokens));
    arrivals_.push_back(request);
  }
  bell_->ring();
}

// --- the end

void RequestDesk::finish(const RequestPtr& request, const Status& status, bool was_admitted) {
  request->job.end(status);
  request->engine.reset();
  std::vector<RequestPtr> fit;
  {
    const std::lock_guard lock(mutex_);
    reservations_.give_back(request->room);
    if (was_admitted) admission_.leave();
    fit = take_what_fits();
    count(*request, status);
  }
  for (RequestPtr& next : fit) planners_.post([this, next = std::move(next)] { plan(next); });
  admit();
  // Last: from here on the service may be gone.
  const std::lock_guard lock(mutex_);
  all_.remove(request);
  if (all_.empty()) quiet_.notify_all();
}

// In their order: of each engine, none goes before one that came earlier.
std::vector<RequestDesk::RequestPtr> RequestDesk::take_what_fits() {
  std::vector<RequestPtr> fit;
  std::set<const Engine*> full;
  for (auto it = for_memory_.begin(); it != for_memory_.end();) {
    const auto here = it++;
    KvReservations::Room& room = (*here)->room;
    if (full.contains(room.engine)) continue;
    if (reservations_.try_reserve(room)) {
      fit.push_back(*here);
      for_memory_.erase(here);
    } else {
      full.insert(room.engine);
    }
  }
  return fit;
}

void RequestDesk::count(const Request& request, const Status& status) {
  const bool was_cancelled = status.code() == ErrorCode::kCancelled || status.code() == ErrorCode::kDeadline ||
                             (status.ok() && request.job.is_cut_short());
  ++(was_cancelled ? stats_.n_cancelled : status.ok() ? stats_.n_answers : stats_.n_failed);
  const Usage& usage = request.job.usage();
  stats_.n_prompt += usage.n_prompt;
  stats_.n_cached += usage.n_cached;
  stats_.n_prefilled += usage.n_prefilled;
  stats_.n_decoded += usage.n_decoded;
  mean_ms_ += 0.1 * (static_cast<double>(clock_.steady_ns() - request.start_ns) * 1e-6 - mean_ms_);
}

std::chrono::seconds RequestDesk::retry_after() const {
  const std::lock_guard lock(mutex_);
  const double rounds = 1.0 + static_cast<double>(admission_.n_waiting()) / static_cast<double>(options_.max_running);
  return std::chrono::seconds(std::clamp(static_cast<int64_t>(rounds * mean_ms_ * 1e-3 + 1), int64_t{1}, int64_t{60}));
}

// --- the hearing thread

void RequestDesk::hear() {
  std::list<RequestPtr> running;
  int64_t looked_ns = clock_.steady_ns();
  for (;;) {
    bool is_quiet = false;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      running.splice(running.end(), arrivals_);
      is_quiet = all_.empty();
    }
    advance(running);
    drop_stopped();
    check_times();
    if (const int64_t now_ns = clock_.steady_ns(); now_ns - looked_ns > 1'000'000'000) {
      looked_ns = now_ns;
      if (!unloads_.exchange(true)) {
        loader_.post([this] {
          models_.unload_idle();
          unloads_.store(false);
        });
      }
    }
    bell_->wait_for(is_quiet ? kIdleTick : kDeadlineTick);
  }
}

void RequestDesk::advance(std::list<RequestPtr>& running) {
  for (auto it = running.begin(); it != running.end();) {
    const RequestPtr request = *it;
    const Job::Next next = request->job.advance(conversations_);
    if (next == Job::Next::kWait) {
      ++it;
      continue;
    }
    it = running.erase(it);
    if (next == Job::Next::kPlan) {
      planners_.post([this, request] { plan(request); });
    } else if (next == Job::Next::kRetry) {
      retry_later(request);
    } else if (next == Job::Next::kLongEnd) {
      planners_.post([this, request] { finish(request, request->job.status()); });
    } else {
      finish(request, request->job.status());
    }
  }
}

// There was no memory, although it was reserved: what the prompt shares with nobody was more than expected. It waits
// until another has ended; if it is alone, there will never be more.
void RequestDesk::retry_later(const RequestPtr& request) {
  {
    const std::lock_guard lock(mutex_);
    if (!request->job.is_stopped() && reservations_.n_holders(request->room) > 1) {
      reservations_.give_back_and_want_all(request->room);
      for_memory_.push_back(request);
      return;
    }
  }
  finish(request, request->job.status());
}

// Requests that wait, and that nobody wants any more.
void RequestDesk::drop_stopped() {
  std::vector<RequestPtr> queued, admitted;
  {
    const std::lock_guard lock(mutex_);
    const auto is_stopped = [](const RequestPtr& request) { return request->job.is_stopped(); };
    queued = admission_.remove_if(is_stopped);
    for (auto it = for_memory_.begin(); it != for_memory_.end();) {
      const auto here = it++;
      if (!is_stopped(*here)) continue;
      admitted.push_back(*here);
      for_memory_.erase(here);
    }
  }
  for (const RequestPtr& request : queued) finish(request, request->job.why_stopped(), false);
  for (const RequestPtr& request : admitted) finish(request, request->job.why_stopped());
}

void RequestDesk::check_times() {
  const int64_t now_ns = clock_.steady_ns();
  std::vector<RequestPtr> late;  // they are stopped without the lock, because that rings the bell
  {
    const std::lock_guard lock(mutex_);
    const auto waits_too_long = [&](const RequestPtr& request) {
      if (now_ns >= request->queue_end_ns) late.push_back(request);
      return false;
    };
    (void)admission_.remove_if(waits_too_long);  // removes none: drop_stopped() does
    for (const RequestPtr& request : for_memory_) (void)waits_too_long(request);
    for (const RequestPtr& request : all_) {
      if (now_ns >= request->end_ns) late.push_back(request);
    }
  }
  for (const RequestPtr& request : late) {
    if (!request->job.is_stopped()) request->job.stop(ErrorCode::kDeadline);
  }
}

ServiceStats RequestDesk::stats() const {
  const ConversationStats known = conversations_.stats();
  const std::lock_guard lock(mutex_);
  ServiceStats stats = stats_;
  stats.n_running = admission_.n_running();
  stats.n_waiting = admission_.n_waiting();
  stats.n_conversations = known.n_known;
  stats.conversation_bytes = known.n_bytes;
  stats.n_continued = known.n_continued;
  stats.n_forked = known.n_forked;
  stats.n_unknown = known.n_unknown;
  stats.n_restored = known.n_restored;
  stats.n_to_write = known.n_waiting;
  stats.conversation_files = known.files;
  return stats;
}

}  // namespace ibid::serve
