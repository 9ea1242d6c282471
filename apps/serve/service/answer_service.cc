#include "apps/serve/service/answer_service.h"

#include <utility>

#include "apps/serve/service/model_host.h"
#include "apps/serve/service/prompt_text.h"
#include "apps/serve/service/request_desk.h"
#include "cache/store/lru_kv_cache_store.h"

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

Result<size_t> AnswerService::count_prompt(const AnswerRequest& request) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, desk_->models().get(request.model));
  return count_prompt_ids(engine, request);
}

Result<std::string> AnswerService::render_prompt(const AnswerRequest& request) {
  TRY_ASSIGN(const std::shared_ptr<Engine> engine, desk_->models().get(request.model));
  TRY_ASSIGN(const MarkedText text, prompt_text(engine, request));
  return text.bytes();
}

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
