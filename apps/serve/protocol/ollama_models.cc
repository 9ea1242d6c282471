// /api/tags, /api/show, /api/ps, /api/version: what models there are.
#include <string>
#include <utility>

#include "apps/serve/protocol/call.h"
#include "apps/serve/protocol/ollama.h"
#include "apps/serve/protocol/ollama_input.h"

namespace ibid::serve {

namespace {

Json model_details() {
  Json details = Json::object();
  details["parent_model"] = "";
  details["format"] = "";
  details["family"] = "";
  details["families"] = Json::array();
  details["parameter_size"] = "";
  details["quantization_level"] = "";
  return details;
}

Json listed_model(const ModelCard& card) {
  Json json = Json::object();
  json["name"] = card.name;
  json["model"] = card.name;
  json["modified_at"] = iso_time(card.created_s * 1'000'000'000);
  json["size"] = card.file_bytes;
  json["digest"] = "";
  json["details"] = model_details();
  return json;
}

}  // namespace

void get_ollama_tags(const Site& site, const http::ExchangePtr& exchange) {
  Json models = Json::array();
  for (const ModelCard& card : site.backend->models()) models.push_back(listed_model(card));
  Json json = Json::object();
  json["models"] = std::move(models);
  respond_json(*exchange, json);
}

void get_ollama_ps(const Site& site, const http::ExchangePtr& exchange) {
  Json models = Json::array();
  for (const ModelCard& card : site.backend->models()) {
    if (!card.is_loaded) continue;
    Json json = listed_model(card);
    json.erase("modified_at");
    json["size_vram"] = 0;
    json["context_length"] = card.max_seq_len;
    models.push_back(std::move(json));
  }
  Json json = Json::object();
  json["models"] = std::move(models);
  respond_json(*exchange, json);
}

void post_ollama_show(const Site& site, const http::ExchangePtr& exchange) {
  Json body;
  MaybeFault fault = parse_body(exchange->request().body, body);
  // Its older name.
  if (!fault && !body.contains("model") && body.contains("name")) body["model"] = body["name"];
  OllamaCall call;
  if (!fault) fault = read_fields(body, ollama_show_fields(), call);
  if (fault) return respond_fault(*exchange, *fault, ErrorStyle::kOllama);
  const Result<std::string> wanted = site.backend->resolve(call.request.model);
  for (const ModelCard& card : site.backend->models()) {
    if (!wanted.ok() || card.name != *wanted) continue;
    Json info = Json::object();
    info["general.architecture"] = "ibid";
    if (card.is_loaded) {
      info["ibid.context_length"] = card.max_seq_len;
      info["ibid.vocab_size"] = card.vocab_size;
      if (card.embedding_dim > 0) info["ibid.embedding_length"] = card.embedding_dim;
    }
    Json json = Json::object();
    json["modelfile"] = "";
    json["parameters"] = "";
    json["template"] = card.chat_template;
    json["details"] = model_details();
    json["model_info"] = std::move(info);
    json["capabilities"] = Json::array();
    if (card.answers) json["capabilities"].push_back("completion");
    if (card.embedding_dim > 0) json["capabilities"].push_back("embedding");
    if (card.chat_template.find("tools") != std::string::npos) json["capabilities"].push_back("tools");
    json["modified_at"] = iso_time(card.created_s * 1'000'000'000);
    return respond_json(*exchange, json);
  }
  respond_fault(*exchange, {.status = 404, .message = "there is no model of that name", .param = "model"},
                ErrorStyle::kOllama);
}

void get_ollama_version(const Site& site, const http::ExchangePtr& exchange) {
  Json json = Json::object();
  json["version"] = site.version;
  respond_json(*exchange, json);
}

}  // namespace ibid::serve
