#include "server/service/service.h"

#include <algorithm>
#include <list>
#include <utility>

#include "cache/store/lru_kv_cache_store.h"
#include "model/forward/language_model.h"
#include "server/service/request_prompt.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {
namespace {

// Intervals between checks, in real time, not that of the Clock. While there are requests, deadlines are checked;
// otherwise, idle models.
constexpr std::chrono::milliseconds kDeadlineTick{20};
constexpr std::chrono::milliseconds kIdleTick{1000};
constexpr size_t kPlanningThreads = 2;

int64_t after(int64_t start_ns, std::chrono::milliseconds limit) {
  return limit.count() <= 0 ? INT64_MAX : start_ns + limit.count() * 1'000'000;
}

// Describes a task about a request's prompt. It has no keep_alive, so the task does not change how long the model stays
// loaded.
Job::Parameters parameters_of(const AnswerRequest& request) {
  return {request.model, std::string(owner_of_namespace(request.cache_namespace)), request.deadline,
          bytes_of_prompt(request)};
}

ModelCard card_of(const HostedModel& model) {
  ModelCard card{.name = model.name,
                 .path = model.path,
                 .file_bytes = model.file_bytes,
                 .created_s = model.created_s,
                 .is_loaded = model.engine != nullptr,
                 .unloads_in = model.unloads_in};
  if (model.engine == nullptr) return card;
  const EngineState& engine = model.engine->state();
  card.max_seq_len = engine.max_seq_len();
  card.vocab_size = engine.tokenizer().vocab_size();
  card.embedding_dim = engine.pooling() ? engine.model().dim() : 0;
  card.answers = engine.check_answers().ok();
  card.thinks = card.answers && shows_reasoning(engine.reply_format());
  card.infills = card.answers && can_infill(engine.tokenizer());
  if (const ChatTemplate* chat_template = engine.chat_template()) card.chat_template = chat_template->source();
  return card;
}

}  // namespace

Service::Service(ModelHost& models, Clock& clock, const AdmissionOptions& options)
    : models_(models),
      clock_(clock),
      options_(options),
      conversations_(options.conversations),
      queue_({options.max_running, options.max_waiting, options.max_waiting_prompt_bytes}),
      planners_(kPlanningThreads, "ibid-planner") {
  models_.set_on_unload([this](const Engine& engine) { conversations_.forget_engine(engine); });
  events_ = std::thread([this] { run_events(); });
}

Service::~Service() {
  stop_admitting();
  std::list<ScheduledPtr> all;
  {
    const std::lock_guard lock(mutex_);
    all = queue_.all();
  }
  for (const ScheduledPtr& request : all) request->job->stop(ErrorCode::kCancelled);
  all.clear();
  wait_until_quiet(std::chrono::milliseconds::max());
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  waker_->ring();
  events_.join();
  planners_.end();
  tasks_.end();
  loader_.end();  // waits for the thread, which may be unloading a model
  models_.set_on_unload({});
}

void Service::stop_admitting() {
  const std::lock_guard lock(mutex_);
  admits_ = false;
}

bool Service::wait_until_quiet(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const auto is_quiet = [this] { return queue_.is_empty(); };
  if (limit != std::chrono::milliseconds::max()) return quiet_.wait_for(lock, limit, is_quiet);
  quiet_.wait(lock, is_quiet);
  return true;
}

void Service::start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) {
  if (!options_.guards_answers && !request.guard) request.guard = false;
  if (!request.form.standard_schema) request.form.standard_schema = options_.standard_schemas;
  enter(make_answer_job(std::move(request), std::move(listener), std::move(stop), waker_));
}

void Service::embed(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token stop) {
  enter(make_embedding_job(std::move(request), std::move(listener), std::move(stop), waker_, clock_));
}

void Service::encode_prompt(AnswerRequest request, Then<Tokens> then, std::stop_token stop) {
  Job::Parameters parameters = parameters_of(request);
  auto ask = [request = std::move(request)](const ModelLeasePtr& lease) mutable {
    return encode_prompt_ids(*lease->engine(), request);
  };
  enter(std::make_unique<TaskJob<Tokens>>(std::move(parameters), std::move(ask), std::move(then), std::move(stop),
                                          waker_));
}

