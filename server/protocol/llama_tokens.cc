// /tokenize, /detokenize, /apply-template and /props (llama.cpp).
//
// What needs a model is done by the service, as a task: a handler's thread waits for no model, and for no long text.
#include <string>
#include <utility>

#include "base/utf8.h"
#include "server/protocol/llama_server.h"
#include "server/protocol/openai_chat.h"
#include "server/protocol/prompt_fields.h"
#include "server/protocol/request_namespace.h"

namespace ibid::serve {

namespace {

constexpr Field<TokenCall> kModelOfTokens = {
    model_field<TokenCall>().rule,
    [](const Json& value, TokenCall& call) { return call.model = value.get<std::string>(), MaybeFault(); }};

constexpr Field<TokenCall> kTokenizeFields[] = {
    kModelOfTokens,
    user_field<TokenCall>(),
    {{"content", Shape::kText, "the text", 0, 1 << 30, Standing::kRead, "", true},
     [](const Json& value, TokenCall& call) { return call.content = value.get<std::string>(), MaybeFault(); }},
    {{"add_special", Shape::kBoolean, "with what the model's texts begin and end with (BOS)"},
     [](const Json& value, TokenCall& call) { return call.add_special = value.get<bool>(), MaybeFault(); }},
    {{"parse_special", Shape::kBoolean, "special tokens in the text are meant; true where it is absent"},
     [](const Json& value, TokenCall& call) { return call.parse_special = value.get<bool>(), MaybeFault(); }},
    {{"with_pieces", Shape::kBoolean, "each token with its text, or its bytes where they are none"},
     [](const Json& value, TokenCall& call) { return call.with_pieces = value.get<bool>(), MaybeFault(); }},
};

constexpr Field<TokenCall> kDetokenizeFields[] = {
    kModelOfTokens,
    user_field<TokenCall>(),
    {{"tokens", Shape::kList, "token ids", 0, static_cast<double>(kMaxPromptIds), Standing::kRead,
      R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":2147483647}})", true},
     [](const Json& value, TokenCall& call) { return read_token_ids(value, call.tokens); }},
};

MaybeFault read_tokens_call(const Site& site, const http::Request& source, std::span<const Field<TokenCall>> fields,
                            TokenCall& call) {
  if (MaybeFault fault = check_text_body(source)) return fault;
  Json body;
  if (MaybeFault fault = parse_body(source.body, body)) return fault;
  if (MaybeFault fault = read_namespace(site, source, body, call.cache_namespace)) return fault;
  return read_fields(body, fields, call);
}

Json piece_json(TokenId id, const Tokenizer& tokenizer) {
  const std::string bytes(tokenizer.token_bytes(id));
  Json json = Json::object();
  json["id"] = id;
  if (utf8_is_valid(bytes)) {
    json["piece"] = bytes;
  } else {
    json["piece"] = Json::array();
    for (const char c : bytes) json["piece"].push_back(static_cast<unsigned char>(c));
  }
  return json;
}

}  // namespace

std::span<const Field<TokenCall>> tokenize_fields() { return kTokenizeFields; }
std::span<const Field<TokenCall>> detokenize_fields() { return kDetokenizeFields; }

namespace {

// Has the model's tokenizer do something with the call: a response, or a fault.
void with_tokenizer(const Site& site, const http::ExchangePtr& exchange, TokenCall call,
                    MaybeFault (*use)(const TokenCall& call, const Tokenizer& tokenizer, Json& json)) {
  ModelCall model{.model = call.model, .cache_namespace = call.cache_namespace,
                  .n_bytes = exchange->request().body.size()};
  const auto then = [exchange, call = std::move(call), use](const Result<std::shared_ptr<const Tokenizer>>& loaded) {
    Json json = Json::object();
    MaybeFault fault = loaded.ok() ? use(call, **loaded, json) : fault_of(loaded.status());
    fault ? respond_fault(*exchange, *fault, ErrorStyle::kOpenAi) : respond_json(*exchange, json);
  };
  site.backend->with_tokenizer(std::move(model), then, exchange->gone());
}

MaybeFault tokenize(const TokenCall& call, const Tokenizer& tokenizer, Json& json) {
  const TextOrigin origin = call.parse_special ? TextOrigin::kTemplate : TextOrigin::kInput;
  Json tokens = Json::array();
  for (const TokenId id : tokenizer.encode(call.content, origin, call.add_special)) {
    tokens.push_back(call.with_pieces ? piece_json(id, tokenizer) : Json(id));
  }
  json["tokens"] = std::move(tokens);
  return {};
}

MaybeFault detokenize(const TokenCall& call, const Tokenizer& tokenizer, Json& json) {
  for (size_t i = 0; i < call.tokens.size(); ++i) {
    if (static_cast<size_t>(call.tokens[i]) < tokenizer.vocab_size()) continue;
    return Fault{.message = "is beyond the model's vocabulary", .param = "tokens[" + std::to_string(i) + "]"};
  }
  json["content"] = tokenizer.decode(call.tokens);
  return {};
}

}  // namespace

void post_tokenize(const Site& site, const http::ExchangePtr& exchange) {
  TokenCall call;
  if (MaybeFault fault = read_tokens_call(site, exchange->request(), tokenize_fields(), call)) {
    return respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
  }
  with_tokenizer(site, exchange, std::move(call), tokenize);
}

void post_detokenize(const Site& site, const http::ExchangePtr& exchange) {
  TokenCall call;
  if (MaybeFault fault = read_tokens_call(site, exchange->request(), detokenize_fields(), call)) {
    return respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
  }
  with_tokenizer(site, exchange, std::move(call), detokenize);
}

void post_apply_template(const Site& site, const http::ExchangePtr& exchange) {
  ChatCall call;
  MaybeFault fault = check_text_body(exchange->request());
  if (!fault) fault = read_chat(site, exchange->request(), call);
  if (fault) return respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
  const auto then = [exchange](const Result<std::string>& prompt) {
    if (!prompt.ok()) return respond_fault(*exchange, fault_of(prompt.status()), ErrorStyle::kOpenAi);
    Json json = Json::object();
    json["prompt"] = *prompt;
    respond_json(*exchange, json);
  };
  site.backend->render_prompt(std::move(call.request), then, exchange->gone());
}

void get_props(const Site& site, const http::ExchangePtr& exchange) {
  const std::vector<ModelCard> cards = site.backend->models();
  const ModelCard card = cards.empty() ? ModelCard() : cards.front();
  // Clients of now look for the settings in "params", older ones beside n_ctx.
  Json settings = generation_settings({.options = site.backend->default_options(card.name)}, true);
  Json params = settings;
  settings["n_ctx"] = card.max_seq_len;
  settings["params"] = std::move(params);
  Json modalities = Json::object();
  modalities["vision"] = false;
  modalities["audio"] = false;
  Json json = Json::object();
  json["default_generation_settings"] = std::move(settings);
  json["total_slots"] = 1;
  json["model_alias"] = card.name;
  json["chat_template"] = card.chat_template;
  json["modalities"] = std::move(modalities);
  json["build_info"] = "ibid " + site.version;
  respond_json(*exchange, json);
}

}  // namespace ibid::serve
