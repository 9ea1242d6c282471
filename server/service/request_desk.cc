#include "server/service/request_desk.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/service/answer_job.h"
#include "server/service/embedding_job.h"
#include "server/service/model_host.h"
#include "server/service/model_task.h"
#include "server/service/whose_error.h"

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

RequestDesk::RequestDesk(ModelHost& models, Clock& clock, const AdmissionOptions& options)
    : models_(models),
      clock_(clock),
      options_(options),
      conversations_(options.conversations),
      waiting_({options.max_running, options.max_waiting, options.max_waiting_prompt_bytes}),
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
  tasks_.end();
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

void RequestDesk::start(ModelTask task, std::stop_token gone) {
  enter(std::make_unique<ModelTaskJob>(std::move(task), std::move(gone), bell_));
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
    status = admits_ ? waiting_.enter(ticket)
                     : Status(ErrorCode::kIo, "the server is about to end, and takes no more requests");
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
      next = waiting_.admit();
    }
    if (!next) return;
    planners_.post([this, request = *std::move(next)] { find_engine(request); });
  }
}

void RequestDesk::find_engine(const RequestPtr& request) {
  if (request->job.is_stopped()) return finish(request, request->job.why_stopped());
  Result<ModelLeasePtr> lease = models_.get_loaded(request->model);
  if (!lease.ok()) return finish(request, lease.status());
  if (*lease == nullptr) return loader_.post([this, request] { load(request); });
  request->lease = *std::move(lease);
  if (!request->job.computes()) return tasks_.post([this, request] { plan(request); });
  reserve(request);
}

void RequestDesk::load(const RequestPtr& request) {
  if (request->job.is_stopped()) return finish(request, request->job.why_stopped());
  request->n_returned = models_.n_returned();
  Result<ModelLeasePtr> lease = models_.try_get(request->model);
  if (!lease.ok()) return finish(request, lease.status());
  if (*lease == nullptr) {
    const std::lock_guard lock(mutex_);
    return waiting_.wait_for_model(request);
  }
  request->lease = *std::move(lease);
  if (!request->job.computes()) return tasks_.post([this, request] { plan(request); });
  planners_.post([this, request] { reserve(request); });
}

void RequestDesk::reserve(const RequestPtr& request) {
  const Status status = request->job.prepare({request->lease, request->model, conversations_});
  if (!status.ok()) return finish(request, status);
  const KvReservations::Room room =
      request->job.room(*request->lease->engine(), options_.expected_answer_tokens);
  bool has_room = false;
  {
    const std::lock_guard lock(mutex_);
    has_room = waiting_.reserve(request, room);
  }
  has_room ? plan(request) : admit();  // who waits for memory leaves his place to another
}

void RequestDesk::plan(const RequestPtr& request) {
  request->job.leave_queue(std::chrono::nanoseconds(clock_.steady_ns() - request->start_ns));
  const Status status = request->job.is_stopped()
                            ? request->job.why_stopped()
                            : request->job.plan({request->lease, request->model, conversations_});
  if (!status.ok() || !request->job.computes()) return finish(request, status);
  {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back(request);
  }
  bell_->ring();
}

// --- the end

void RequestDesk::finish(const RequestPtr& request, const Status& status) {
  const Job::Asked& asked = request->job.asked();
  request->job.end(status);
  std::vector<RequestPtr> fit;
  {
    const std::lock_guard lock(mutex_);
    fit = waiting_.leave(*request);
    if (request->job.computes()) count(*request, status);
  }
  if (request->lease != nullptr && asked.keep_alive) (void)models_.set_keep_alive(request->model, *asked.keep_alive);
  request->lease.reset();
  if (asked.keep_alive == std::chrono::milliseconds(0)) unload_idle_later();
  for (RequestPtr& next : fit) planners_.post([this, next = std::move(next)] { plan(next); });
  admit();
  // Last: from here on the service may be gone.
  const std::lock_guard lock(mutex_);
  all_.remove(request);
  if (all_.empty()) quiet_.notify_all();
}

Status RequestDesk::unload(std::string_view model) {
  TRY(models_.set_keep_alive(model, std::chrono::milliseconds(0)));
  unload_idle_later();
  return {};
}

// It waits for the disk, and nobody else has to.
void RequestDesk::unload_idle_later() {
  loader_.post([this] { models_.unload_idle(); });
}