void Service::render_prompt(AnswerRequest request, Then<std::string> then, std::stop_token stop) {
  Job::Parameters parameters = parameters_of(request);
  auto ask = [request = std::move(request)](const ModelLeasePtr& lease) mutable -> Result<std::string> {
    TRY_ASSIGN(const MarkedText text, prompt_text(*lease->engine(), request));
    return text.bytes();
  };
  enter(std::make_unique<TaskJob<std::string>>(std::move(parameters), std::move(ask), std::move(then), std::move(stop),
                                               waker_));
}

void Service::with_tokenizer(ModelCall call, Then<std::shared_ptr<const Tokenizer>> then, std::stop_token stop) {
  Job::Parameters parameters{.model = std::move(call.model),
                             .owner = std::string(owner_of_namespace(call.cache_namespace)),
                             .prompt_bytes = call.n_bytes,
                             .keep_alive = call.keep_alive};
  enter(std::make_unique<TaskJob<std::shared_ptr<const Tokenizer>>>(std::move(parameters), tokenizer_of_lease,
                                                                    std::move(then), std::move(stop), waker_));
}

void Service::enter(std::unique_ptr<Job> job) {
  const Job::Parameters& parameters = job->parameters();
  Result<std::string> model = models_.resolve(parameters.model);
  if (!model.ok()) return job->end(model.status());
  const int64_t now_ns = clock_.steady_ns();
  const auto request = std::make_shared<Scheduled>(std::move(job));
  request->model = *std::move(model);
  request->start_ns = now_ns;
  request->end_ns = std::min(after(now_ns, parameters.deadline), after(now_ns, options_.total_timeout));
  request->queue_end_ns = after(now_ns, options_.queue_timeout);
  Status status;
  std::chrono::seconds wait{0};
  {
    const std::lock_guard lock(mutex_);
    status = admits_ ? queue_.enter(request) : Status(ErrorCode::kIo, "the server is shutting down");
    if (!status.ok()) {
      ++stats_.n_refused;
      wait = retry_after();
    }
  }
  if (!status.ok()) return request->job->refuse(status, wait);
  waker_->ring();  // the event thread checks the request's deadline from now on
  admit();
}

std::chrono::seconds Service::retry_after() const {
  const double rounds = 1.0 + static_cast<double>(queue_.n_waiting()) / static_cast<double>(options_.max_running);
  return std::chrono::seconds(std::clamp(static_cast<int64_t>(rounds * mean_ms_ * 1e-3 + 1), int64_t{1}, int64_t{60}));
}

void Service::admit() {
  for (;;) {
    ScheduledPtr next;
    {
      const std::lock_guard lock(mutex_);
      next = queue_.admit();
    }
    if (next == nullptr) return;
    planners_.post([this, next] { find_model(next, false); });
  }
}

// Gets the model. Runs on a planning thread, and once more on the loading thread if the model has to be loaded.
void Service::find_model(const ScheduledPtr& request, bool may_load) {
  if (request->job->is_stopped()) return finish(request, request->job->why_stopped());
  const uint64_t n_returned = models_.n_returned();
  Result<ModelLeasePtr> lease = may_load ? models_.try_get(request->model) : models_.get_loaded(request->model);
  if (!lease.ok()) return finish(request, lease.status());
  if (*lease == nullptr) {
    if (!may_load) return loader_.post([this, request] { find_model(request, true); });
    const std::lock_guard lock(mutex_);
    return queue_.wait_for_model(*request, n_returned);
  }
  request->lease = *std::move(lease);
  if (!request->job->computes()) return tasks_.post([this, request] { plan(request); });
  may_load ? planners_.post([this, request] { reserve(request); }) : reserve(request);
}

