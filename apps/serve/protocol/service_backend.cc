#include "apps/serve/protocol/service_backend.h"

#include <utility>

#include "apps/serve/service/answer_service.h"
#include "apps/serve/service/model_host.h"
#include "model/language_model.h"

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

  Result<size_t> count_prompt(const AnswerRequest& request) override { return service_.count_prompt(request); }
  Result<std::string> render_prompt(const AnswerRequest& request) override { return service_.render_prompt(request); }

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

  TurnOptions default_options(std::string_view) const override { return {}; }

  Result<std::shared_ptr<const Tokenizer>> tokenizer(std::string_view model) override {
    TRY_ASSIGN(std::shared_ptr<Engine> engine, models_.get(model));
    const Tokenizer* tokenizer = &engine->tokenizer();
    return std::shared_ptr<const Tokenizer>(std::move(engine), tokenizer);
  }

  Status unload(std::string_view model) override { return models_.unload(model); }

 private:
  AnswerService& service_;
  ModelHost& models_;
};

}  // namespace

std::shared_ptr<Backend> make_service_backend(AnswerService& service, ModelHost& models) {
  return std::make_shared<ServiceBackend>(service, models);
}

}  // namespace ibid::serve
