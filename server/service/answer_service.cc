#include "server/service/answer_service.h"

#include <utility>

#include "cache/store/lru_kv_cache_store.h"
#include "server/service/model_host.h"
#include "server/service/model_task.h"
#include "server/service/prompt_text.h"
#include "server/service/request_desk.h"

namespace ibid::serve {

AnswerService::AnswerService(ModelHost& models, Clock& clock, const AdmissionOptions& options)
    : desk_(std::make_unique<RequestDesk>(models, clock, options)) {}
AnswerService::~AnswerService() = default;

void AnswerService::start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) {
  desk_->start(std::move(request), std::move(listener), std::move(stop));
}

void AnswerService::start(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener,
                          std::stop_token stop) {
  desk_->start(std::move(request), std::move(listener), std::move(stop));
}

void AnswerService::start(ModelTask task, std::stop_token stop) { desk_->start(std::move(task), std::move(stop)); }

namespace {

// What is asked of the engine about a request's prompt.
template <typename Value, typename Ask>
ModelTask task_about(AnswerRequest request, std::function<void(const Result<Value>&)> then, const Ask& ask) {
  ModelTask task{.model = request.model, .cache_namespace = request.cache_namespace, .deadline = request.deadline,
                 .n_bytes = bytes_of_prompt(request)};
  task.run = [request = std::move(request), then, ask](const ModelLeasePtr& lease, const std::string&) {
    then(ask(lease->engine(), request));
  };
  task.fail = [then](const Status& status) { then(status); };
  return task;
}

}  // namespace

void AnswerService::count_prompt(AnswerRequest request, std::function<void(const Result<size_t>&)> then,
                                 std::stop_token stop) {
  start(task_about<size_t>(std::move(request), std::move(then), count_prompt_ids), std::move(stop));
}

void AnswerService::render_prompt(AnswerRequest request, std::function<void(const Result<std::string>&)> then,
                                  std::stop_token stop) {
  const auto render = [](const std::shared_ptr<Engine>& engine, const AnswerRequest& asked) -> Result<std::string> {
    TRY_ASSIGN(const MarkedText text, prompt_text(engine, asked));
    return text.bytes();
  };
  start(task_about<std::string>(std::move(request), std::move(then), render), std::move(stop));
}

Status AnswerService::unload(std::string_view model) { return desk_->unload(model); }

ConversationStore& AnswerService::store() { return desk_->conversations().store(); }

void AnswerService::write_behind(std::function<void()> work) { desk_->conversations().write_behind(std::move(work)); }

void AnswerService::forget_namespace(std::string_view cache_namespace) {
  desk_->conversations().forget_namespace(cache_namespace);
  for (const HostedModel& model : desk_->models().list()) {
    if (model.engine != nullptr) model.engine->store().clear(cache_namespace);
  }
}

void AnswerService::stop_admitting() { desk_->stop_admitting(); }
bool AnswerService::wait_until_quiet(std::chrono::milliseconds limit) { return desk_->wait_until_quiet(limit); }
ServiceStats AnswerService::stats() const { return desk_->stats(); }

}  // namespace ibid::serve