void RequestDesk::count(const Request& request, const Status& status) {
  const bool was_cancelled = status.code() == ErrorCode::kCancelled || status.code() == ErrorCode::kDeadline ||
                             (status.ok() && request.job.is_cut_short());
  ++(was_cancelled                   ? stats_.n_cancelled
     : status.ok()                   ? stats_.n_answers
     : is_of_request(status.code()) ? stats_.n_bad
                                     : stats_.n_failed);
  const Usage& usage = request.job.usage();
  stats_.n_prompt += usage.n_prompt;
  stats_.n_cached += usage.n_cached;
  stats_.n_prefilled += usage.n_prefilled;
  stats_.n_decoded += usage.n_decoded;
  mean_ms_ += 0.1 * (static_cast<double>(clock_.steady_ns() - request.start_ns) * 1e-6 - mean_ms_);
}

std::chrono::seconds RequestDesk::retry_after() const {
  const std::lock_guard lock(mutex_);
  const double rounds = 1.0 + static_cast<double>(waiting_.n_waiting()) / static_cast<double>(options_.max_running);
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
    look_for_models();
    drop_stopped();
    check_times();
    if (const int64_t now_ns = clock_.steady_ns(); now_ns - looked_ns > 1'000'000'000) {
      looked_ns = now_ns;
      unload_idle_later();
    }
    bell_->wait_for(is_quiet ? kIdleTick : kDeadlineTick);
  }
}

void RequestDesk::advance(std::list<RequestPtr>& running) {
  for (auto it = running.begin(); it != running.end();) {
    const RequestPtr request = *it;
    const Job::Next next = request->job.advance(conversations_);
    if (next == Job::Next::kWait) {
      note_growth(request);
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

// An answer of a length that nobody said outgrows what was expected: others are let in later.
void RequestDesk::note_growth(const RequestPtr& request) {
  const KvReservations::Room room = request->job.room(*request->lease->engine(), options_.expected_answer_tokens);
  if (room.n_bytes <= request->room.n_bytes) return;
  const std::lock_guard lock(mutex_);
  waiting_.correct(*request, room);
}

// There was no memory although it was reserved, because answers have outgrown what was expected of them. It waits until
// others have ended; if it was alone all the time, there will never be more.
void RequestDesk::retry_later(const RequestPtr& request) {
  using Retry = WaitingRooms::Retry;
  const KvReservations::Room room = request->job.room(*request->lease->engine(), options_.expected_answer_tokens);
  Retry retry = Retry::kNever;
  {
    const std::lock_guard lock(mutex_);
    request->queue_end_ns = after(clock_.steady_ns(), options_.queue_timeout);
    if (!request->job.is_stopped()) retry = waiting_.wait_for_room(request, room);
    if (retry != Retry::kNever) ++stats_.n_retried;
  }
  if (retry == Retry::kLater) return admit();
  if (retry == Retry::kNow) return planners_.post([this, request] { plan(request); });
  finish(request, request->job.is_stopped() ? request->job.why_stopped() : request->job.status());
}

// Those whose model has to wait for others' leases try again when one was given back.
void RequestDesk::look_for_models() {
  std::vector<RequestPtr> again;
  {
    const std::lock_guard lock(mutex_);
    again = waiting_.take_for_models(models_.n_returned());
  }
  for (const RequestPtr& request : again) loader_.post([this, request] { load(request); });
}

// Requests that wait, and that nobody wants any more.
void RequestDesk::drop_stopped() {
  std::vector<RequestPtr> stopped;
  {
    const std::lock_guard lock(mutex_);
    stopped = waiting_.take_stopped();
  }
  for (const RequestPtr& request : stopped) finish(request, request->job.why_stopped());
}

void RequestDesk::check_times() {
  const int64_t now_ns = clock_.steady_ns();
  std::vector<RequestPtr> late;  // they are stopped without the lock, because that rings the bell
  {
    const std::lock_guard lock(mutex_);
    late = waiting_.late(now_ns);
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
  stats.n_running = waiting_.n_running();
  stats.n_waiting = waiting_.n_waiting();
  stats.n_conversations = known.n_known;
  stats.conversation_bytes = known.n_bytes;
  stats.n_continued = known.n_continued;
  stats.n_forked = known.n_forked;
  stats.n_unknown = known.n_unknown;
  stats.n_restored = known.n_restored;
  stats.n_to_write = known.n_waiting;
  stats.histories = known.kept;
  return stats;
}

}  // namespace ibid::serve