void Service::reserve(const ScheduledPtr& request) {
  const Status status = guarded([&] {
    return request->job->prepare({request->lease, request->model, conversations_});
  });
  if (!status.ok()) return finish(request, status);
  const KvRoom room = request->job->room(*request->lease->engine(), options_.expected_answer_tokens);
  bool has_room = false;
  {
    const std::lock_guard lock(mutex_);
    has_room = queue_.reserve(request, room);
  }
  has_room ? plan(request) : admit();  // this request waits for memory, so another may be admitted
}

void Service::plan(const ScheduledPtr& request) {
  request->job->leave_queue(std::chrono::nanoseconds(clock_.steady_ns() - request->start_ns));
  const Status status = guarded([&] {
    return request->job->is_stopped() ? request->job->why_stopped()
                                      : request->job->plan({request->lease, request->model, conversations_});
  });
  if (!status.ok() || !request->job->computes()) return finish(request, status);
  {
    const std::lock_guard lock(mutex_);
    queue_.run(*request);
  }
  waker_->ring();
}

void Service::plan_later(const ScheduledPtr& request) {
  planners_.post([this, request] { plan(request); });
}

void Service::finish(const ScheduledPtr& request, const Status& status) {
  const Job::Parameters& parameters = request->job->parameters();
  request->job->end(status);
  std::vector<ScheduledPtr> fit;
  {
    const std::lock_guard lock(mutex_);
    fit = queue_.leave(*request);
    if (request->job->computes()) count(*request, status);
  }
  if (request->lease != nullptr && parameters.keep_alive)
    (void)models_.set_keep_alive(request->model, *parameters.keep_alive);
  request->lease.reset();
  if (parameters.keep_alive == std::chrono::milliseconds(0)) unload_idle_later();
  for (const ScheduledPtr& next : fit) plan_later(next);
  admit();
  // This must be the last step, because the service may be destroyed after it.
  const std::lock_guard lock(mutex_);
  queue_.forget(request);
  if (queue_.is_empty()) quiet_.notify_all();
}

void Service::count(const Scheduled& request, const Status& status) {
  const bool was_cancelled = status.code() == ErrorCode::kCancelled || status.code() == ErrorCode::kDeadline ||
                             (status.ok() && request.job->is_cut_short());
  ++(was_cancelled                  ? stats_.n_cancelled
     : status.ok()                  ? stats_.n_answers
     : is_of_request(status.code()) ? stats_.n_bad
                                    : stats_.n_failed);
  const Usage& usage = request.job->usage();
  stats_.n_prompt += usage.n_prompt;
  stats_.n_cached += usage.n_cached;
  stats_.n_prefilled += usage.n_prefilled;
  stats_.n_decoded += usage.n_decoded;
  stats_.n_drafts += usage.n_drafts;
  stats_.n_drafted += usage.n_drafted;
  stats_.n_accepted += usage.n_accepted;
  mean_ms_ += 0.1 * (static_cast<double>(clock_.steady_ns() - request.start_ns) * 1e-6 - mean_ms_);
}

void Service::run_events() {
  int64_t unloaded_ns = clock_.steady_ns();
  for (;;) {
    bool is_quiet = false;
    std::vector<ScheduledPtr> running;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      running = queue_.running();
      is_quiet = queue_.is_empty();
    }
    for (ScheduledPtr& request : running) advance(std::exchange(request, nullptr));
    look_for_models();
    drop_stopped();
    check_times();
    if (const int64_t now_ns = clock_.steady_ns(); now_ns - unloaded_ns > 1'000'000'000) {
      unloaded_ns = now_ns;
      unload_idle_later();
    }
    waker_->wait_for(is_quiet ? kIdleTick : kDeadlineTick);
  }
}

void Service::advance(const ScheduledPtr& request) {
  const Job::Next next = request->job->advance(conversations_);
  if (next == Job::Next::kRetry) return retry_later(request);
  if (next == Job::Next::kOver) return finish(request, request->job->status());
  if (next == Job::Next::kWait) {  // an answer may exceed its expected length, so adapt its reservation
    const KvRoom room = request->job->room(*request->lease->engine(), options_.expected_answer_tokens);
    if (room.n_bytes <= request->room().n_bytes) return;
    const std::lock_guard lock(mutex_);
    return queue_.correct(*request, room);
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.plan_again(*request);
  }
  if (next == Job::Next::kPlan) return plan_later(request);
  planners_.post([this, request] { finish(request, request->job->status()); });
}

