// /api/tags, /api/show, /api/ps, /api/version: what models there are.
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "server/protocol/call.h"
#include "server/protocol/ollama.h"
#include "server/protocol/ollama_input.h"

namespace ibid::serve {

namespace {

// "134.52M", "8B", "7.6B", as Ollama has it.
std::string short_count(uint64_t n) {
  struct Unit {
    double size;
    const char* letter;
    int n_digits;
  };
  for (const Unit& unit : {Unit{1e9, "B", 1}, Unit{1e6, "M", 2}, Unit{1e3, "K", 2}}) {
    const double number = static_cast<double>(n) / unit.size;
    if (number < 1) continue;
    char text[32];
    std::snprintf(text, sizeof(text), "%.*f%s", number == std::floor(number) ? 0 : unit.n_digits, number, unit.letter);
    return text;
  }
  return n == 0 ? "" : std::to_string(n);
}

Json model_details(const ModelHeader& header) {
  Json details = Json::object();
  details["parent_model"] = "";
  details["format"] = header.format;
  details["family"] = header.family;
  details["families"] = Json::array();
  if (!header.family.empty()) details["families"].push_back(header.family);
  details["parameter_size"] = short_count(header.n_params);
  details["quantization_level"] = header.quantization;
  return details;
}

Json model_info(const ModelCard& card, const ModelHeader& header) {
  const std::string family = header.family.empty() ? "ibid" : header.family;
  Json info = Json::object();
  info["general.architecture"] = family;
  if (header.n_params > 0) info["general.parameter_count"] = header.n_params;
  // What the server has room for, where it is known: clients cut their prompts by it.
  const size_t context = card.is_loaded ? card.max_seq_len : header.trained_context;
  if (context > 0) info[family + ".context_length"] = context;
  if (card.is_loaded) info[family + ".vocab_size"] = card.vocab_size;
  const size_t dim = card.embedding_dim > 0 ? card.embedding_dim : header.embedding_dim;
  if (dim > 0) info[family + ".embedding_length"] = dim;
  return info;
}

Json listed_model(const Site& site, const ModelCard& card) {
  Json json = Json::object();
  json["name"] = card.name;
  json["model"] = card.name;
  json["modified_at"] = iso_time(card.created_s * 1'000'000'000);
  json["size"] = card.file_bytes;
  json["digest"] = "";
  json["details"] = model_details(site.backend->header(card.name));
  return json;
}

}  // namespace

void get_ollama_tags(const Site& site, const http::ExchangePtr& exchange) {
  Json models = Json::array();
  for (const ModelCard& card : site.backend->models()) models.push_back(listed_model(site, card));
  Json json = Json::object();
  json["models"] = std::move(models);
  respond_json(*exchange, json);
}

void get_ollama_ps(const Site& site, const http::ExchangePtr& exchange) {
  Json models = Json::array();
  for (const ModelCard& card : site.backend->models()) {
    if (!card.is_loaded) continue;
    Json json = listed_model(site, card);
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
    const ModelHeader header = site.backend->header(card.name);
    const std::string& chat_template = card.is_loaded ? card.chat_template : header.chat_template;
    Json json = Json::object();
    json["modelfile"] = "";
    json["parameters"] = "";
    json["template"] = chat_template;
    json["details"] = model_details(header);
    json["model_info"] = model_info(card, header);
    json["capabilities"] = Json::array();
    if (card.answers) json["capabilities"].push_back("completion");
    if (card.embedding_dim > 0) json["capabilities"].push_back("embedding");
    if (chat_template.find("tools") != std::string::npos) json["capabilities"].push_back("tools");
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
