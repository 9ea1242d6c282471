#include "server/service_backend.h"

#include <utility>

#include "model/forward/language_model.h"
#include "server/service/answer_service.h"
#include "server/service/model_host.h"
#include "server/service/model_task.h"

namespace ibid::serve {

namespace {

class ServiceBackend final : public Backend {
 public:
  ServiceBackend(AnswerService& service, ModelHost& models) : service_(service), models_(models) {}

  void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) override {
    service_.start(std::move(request), std::move(listener), std::move(stop));
  }

  void embed(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token stop) override {
    service_.start(std::move(request), std::move(listener), std::move(stop));
  }

  void count_prompt(AnswerRequest request, Then<size_t> then, std::stop_token stop) override {
    service_.count_prompt(std::move(request), std::move(then), std::move(stop));
  }

  void render_prompt(AnswerRequest request, Then<std::string> then, std::stop_token stop) override {
    service_.render_prompt(std::move(request), std::move(then), std::move(stop));
  }

  void with_tokenizer(ModelCall call, Then<std::shared_ptr<const Tokenizer>> then, std::stop_token stop) override {
    ModelTask task{.model = std::move(call.model), .cache_namespace = std::move(call.cache_namespace),
                   .keep_alive = call.keep_alive, .n_bytes = call.n_bytes};
    task.run = [then](const ModelLeasePtr& lease, const std::string&) { then(tokenizer_of_lease(lease)); };
    task.fail = [then](const Status& status) { then(status); };
    service_.start(std::move(task), std::move(stop));
  }

  void write_behind(std::function<void()> work) override { service_.write_behind(std::move(work)); }
  Status unload(std::string_view model) override { return service_.unload(model); }
  Result<std::string> resolve(std::string_view model) const override { return models_.resolve(model); }

  std::vector<ModelCard> models() const override {
    std::vector<ModelCard> cards;
    for (const HostedModel& model : models_.list()) {
      ModelCard card{.name = model.name, .file_bytes = model.file_bytes, .created_s = model.created_s,
                     .is_loaded = model.engine != nullptr};
      if (model.engine != nullptr) {
        card.max_seq_len = model.engine->max_seq_len();
        card.vocab_size = model.engine->tokenizer().vocab_size();
        card.embedding_dim = model.engine->pooling() ? model.engine->model().dim() : 0;
        card.answers = model.engine->check_answers().ok();
        if (const ChatTemplate* chat_template = model.engine->chat_template()) {
          card.chat_template = chat_template->source();
        }
      }
      cards.push_back(std::move(card));
    }
    return cards;
  }

  ModelHeader header(std::string_view name) const override {
    for (const HostedModel& model : models_.list()) {
      if (model.name == name) return headers_.of(model);
    }
    return {};
  }

  TurnOptions default_options(std::string_view model) const override {
    const Result<TurnOptions> options = models_.recommended(model);
    return options.ok() ? *options : TurnOptions();
  }

 private:
  AnswerService& service_;
  ModelHost& models_;
  mutable ModelHeaders headers_;
};

}  // namespace

std::shared_ptr<Backend> make_service_backend(AnswerService& service, ModelHost& models) {
  return std::make_shared<ServiceBackend>(service, models);
}

}  // namespace ibid::serve