// The request's answers have outgrown their expected length, so its reservation was too small. The request waits until
// other requests have ended. If no other request held memory, there will never be more, and the request ends.
void Service::retry_later(const ScheduledPtr& request) {
  using Retry = Queue::Retry;
  const KvRoom room = request->job->room(*request->lease->engine(), options_.expected_answer_tokens);
  Retry retry = Retry::kNever;
  {
    const std::lock_guard lock(mutex_);
    request->queue_end_ns = after(clock_.steady_ns(), options_.queue_timeout);
    if (!request->job->is_stopped()) retry = queue_.wait_for_memory(request, room);
    if (retry != Retry::kNever) ++stats_.n_retried;
  }
  if (retry == Retry::kLater) return admit();
  if (retry == Retry::kNow) return plan_later(request);
  finish(request, request->job->is_stopped() ? request->job->why_stopped() : request->job->status());
}

// Lets requests that wait for a model try again after a lease was returned.
void Service::look_for_models() {
  const uint64_t n_returned = models_.n_returned();
  std::vector<ScheduledPtr> again;
  {
    const std::lock_guard lock(mutex_);
    again = queue_.take_for_models(n_returned);
  }
  for (const ScheduledPtr& request : again) loader_.post([this, request] { find_model(request, true); });
}

void Service::drop_stopped() {
  std::vector<ScheduledPtr> stopped;
  {
    const std::lock_guard lock(mutex_);
    stopped = queue_.take_stopped();
  }
  for (const ScheduledPtr& request : stopped) finish(request, request->job->why_stopped());
}

void Service::check_times() {
  std::vector<ScheduledPtr> late;  // stopped after the lock is released, because stopping rings the waker
  {
    const std::lock_guard lock(mutex_);
    late = queue_.late(clock_.steady_ns());
  }
  for (const ScheduledPtr& request : late) {
    if (!request->job->is_stopped()) request->job->stop(ErrorCode::kDeadline);
  }
}

Status Service::unload(std::string_view model) {
  TRY(models_.set_keep_alive(model, std::chrono::milliseconds(0)));
  unload_idle_later();
  return {};
}

// Unloads idle models on the loading thread, because this waits for the disk.
void Service::unload_idle_later() {
  loader_.post([this] { models_.unload_idle(); });
}

std::vector<ModelCard> Service::models() const {
  std::vector<ModelCard> cards;
  for (const HostedModel& model : models_.list()) cards.push_back(card_of(model));
  return cards;
}

ModelHeader Service::header(std::string_view name) const {
  for (const HostedModel& model : models_.list()) {
    if (model.name == name) return headers_.of(model);
  }
  return {};
}

TurnOptions Service::default_options(std::string_view model) const {
  const Result<TurnOptions> options = models_.recommended(model);
  return options.ok() ? *options : TurnOptions();
}

void Service::forget_namespace(std::string_view cache_namespace) {
  conversations_.forget_namespace(cache_namespace);
  for (const HostedModel& model : models_.list()) {
    if (model.engine != nullptr) model.engine->state().store().clear(cache_namespace);
  }
}

BackendLoad Service::load() const {
  BackendLoad load;
  for (const HostedModel& model : models_.list()) {
    if (model.engine == nullptr) continue;
    EngineState& engine = model.engine->state();
    load.n_used_tokens += engine.store().n_held_pages() * kPagePositions;
    load.n_tokens += engine.pool().budget_pages() * kPagePositions;
  }
  const std::lock_guard lock(mutex_);
  load.n_running = queue_.n_running();
  load.n_waiting = queue_.n_waiting();
  return load;
}

ServiceStats Service::stats() const {
  const ConversationStats known = conversations_.stats();
  const std::lock_guard lock(mutex_);
  ServiceStats stats = stats_;
  stats.n_running = queue_.n_running();
  stats.n_waiting = queue_.n_waiting();
  stats.conversations = known;
  return stats;
}

}  // namespace ibid::serve
