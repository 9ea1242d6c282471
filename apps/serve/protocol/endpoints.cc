#include "apps/serve/protocol/endpoints.h"

#include <algorithm>

#include "apps/serve/protocol/answer_fields.h"
#include "apps/serve/protocol/anthropic.h"
#include "apps/serve/protocol/anthropic_input.h"
#include "apps/serve/protocol/llama_server.h"
#include "apps/serve/protocol/ollama.h"
#include "apps/serve/protocol/ollama_input.h"
#include "apps/serve/protocol/openai_chat.h"
#include "apps/serve/protocol/openai_completions.h"
#include "apps/serve/protocol/openai_models.h"
#include "apps/serve/protocol/responses.h"
#include "apps/serve/protocol/sampler_fields.h"

namespace ibid::serve {

namespace {

// A protocol's own row of a field stands for the shared one of that name.
template <typename Target>
void append_rules(std::vector<FieldRule>& rules, std::span<const Field<Target>> fields) {
  for (const Field<Target>& field : fields) {
    const bool is_there = std::any_of(rules.begin(), rules.end(),
                                      [&](const FieldRule& rule) { return rule.name == field.rule.name; });
    if (!is_there) rules.push_back(field.rule);
  }
}

template <typename Target>
std::vector<FieldRule> own_rules(std::span<const Field<Target>> own) {
  std::vector<FieldRule> rules;
  append_rules(rules, own);
  return rules;
}

template <typename Target>
std::vector<FieldRule> prompt_rules(std::span<const Field<Target>> own) {
  std::vector<FieldRule> rules = own_rules(own);
  append_rules(rules, sampler_fields());
  append_rules(rules, common_answer_fields());
  return rules;
}

template <typename Target>
std::vector<FieldRule> message_rules(std::span<const Field<Target>> own) {
  std::vector<FieldRule> rules = prompt_rules(own);
  append_rules(rules, chat_answer_fields());
  return rules;
}

std::vector<FieldRule> ollama_rules(std::span<const Field<OllamaCall>> own) {
  std::vector<FieldRule> rules = own_rules(own);
  append_rules(rules, ollama_fields());
  append_rules(rules, sampler_fields());
  append_rules(rules, common_answer_fields());
  append_rules(rules, chat_answer_fields());
  return rules;
}

constexpr FieldRule kShownModel = {.name = "model", .shape = Shape::kText, .about = "a name of /api/tags", .least = 0,
                                   .most = 512, .required = true};

void refuse_embeddings(const http::ExchangePtr& exchange) {
  respond_fault(*exchange, {.status = 501, .message = "embeddings are not supported", .code = "unsupported"},
                style_of_path(exchange->request().path));
}

using Parts = http::PathParts;
using http::ExchangePtr;

constexpr Endpoint kEndpoints[] = {
    {"OpenAI", "GET", "/v1/models", "The models that there are.", nullptr,
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { get_models(site, exchange); }},
    {"OpenAI", "GET", "/v1/models/{id}", "One model.", nullptr,
     [](const Site& site, const ExchangePtr& exchange, const Parts& parts) { get_model(site, exchange, parts.at(0)); }},
    {"OpenAI", "POST", "/v1/chat/completions", "Answers a conversation, the whole of which is sent each time.",
     [] { return message_rules(chat_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_chat_completions(site, exchange); }},
    {"OpenAI", "POST", "/v1/completions", "Goes on with a text.", [] { return prompt_rules(completion_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_completions(site, exchange); }},
    {"OpenAI", "POST", "/v1/responses", "Answers items; later requests go on from it by its id.",
     [] { return message_rules(response_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_responses(site, exchange); }},
    {"OpenAI", "GET", "/v1/responses/{id}", "A response that is stored.", nullptr,
     [](const Site& site, const ExchangePtr& exchange, const Parts& parts) {
       get_response(site, exchange, parts.at(0));
     }},
    {"OpenAI", "DELETE", "/v1/responses/{id}", "Forgets a response.", nullptr,
     [](const Site& site, const ExchangePtr& exchange, const Parts& parts) {
       delete_response(site, exchange, parts.at(0));
     }},
    {"OpenAI", "POST", "/v1/embeddings", "501: no model here makes embeddings.", nullptr,
     [](const Site&, const ExchangePtr& exchange, const Parts&) { refuse_embeddings(exchange); }},

    {"Anthropic", "POST", "/v1/messages", "Answers a conversation, the whole of which is sent each time.",
     [] { return message_rules(messages_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_messages(site, exchange); }},
    {"Anthropic", "POST", "/v1/messages/count_tokens", "How many tokens such a request has; nothing is computed.",
     [] { return message_rules(messages_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_count_tokens(site, exchange); }},

    {"Ollama", "POST", "/api/chat", "Answers a conversation, the whole of which is sent each time.",
     [] { return ollama_rules(ollama_chat_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_ollama_chat(site, exchange); }},
    {"Ollama", "POST", "/api/generate", "Answers one message, or goes on with a text (raw).",
     [] { return ollama_rules(ollama_generate_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_ollama_generate(site, exchange); }},
    {"Ollama", "POST", "/api/show", "One model.", [] { return std::vector<FieldRule>{kShownModel}; },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_ollama_show(site, exchange); }},
    {"Ollama", "GET", "/api/tags", "The models that there are.", nullptr,
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { get_ollama_tags(site, exchange); }},
    {"Ollama", "GET", "/api/ps", "The models that are loaded.", nullptr,
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { get_ollama_ps(site, exchange); }},
    {"Ollama", "GET", "/api/version", "The version of the server.", nullptr,
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { get_ollama_version(site, exchange); }},
    {"Ollama", "POST", "/api/embed", "501: no model here makes embeddings.", nullptr,
     [](const Site&, const ExchangePtr& exchange, const Parts&) { refuse_embeddings(exchange); }},

    {"llama.cpp", "POST", "/completion", "Goes on with a text.", [] { return prompt_rules(llama_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_llama_completion(site, exchange); }},
    {"llama.cpp", "POST", "/tokenize", "The token ids of a text.", [] { return own_rules(tokenize_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_tokenize(site, exchange); }},
    {"llama.cpp", "POST", "/detokenize", "The text of token ids.", [] { return own_rules(detokenize_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_detokenize(site, exchange); }},
    {"llama.cpp", "POST", "/apply-template", "The prompt that a chat completion would have.",
     [] { return message_rules(chat_fields()); },
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { post_apply_template(site, exchange); }},
    {"llama.cpp", "GET", "/props", "The first model, and what the server is.", nullptr,
     [](const Site& site, const ExchangePtr& exchange, const Parts&) { get_props(site, exchange); }},
};

}  // namespace

std::span<const Endpoint> endpoints() { return kEndpoints; }

void add_endpoints(http::Router& router, const Site& site) {
  for (const Endpoint& endpoint : endpoints()) {
    router.add(endpoint.method, endpoint.pattern,
               [site, handle = endpoint.handle](http::ExchangePtr exchange, const http::PathParts& parts) {
                 handle(site, exchange, parts);
               });
  }
}

}  // namespace ibid::serve
