#include "server/protocol/openai_models.h"

#include <utility>

namespace ibid::serve {

Json openai_model_json(const ModelCard& card) {
  Json json = Json::object();
  json["id"] = card.name;
  json["object"] = "model";
  json["created"] = card.created_s;
  json["owned_by"] = "ibid";
  // Anthropic's clients ask at the same path.
  json["type"] = "model";
  json["display_name"] = card.name;
  json["created_at"] = iso_time(card.created_s * 1'000'000'000);
  if (card.is_loaded) {
    Json meta = Json::object();
    meta["n_ctx"] = card.max_seq_len;
    meta["n_vocab"] = card.vocab_size;
    meta["size"] = card.file_bytes;
    json["meta"] = std::move(meta);
  }
  return json;
}

void get_models(const Site& site, const http::ExchangePtr& exchange) {
  Json list = Json::array();
  for (const ModelCard& card : site.backend->models()) list.push_back(openai_model_json(card));
  Json json = Json::object();
  json["object"] = "list";
  json["first_id"] = list.empty() ? Json() : list.front()["id"];
  json["last_id"] = list.empty() ? Json() : list.back()["id"];
  json["has_more"] = false;
  json["data"] = std::move(list);
  respond_json(*exchange, json);
}

void get_model(const Site& site, const http::ExchangePtr& exchange, const std::string& name) {
  const Result<std::string> meant = site.backend->resolve(name);
  for (const ModelCard& card : site.backend->models()) {
    if (meant.ok() && card.name == *meant) return respond_json(*exchange, openai_model_json(card));
  }
  const Fault fault{.status = 404, .message = "there is no model of that name; GET /v1/models has those there are",
                    .param = "model", .code = "model_not_found"};
  respond_fault(*exchange, fault, ErrorStyle::kOpenAi);
}

}  // namespace ibid::serve
