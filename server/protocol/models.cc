// GET /v1/models and GET /v1/models/{id}: one response with the fields of both OpenAI and Anthropic.
#include <utility>

#include "server/protocol/handlers.h"

namespace ibid::serve {

namespace {

// A loaded model also has "meta", as in llama.cpp. Anthropic's clients use the same path, so its fields are added too.
Json openai_model(const ModelCard& card) {
  Json json = {{"id", card.name},
               {"object", "model"},
               {"created", card.created_s},
               {"owned_by", "ibid"},
               {"type", "model"},
               {"display_name", card.name},
               {"created_at", precise_time(card.created_s * 1'000'000'000)}};
  if (card.is_loaded) {
    json["meta"] = {{"n_ctx", card.max_seq_len}, {"n_vocab", card.vocab_size}, {"size", card.file_bytes}};
  }
  return json;
}

}  // namespace

void get_models(const Site& site, const http::ExchangePtr& exchange) {
  Json list = Json::array();
  for (const ModelCard& card : site.backend->models()) list.push_back(openai_model(card));
  const Json first = list.empty() ? Json() : list.front()["id"], last = list.empty() ? Json() : list.back()["id"];
  respond_json(
      *exchange,
      {{"object", "list"}, {"first_id", first}, {"last_id", last}, {"has_more", false}, {"data", std::move(list)}});
}

void get_model(const Site& site, const http::ExchangePtr& exchange, const std::string& name) {
  const Result<std::string> meant = site.backend->resolve(name);
  for (const ModelCard& card : site.backend->models()) {
    if (meant.ok() && card.name == *meant) return respond_json(*exchange, openai_model(card));
  }
  throw Fault{.status = 404,
              .message = "no model has this name; GET /v1/models lists the models",
              .param = "model",
              .code = "model_not_found"};
}

}  // namespace ibid::serve
